"""A whole cluster in one thread, on a clock that the simulation moves: the same seed gives the same run again."""
