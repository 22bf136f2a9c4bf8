"""HTTP for monitoring: /metrics, /healthz, /readyz. On threads of its own.

It must answer when the event loop does not, so it shares nothing with it but questions that have a time limit. The
number of requests at a time is bounded, and the time of each; it is meant for a private address all the same.
"""

import gzip
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from time import sleep
from typing import NamedTuple

_REQUESTS_MAX = 16
_SOCKET_TIMEOUT_S = 5.0
_OUT_OF_DESCRIPTORS_PAUSE_S = 0.1
_COMPRESS_FROM_BYTES = 64 * 1024
_TEXT = "text/plain; charset=utf-8"


class Page(NamedTuple):
    """What a path is answered with."""

    status: int
    body: bytes
    content_type: str = _TEXT


# The value of the Accept header -> the page.
Pages = dict[str, Callable[[str], Page]]


class HttpServer:
    """Owns a listening socket from `serve`, which runs on a thread until `stop` is called on another."""

    def __init__(self, listening: socket.socket, pages: Pages) -> None:
        self._socket = listening
        self._pages = pages
        self._slots = threading.BoundedSemaphore(_REQUESTS_MAX)
        self._is_stopped = False

    def serve(self) -> None:
        while not self._is_stopped:
            try:
                accepted, peer = self._socket.accept()
            except OSError:
                if not self._is_stopped:
                    sleep(_OUT_OF_DESCRIPTORS_PAUSE_S)  # or the peer was gone already
                continue
            if not self._slots.acquire(blocking=False):
                accepted.close()
                continue
            threading.Thread(target=self._answer, args=(accepted, peer), name="ottla-http", daemon=True).start()
        self._socket.close()

    def stop(self) -> None:
        """Accept no more connections; requests that are being answered end by themselves."""
        self._is_stopped = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
        except OSError:
            pass  # it has ended already

    def _answer(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        try:
            with accepted:
                _Request(accepted, peer, self._pages)
        except OSError:
            pass  # the peer went away, or took too long
        finally:
            self._slots.release()


class _Request(BaseHTTPRequestHandler):
    """One request, one answer, then the connection is closed (HTTP/1.0, which every scraper speaks)."""

    timeout = _SOCKET_TIMEOUT_S

    def __init__(self, accepted: socket.socket, peer: tuple[str, int], pages: Pages) -> None:
        self._pages = pages
        super().__init__(accepted, peer, None)  # type: ignore[arg-type]  # it only keeps what it is given there

    def do_GET(self) -> None:
        self._send(self._page(), with_body=True)

    def do_HEAD(self) -> None:
        self._send(self._page(), with_body=False)

    def _page(self) -> Page:
        path = self.path.partition("?")[0]
        make = self._pages.get(path)
        if make is None:
            known = ", ".join(sorted(self._pages))
            return Page(404, f"{path}: not here; there are {known}\n".encode())
        return make(self.headers.get("Accept", ""))

    def _send(self, page: Page, *, with_body: bool) -> None:
        body = page.body
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        if len(body) >= _COMPRESS_FROM_BYTES and "gzip" in self.headers.get("Accept-Encoding", ""):
            # The fastest level: a tenth of the size for a tenth of the time that the best would take.
            body = gzip.compress(body, compresslevel=1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def version_string(self) -> str:
        return "ottla"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Probes come every few seconds: not worth a line each."""
