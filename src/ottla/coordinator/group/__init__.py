"""The shards of __consumer_offsets: consumer groups and their committed offsets."""
