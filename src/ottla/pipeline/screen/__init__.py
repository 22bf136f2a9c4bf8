"""What the pipeline shows on a terminal, and without one."""
