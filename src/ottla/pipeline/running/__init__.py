"""Jobs as streaming queries: their checkpoints, restarts, offsets of groups, figures."""
