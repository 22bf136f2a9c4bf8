"""Zigzag varints, the numbers inside records.

Readers take `bytes` and raise IndexError at the end of the data: a caller that reads many of them catches it once.
"""

from ottla.records.errors import CorruptBatch

_ONE_BYTE = [bytes((value,)) for value in range(128)]
_MAX_SHIFT = 63  # the tenth byte: a 64-bit number has no more


def encode_varint(value: int) -> bytes:
    """A signed 64-bit number in 1 to 10 bytes."""
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return _ONE_BYTE[rest]
    if rest < 0x4000:
        return bytes((rest & 0x7F | 0x80, rest >> 7))
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """(number, position after it)."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    rest = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > _MAX_SHIFT:
            raise CorruptBatch("a number of more than ten bytes")
    if rest >= 1 << 64:
        raise CorruptBatch("a number of more than 64 bits")
    return (rest >> 1) ^ -(rest & 1), position
