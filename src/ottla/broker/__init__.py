"""The composition root: wires the rooms to one broker and dispatches requests to handlers."""
