"""The log on disk: segments, indexes, logs, checkpoints, producer state, the log manager."""
