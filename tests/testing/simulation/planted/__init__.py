"""Bugs to plant into brokers, each a patch of one decision: what the simulator has to find."""
