"""Groups and their offsets as replayable shards: a request becomes records and an answer, state is the replay."""
