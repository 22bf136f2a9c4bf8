"""Recognises TLS and HTTP by a frame size that can't be one: the operator gets a reason, not a number."""

_HTTP_STARTS = frozenset(int.from_bytes(word, "big") for word in (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE"))
_TLS_HANDSHAKE_VERSIONS = range(0x160300, 0x160305)  # record type 22, versions 3.0 to 3.4, then the length
_SMALLEST_BYTES = 0x16030000


def looks_foreign(size: int) -> bool:
    """Whether the four bytes begin a TLS hello or an HTTP request.

    Such a "size" is 369 MB or more: only a broker with a `socket.request.max.bytes` over that would wait for the rest.
    """
    return size >= _SMALLEST_BYTES and (size in _HTTP_STARTS or size >> 8 in _TLS_HANDSHAKE_VERSIONS)


def describe_bad_size(size: int, *, max_bytes: int, is_authenticated: bool) -> str:
    """Why the frame is refused, for the log."""
    if size >> 8 in _TLS_HANDSHAKE_VERSIONS:
        return "a TLS handshake came on a plaintext listener"
    if size in _HTTP_STARTS:
        return "an HTTP request came on a Kafka listener"
    if size <= 0:
        return f"frame size {size} came, expected 1 to {max_bytes}"
    key = "socket.request.max.bytes" if is_authenticated else "the limit before authentication"
    return f"a frame of {size} bytes was announced, {key} is {max_bytes}"
