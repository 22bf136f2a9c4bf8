"""What the pipeline shows on a terminal, and what it shows where there is none."""
