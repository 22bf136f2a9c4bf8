"""Reads and writes the primitive types of the wire protocol.

`Reader` is for untrusted bytes: it checks each read against the bytes left, and each count before it allocates
anything; what does not fit raises `ProtocolViolation`. The `write_` functions append to a bytearray and trust us.
"""

from collections.abc import Iterable
from struct import Struct, unpack_from
from typing import Any, Final

from ottla.core.errors import ProtocolViolation
from ottla.core.types import Buffer

# All array elements and tagged fields of one message together. The bytes left bound them too, but a Python object is
# far larger than its bytes: without this a frame of 100 MB could ask for gigabytes.
MAX_ELEMENTS: Final = 1_000_000

# As in Kafka: the compact form could hold more, the records and older versions that the string ends up in can't.
STRING_BYTES_MAX: Final = 32767

# In one struct. No message has more than a few; unknown ones are skipped one by one, so there must not be many.
MAX_TAGGED_FIELDS: Final = 128

INT8: Final = Struct(">b")
INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")


class Reader:
    """A position in the bytes of one message; `end` is the end of the message or of the current tagged field."""

    __slots__ = ("elements_left", "end", "position", "view")

    def __init__(self, data: Buffer, position: int = 0, *, max_elements: int = MAX_ELEMENTS) -> None:
        self.view = memoryview(data)
        self.position = position
        self.end = len(self.view)
        self.elements_left = max_elements

    @property
    def remaining(self) -> int:
        return self.end - self.position

    def violation(self, what: str) -> ProtocolViolation:
        return ProtocolViolation(f"{what} at byte {self.position} of {self.end}")

    def unpack(self, structure: Struct) -> tuple[Any, ...]:
        """A run of fixed-size values."""
        position = self.position
        end = position + structure.size
        if end > self.end:
            raise self.violation(f"message ends inside a value of {structure.size} bytes")
        self.position = end
        return structure.unpack_from(self.view, position)

    def int8(self) -> int:
        value: int = self.unpack(INT8)[0]
        return value

    def int16(self) -> int:
        value: int = self.unpack(INT16)[0]
        return value

    def int32(self) -> int:
        value: int = self.unpack(INT32)[0]
        return value

    def int64(self) -> int:
        value: int = self.unpack(INT64)[0]
        return value

    def unsigned_varint(self) -> int:
        """At most 5 bytes and 32 bits."""
        position = self.position
        if position < self.end:
            byte = self.view[position]
            if byte < 0x80:  # nearly always
                self.position = position + 1
                return byte
        return self._varint(5, 0x0F)

    def unsigned_varlong(self) -> int:
        """At most 10 bytes and 64 bits."""
        return self._varint(10, 0x01)

    def signed_varint(self) -> int:
        value = self._varint(5, 0x0F)
        return (value >> 1) ^ -(value & 1)

    def signed_varlong(self) -> int:
        value = self._varint(10, 0x01)
        return (value >> 1) ^ -(value & 1)

    def _varint(self, max_length: int, last_byte_max: int) -> int:
        position = self.position
        if position >= self.end:
            raise self.violation("message ends before a varint")
        view = self.view
        byte = view[position]
        if byte < 0x80:
            self.position = position + 1
            return byte
        value = byte & 0x7F
        for index in range(1, max_length):
            if position + index >= self.end:
                raise self.violation("message ends inside a varint")
            byte = view[position + index]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if index == max_length - 1 and byte > last_byte_max:
                    break
                self.position = position + index + 1
                return value
        raise self.violation(f"varint of more than {max_length} bytes or too many bits")

    def view_of(self, length: int) -> memoryview:
        """The next bytes, not copied."""
        position = self.position
        end = position + length
        if length < 0 or end > self.end:
            raise self.violation(f"length {length} with {self.remaining} bytes left")
        self.position = end
        return self.view[position:end]

    def _text(self, length: int) -> str:
        start = self.position
        if length > STRING_BYTES_MAX:
            raise self.violation(f"string of {length} bytes, {STRING_BYTES_MAX} are allowed")
        try:
            return str(self.view_of(length), "utf-8")
        except UnicodeDecodeError as error:
            self.position = start
            raise self.violation("string is not UTF-8") from error

    def string(self) -> str:
        return self._text(self.int16())

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length == -1 else self._text(length)

    def compact_string(self) -> str:
        text = self._short_compact_text()
        return self._text(self.unsigned_varint() - 1) if text is None else text

    def _short_compact_text(self) -> str | None:
        """The fast path for nearly every string: complete, its length in one byte. Else None, with nothing read."""
        start = self.position
        if start >= self.end:
            return None
        size = self.view[start]  # of the text and of this byte
        end = start + size
        if not 0 < size < 0x80 or end > self.end:
            return None
        try:
            text = str(self.view[start + 1 : end], "utf-8")
        except UnicodeDecodeError:
            return None
        self.position = end
        return text

    def compact_nullable_string(self) -> str | None:
        text = self._short_compact_text()
        if text is not None:
            return text
        length = self.unsigned_varint() - 1
        return None if length < 0 else self._text(length)

    def blob(self) -> bytes:
        return bytes(self.view_of(self.int32()))

    def nullable_blob(self) -> bytes | None:
        length = self.int32()
        return None if length == -1 else bytes(self.view_of(length))

    def compact_blob(self) -> bytes:
        return bytes(self.view_of(self.unsigned_varint() - 1))

    def compact_nullable_blob(self) -> bytes | None:
        length = self.unsigned_varint() - 1
        return None if length < 0 else bytes(self.view_of(length))

    # Each of these checks the count before it returns it: that many elements of at least that size fit into the rest.

    def count(self, min_element_bytes: int) -> int:
        return self._proven(self.int32(), min_element_bytes)

    def nullable_count(self, min_element_bytes: int) -> int:
        """-1 is the null array."""
        count = self.int32()
        return -1 if count == -1 else self._proven(count, min_element_bytes)

    def compact_count(self, min_element_bytes: int) -> int:
        return self._proven(self.unsigned_varint() - 1, min_element_bytes)

    def compact_nullable_count(self, min_element_bytes: int) -> int:
        """-1 is the null array."""
        count = self.unsigned_varint() - 1
        return -1 if count == -1 else self._proven(count, min_element_bytes)

    def _proven(self, count: int, min_element_bytes: int) -> int:
        if count < 0 or count * min_element_bytes > self.end - self.position or count > self.elements_left:
            raise self.violation(f"array of {count} elements with {self.remaining} bytes left")
        self.elements_left -= count
        return count

    def unpack_array(self, count: int, code: str, element_bytes: int) -> list[Any]:
        """`count` fixed-size values; the caller has checked the count."""
        position = self.position
        self.position = position + count * element_bytes
        return list(unpack_from(f">{count}{code}", self.view, position))

    def tagged_field_count(self) -> int:
        count = self.unsigned_varint()
        # A tagged field has at least a tag and a size.
        if count and (count > MAX_TAGGED_FIELDS or count > self.elements_left or count * 2 > self.remaining):
            raise self.violation(f"{count} tagged fields with {self.remaining} bytes left")
        self.elements_left -= count
        return count

    def skip_tagged_fields(self) -> None:
        """Skip the tagged fields of a struct that has no known ones."""
        position = self.position
        if position < self.end and not self.view[position]:
            self.position = position + 1  # nearly always there is none
            return
        for _ in range(self.tagged_field_count()):
            self.unsigned_varint()
            self.view_of(self.unsigned_varint())

    def skip_tagged_fields_at(self, position: int) -> int:
        """The same for a hand-written decoder that keeps its own position."""
        self.position = position
        self.skip_tagged_fields()
        return self.position

    def enter_tagged_field(self) -> int:
        """Read the size of a tagged field and set `end` to it; returns the outer end, for `leave_tagged_field`."""
        size = self.unsigned_varint()
        outer_end = self.end
        if size > outer_end - self.position:
            raise self.violation(f"tagged field of {size} bytes with {self.remaining} bytes left")
        self.end = self.position + size
        return outer_end

    def leave_tagged_field(self, outer_end: int) -> None:
        if self.position != self.end:
            raise self.violation("tagged field is longer than its value")
        self.end = outer_end


def write_unsigned_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def unsigned_varint_bytes(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    write_unsigned_varint(out, value)
    return bytes(out)


def read_unsigned_varint(view: memoryview, position: int) -> tuple[int, int]:
    """The value and the position after it; IndexError at the end of the bytes. For hand-written decoders."""
    byte = view[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = view[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position + 1
    raise ProtocolViolation(f"varint of more than 32 bits at byte {position}")


def write_string(out: bytearray, value: str) -> None:
    data = value.encode()
    out += INT16.pack(len(data))
    out += data


def write_nullable_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out += b"\xff\xff"
    else:
        write_string(out, value)


def write_compact_string(out: bytearray, value: str) -> None:
    write_compact_bytes(out, value.encode())


def write_compact_nullable_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out.append(0)
    else:
        write_compact_bytes(out, value.encode())


def write_bytes(out: bytearray, value: Buffer) -> None:
    out += INT32.pack(len(value))
    out += value


def write_nullable_bytes(out: bytearray, value: Buffer | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
    else:
        write_bytes(out, value)


def write_compact_bytes(out: bytearray, value: Buffer) -> None:
    size = len(value) + 1
    if size < 0x80:
        out.append(size)
    else:
        write_unsigned_varint(out, size)
    out += value


def write_compact_nullable_bytes(out: bytearray, value: Buffer | None) -> None:
    if value is None:
        out.append(0)
    else:
        write_compact_bytes(out, value)


def write_count(out: bytearray, count: int) -> None:
    out += INT32.pack(count)


def write_compact_count(out: bytearray, count: int) -> None:
    write_unsigned_varint(out, count + 1)


def write_tagged_fields(out: bytearray, fields: Iterable[tuple[int, Buffer]]) -> None:
    """The tagged fields at the end of a flexible struct; tags have to grow."""
    present = list(fields)
    write_unsigned_varint(out, len(present))
    for tag, value in present:
        write_unsigned_varint(out, tag)
        write_unsigned_varint(out, len(value))
        out += value
