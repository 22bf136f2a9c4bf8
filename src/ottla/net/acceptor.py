"""Listening sockets: bound first, accepted from when the broker is ready, a bounded number per turn of the loop."""

import errno
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.core.config.listeners import Listener
from ottla.net.connection_quota import OPEN_FILES, ConnectionQuota
from ottla.net.environment import Environment
from ottla.net.limits import NetworkLimits

if TYPE_CHECKING:
    from asyncio import TimerHandle

_ACCEPTS_PER_TURN_MAX = 32
_OUT_OF_DESCRIPTORS_PAUSE_S = 0.1
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# (socket, address, listener name); the quota has admitted it.
OnAccepted = Callable[[socket.socket, str, str], None]


class BindError(OSError):
    """A listener's address can't be bound; the message names it and says why."""


class Acceptor:
    """One listener. Owned by the server; life: bind, start, stop (which closes the listening socket)."""

    __slots__ = (
        "_environment",
        "_is_accepting",
        "_is_out_of_descriptors",
        "_on_accepted",
        "_quota",
        "_socket",
        "_timer",
        "listener",
    )

    def __init__(
        self, environment: Environment, listener: Listener, quota: ConnectionQuota, on_accepted: OnAccepted
    ) -> None:
        self._environment = environment
        self._quota = quota
        self._on_accepted = on_accepted
        self._is_accepting = False
        self._is_out_of_descriptors = False
        self._timer: TimerHandle | None = None
        self._socket = _listen(listener, environment.limits)
        self.listener = listener._replace(port=self._socket.getsockname()[1])  # as bound

    def start(self) -> None:
        if not self._is_accepting:
            self._is_accepting = True
            self._environment.loop.add_reader(self._socket.fileno(), self._accept)

    def stop(self) -> None:
        self._pause()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._socket.close()

    def _pause(self) -> None:
        if self._is_accepting:
            self._is_accepting = False
            self._environment.loop.remove_reader(self._socket.fileno())

    def _pause_for(self, seconds: float) -> None:
        self._pause()
        self._timer = self._environment.loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._timer = None
        self.start()

    def _accept(self) -> None:
        environment = self._environment
        for _ in range(_ACCEPTS_PER_TURN_MAX):
            wait_s = self._quota.wait_s(environment.loop.time())
            if wait_s > 0:
                # As Kafka does: over the rate nobody is refused, new connections wait in the kernel's queue.
                environment.metrics.count_refused("max.connection.creation.rate")
                self._pause_for(wait_s)
                return
            try:
                accepted, peer = self._socket.accept()
            except BlockingIOError:
                self._quota.refund()
                return
            except OSError as error:
                self._quota.refund()
                if error.errno in _OUT_OF_DESCRIPTORS:
                    # The socket stays readable: without a pause the loop would spin and serve nobody.
                    environment.metrics.count_refused(OPEN_FILES)
                    if not self._is_out_of_descriptors:  # logged once, until a connection is accepted again
                        self._is_out_of_descriptors = True
                        environment.log.info(
                            "%s: accepting paused: %s; raise the limit of open files", self.listener, error
                        )
                    self._pause_for(_OUT_OF_DESCRIPTORS_PAUSE_S)
                    return
                continue  # that connection was gone before it was accepted (ECONNABORTED and the network's own errors)
            self._is_out_of_descriptors = False
            self._admit(accepted, _plain_address(peer[0]))

    def _admit(self, accepted: socket.socket, address: str) -> None:
        environment = self._environment
        broken_limit = self._quota.admit(address)
        if broken_limit is not None:
            accepted.close()
            environment.metrics.count_refused(broken_limit)
            environment.log.info("%s: connection refused, limit reached: %s", address, broken_limit)
            return
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:
            self._quota.release(address)
            accepted.close()
            return
        environment.metrics.accepted += 1
        self._on_accepted(accepted, address, self.listener.name)


def _listen(listener: Listener, limits: NetworkLimits) -> socket.socket:
    try:
        if not listener.host and socket.has_dualstack_ipv6():
            # Every interface, of both families, on one socket.
            bound = _open(socket.AF_INET6)
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            address: tuple[str, int] | tuple[str, int, int, int] = ("::", listener.port)
        else:
            found = socket.getaddrinfo(
                listener.host or "0.0.0.0", listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            # IPv4 first, as Java has it: `localhost` has to be where clients look for it.
            found.sort(key=lambda entry: entry[0] != socket.AF_INET)
            bound = _open(found[0][0])
            address = found[0][4]  # type: ignore[assignment]  # typeshed's third form is for builds without IPv6
    except OSError as error:
        raise BindError(f"{listener}: {error}; check the host in listeners") from error
    try:
        # On the listening socket: accepted ones inherit them, and the window scale is fixed before accept returns.
        if limits.socket_send_buffer_bytes > 0:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.socket_send_buffer_bytes)
        if limits.socket_receive_buffer_bytes > 0:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.socket_receive_buffer_bytes)
        bound.bind(address)
        bound.listen(limits.socket_listen_backlog_size)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise BindError(f"{listener}: can't listen there: {error.strerror}; choose another host or port") from error
    return bound


def _open(family: int) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return opened


def _plain_address(host: str) -> str:
    # An IPv4 peer on a socket of both families: the per-address limits know it by its plain name.
    return host.removeprefix("::ffff:")
