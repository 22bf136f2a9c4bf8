"""Tables for people: rows by condition, and the reasons of a verdict."""
