"""Dead letters: bad events on their way out, and back after the fix."""
