"""Generated app traffic: normal lives, planted cheats and decoys, with their labels kept apart. Knows no detector."""
