"""Jobs as streaming queries: checkpoints, restarts, group offsets, progress figures."""
