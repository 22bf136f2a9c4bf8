"""The coordination store: its port, the embedded engine, the tree of nodes with their JSON."""
