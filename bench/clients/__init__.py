"""Python clients at the same work on the same broker, each run in a process of its own: `worker.py` is its door."""
