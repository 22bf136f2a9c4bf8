"""Splits a stream of bytes into whole frames of the Kafka protocol; keeps the incomplete rest."""

from struct import Struct
from typing import Final

_SIZE: Final = Struct(">i")
_FRAME_BYTES_MAX: Final = 1 << 30


class NotFrames(Exception):
    """The bytes are not frames (TLS, HTTP, noise); `rest` is everything after the last frame."""

    def __init__(self, frames: list[bytes], rest: bytes) -> None:
        super().__init__(f"{rest[:4]!r} is not the size of a frame")
        self.frames = frames
        self.rest = rest


class FrameStream:
    """Takes the bytes of a socket; one for each direction of a connection."""

    __slots__ = ("_have", "_need", "_parts")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._have = 0
        self._need = 4  # bytes until the next frame can be cut

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete now, each with its size in front."""
        self._parts.append(data)
        self._have += len(data)
        if self._have < self._need:
            return []
        buffer = data if len(self._parts) == 1 else b"".join(self._parts)
        frames: list[bytes] = []
        position = 0
        end = len(buffer)
        self._need = 4
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(buffer, position)
            if not 0 <= size <= _FRAME_BYTES_MAX:
                raise NotFrames(frames, buffer[position:])
            if end - position < 4 + size:
                self._need = 4 + size
                break
            frames.append(buffer[position : position + 4 + size])
            position += 4 + size
        self._parts = [buffer[position:]] if position < end else []
        self._have = end - position
        return frames
