"""`make run`: the whole pipeline on this machine, live, and the proof at its end that it did what it should."""
