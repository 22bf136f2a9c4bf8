"""The one exception of this room: bytes that are no whole, consistent record batch."""


class CorruptBatch(Exception):
    """The bytes don't hold what their own lengths and counts say, or the checksum or the codec refuses them."""
