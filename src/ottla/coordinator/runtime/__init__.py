"""Runs shards of any kind, one for each partition of a topic: loads them, appends what they decide, unloads them."""
