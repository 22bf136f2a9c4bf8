"""The command ottla."""
