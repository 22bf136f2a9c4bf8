"""Tables for people: rows by condition, and the story behind a verdict."""
