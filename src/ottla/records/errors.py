"""The one exception of this room: bytes that are not a whole, consistent record batch."""


class CorruptBatch(Exception):
    """The bytes contradict their own lengths and counts, or the checksum or the codec refuses them."""
