"""The sending half of a connection: what waits to be sent, by `send`, `sendmsg` or `sendfile`, in bounded turns.

Owns nothing but the queue; the socket is its connection's. A slice of a file is never in memory before its turn.
"""

import os
import socket
from collections.abc import Sequence
from typing import Protocol

from ottla.core.disk import FileSlice
from ottla.core.operating_system import MSG_MORE
from ottla.core.types import Buffer
from ottla.net.environment import Environment
from ottla.net.page_cache import TruncatedSliceError, read_slice, warm

# At and over this size a slice goes by sendfile; below it one read and one send cost less. Measured on loopback: at
# 256 KB the read is ahead by a fifth, at 512 KB they are equal, at 1 MB sendfile is ahead by a third.
SENDFILE_MIN_BYTES = 512 * 1024

_TURN_MAX_BYTES = 2 * 1024 * 1024  # then it's the other connections' turn
_GATHER_MAX_BYTES = 256 * 1024
_GATHER_MAX_PARTS = 64  # well under the kernel's 1,024
_JOIN_MAX_BYTES = 16 * 1024  # up to here copying into one buffer costs less than a vector of many

Part = Buffer | FileSlice


class OutboxOwner(Protocol):
    """The connection, as its outbox sees it."""

    def close(self, reason: str) -> None: ...

    def watch(self) -> None:
        """Output is stuck; look after it."""
        ...

    def on_output_drained(self) -> None: ...

    def on_reset(self) -> None:
        """The peer takes nothing more; what was queued is gone."""
        ...


class Outbox:
    """Lives as long as its connection. `queued_bytes` counts what is in memory; slices of files weigh nothing."""

    __slots__ = (
        "_cached_until",
        "_environment",
        "_fd",
        "_is_reading_cold",
        "_owner",
        "_socket",
        "is_stuck",
        "last_progress_tick",
        "parts",
        "queued_bytes",
    )

    def __init__(self, environment: Environment, sock: socket.socket, owner: OutboxOwner) -> None:
        self._environment = environment
        self._socket = sock
        self._fd = sock.fileno()
        self._owner: OutboxOwner | None = owner
        self.parts: list[Part] = []  # for others its length only; a call of `__len__` takes many times as long
        self._cached_until = -1  # position in the file of the first part up to which it is known to be cached
        self._is_reading_cold = False
        self.is_stuck = False  # waits for the socket to take more
        self.last_progress_tick = 0
        self.queued_bytes = 0

    def __len__(self) -> int:
        return len(self.parts)

    def send(self, parts: list[Part]) -> None:
        """Send the parts after all that is queued; what the socket doesn't take now is sent when it does."""
        first = parts[0]
        if len(parts) == 1 and not isinstance(first, FileSlice):  # nearly always
            self.send_one(first)
        elif self.parts or FileSlice in map(type, parts) or sum(map(len, parts)) > _GATHER_MAX_BYTES:
            self._enqueue(parts)
            if not self.is_stuck and not self._is_reading_cold:
                self._write()
        else:
            self.send_one(b"".join(parts))  # type: ignore[arg-type]  # no slice among them, as just seen

    def send_one(self, data: Buffer) -> None:
        """As `send`, for a single buffer."""
        if self.parts:
            self._enqueue([data])
            if not self.is_stuck and not self._is_reading_cold:
                self._write()
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._on_refused()
            return
        self._environment.metrics.bytes_out += sent
        if sent != len(data):
            self._enqueue([memoryview(data)[sent:]])
            self._wait_for_socket()

    def close(self) -> None:
        """Drop what is queued, and the references that hold the connection in memory."""
        self.drop()
        self._owner = None

    def drop(self) -> None:
        """Forget what is queued: the peer takes nothing more."""
        if self.is_stuck:
            self.is_stuck = False
            self._environment.loop.remove_writer(self._fd)
        self.parts = []
        self.queued_bytes = 0

    def _enqueue(self, parts: Sequence[Part]) -> None:
        self.parts.extend(parts)
        self.queued_bytes += sum(0 if isinstance(part, FileSlice) else len(part) for part in parts)

    def _on_writable(self) -> None:
        self._write()

    def _write(self) -> None:
        turn_bytes = 0
        try:
            while self.parts:
                if turn_bytes >= _TURN_MAX_BYTES:
                    self._wait_for_socket()
                    return
                first = self.parts[0]
                if isinstance(first, FileSlice) and _goes_by_sendfile(first):
                    sent = self._send_file(first)
                else:
                    sent = self._send_gathered()
                if sent < 0:
                    return  # a thread reads; it calls back
                turn_bytes += sent
                self._environment.metrics.bytes_out += sent
                self.last_progress_tick = self._environment.tick
        except BlockingIOError:
            self._wait_for_socket()
            return
        except (ConnectionError, TimeoutError):
            self._on_refused()
            return
        except TruncatedSliceError:
            self._break("file truncated under an answer")
            return
        except OSError as error:
            self._environment.log.info("sending an answer failed: %s", error)
            self._break("send failed")
            return
        if self.is_stuck:
            self.is_stuck = False
            self._environment.loop.remove_writer(self._fd)
        if self._owner is not None:
            self._owner.on_output_drained()

    def _send_file(self, part: FileSlice) -> int:
        """Send a turn's worth of the first part; the bytes sent, or -1 when they are being read from the disk."""
        file, position, length = part
        wanted = min(length, _TURN_MAX_BYTES)
        if position >= self._cached_until:
            if not self._environment.page_cache.is_cached(part, wanted):
                self._read_cold(part, wanted)
                return -1
            self._cached_until = position + wanted
        sent = os.sendfile(self._fd, file.fd, position, min(wanted, self._cached_until - position))
        if sent == 0:
            raise TruncatedSliceError(f"0 of {length} bytes at {position}")
        if sent == length:
            del self.parts[0]
            self._cached_until = -1
        else:
            self.parts[0] = rest = FileSlice(file, position + sent, length - sent)
            if not _goes_by_sendfile(rest):
                self._cached_until = -1
        return sent

    def _send_gathered(self) -> int:
        """Send the buffers and small slices at the front together; the bytes sent, or -1 as `_send_file`."""
        parts = self.parts
        batch: list[Buffer] = []
        total = 0
        flags = 0
        for part in parts:
            if total >= _GATHER_MAX_BYTES or len(batch) >= _GATHER_MAX_PARTS:
                break
            if isinstance(part, FileSlice):
                if _goes_by_sendfile(part):
                    flags = MSG_MORE  # the header travels in one packet with the records after it
                    break
                data = self._environment.page_cache.read_if_cached(part)
                if data is None:
                    if not batch:
                        self._read_cold(part, part.length)
                        return -1
                    break
                parts[len(batch)] = data  # stays read if the socket doesn't take it now
                self.queued_bytes += len(data)
            else:
                data = part
            batch.append(data)
            total += len(data)
        if len(batch) == 1:
            sent = self._socket.send(batch[0], flags)
        elif total <= _JOIN_MAX_BYTES:
            sent = self._socket.send(b"".join(batch), flags)
        else:
            sent = self._socket.sendmsg(batch, (), flags)
        self.queued_bytes -= sent
        if sent == total:
            del parts[: len(batch)]
        else:
            self._drop_sent(sent)
        return sent

    def _drop_sent(self, sent: int) -> None:
        parts = self.parts
        done = 0
        for part in parts:
            assert not isinstance(part, FileSlice)
            if len(part) > sent:
                parts[done] = memoryview(part)[sent:]
                break
            sent -= len(part)
            done += 1
        del parts[:done]

    def _wait_for_socket(self) -> None:
        if not self.is_stuck:
            self.is_stuck = True
            environment = self._environment
            self.last_progress_tick = environment.tick
            environment.loop.add_writer(self._fd, self._on_writable)
            if self._owner is not None:
                self._owner.watch()

    def _read_cold(self, part: FileSlice, length: int) -> None:
        """Have a thread read what the first part needs; until then nothing is sent here."""
        if self.is_stuck:
            self.is_stuck = False
            self._environment.loop.remove_writer(self._fd)
        self._is_reading_cold = True
        self._environment.metrics.cold_reads += 1
        self._environment.executor.submit(self._read_on_thread, part, length)

    def _read_on_thread(self, part: FileSlice, length: int) -> None:
        # The thread holds the slice and with it the file, so its descriptor can't be closed and reused meanwhile.
        data: bytes | None = None
        is_readable = True
        try:
            if _goes_by_sendfile(part):
                warm(part, length)
            else:
                data = read_slice(part)
        except (OSError, TruncatedSliceError):
            is_readable = False
        self._environment.loop.call_soon_threadsafe(self._on_cold_read, part, length, data, is_readable)

    def _on_cold_read(self, part: FileSlice, length: int, data: bytes | None, is_readable: bool) -> None:
        self._is_reading_cold = False
        if self._owner is None or not self.parts:
            return
        if not is_readable:
            self._break("file truncated under an answer")
            return
        if data is not None:
            self.parts[0] = data
            self.queued_bytes += len(data)
        else:
            # Not probed again: under memory pressure the pages may be gone already, and the peer would wait for ever.
            self._cached_until = part.position + length
        self._write()

    def _on_refused(self) -> None:
        self.drop()
        if self._owner is not None:
            self._owner.on_reset()

    def _break(self, reason: str) -> None:
        if self._owner is not None:
            self._owner.close(reason)


def _goes_by_sendfile(part: FileSlice) -> bool:
    return part.length >= SENDFILE_MIN_BYTES and part.file.fd >= 0
