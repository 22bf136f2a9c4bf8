"""Generated app traffic: normal users, planted cheats and decoys, with their labels kept apart. Knows no detector."""
