"""Dead letters: bad records to their topics, and back after the fix."""
