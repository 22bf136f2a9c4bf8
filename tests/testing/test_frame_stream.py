"""Frames out of a stream, however it is cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.testing.frame_stream import FrameStream, NotFrames


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@settings(deadline=None, max_examples=60)
@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30)))
def test_frames_are_the_same_however_the_stream_is_cut(bodies: list[bytes], cuts: list[int]) -> None:
    frames = [framed(body) for body in bodies]
    data = b"".join(frames)
    stream = FrameStream()
    found = []
    for length in cuts:
        found += stream.feed(data[:length])
        data = data[length:]
    found += stream.feed(data)
    assert found == frames


def test_an_impossible_size_gives_back_what_is_left() -> None:
    stream = FrameStream()
    assert stream.feed(b"\0\0") == []
    with pytest.raises(NotFrames) as raised:
        stream.feed(b"\0\x01x" + b"\xff\xff\xff\xffrest")
    assert raised.value.frames == [framed(b"x")]
    assert raised.value.rest == b"\xff\xff\xff\xffrest"
