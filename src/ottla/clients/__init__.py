"""The project's own clients."""
