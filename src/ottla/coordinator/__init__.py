"""Coordinators as replayable shards: a request becomes records and an answer; replaying them gives the state."""
