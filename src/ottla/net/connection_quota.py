"""How many connections may be open, per broker and per address, and how fast new ones may come.

Counting only: the acceptor closes what is refused here and pauses when the rate is used up.
"""

from ottla.net.limits import NO_LIMIT, NetworkLimits

OPEN_FILES = "open files"  # no key: the process has this limit from the system


class ConnectionQuota:
    """Owned by the server; every connection that was admitted is given back once with `release`."""

    __slots__ = ("_by_address", "_descriptors_max", "_limits", "_open", "_rate", "_refilled_at_s", "_tokens")

    def __init__(self, limits: NetworkLimits, *, descriptors_max: int = NO_LIMIT) -> None:
        self._limits = limits
        self._descriptors_max = descriptors_max
        self._open = 0
        self._by_address: dict[str, int] = {}
        self._rate = limits.max_connection_creation_rate
        self._tokens = float(self._rate)  # one second's worth may come at once
        self._refilled_at_s: float | None = None

    def update_limits(self, limits: NetworkLimits) -> None:
        """Use these limits from now on; open connections stay."""
        self._limits = limits
        self._rate = limits.max_connection_creation_rate
        self._tokens = min(self._tokens, float(self._rate))

    def wait_s(self, now_s: float) -> float:
        """0 when the rate allows one more connection (which counts as used), else how long to stop accepting."""
        rate = max(self._rate, 1)
        if rate >= NO_LIMIT:
            return 0.0
        if self._refilled_at_s is not None:
            self._tokens = min(float(rate), self._tokens + (now_s - self._refilled_at_s) * rate)
        self._refilled_at_s = now_s
        if self._tokens < 1.0:
            return (1.0 - self._tokens) / rate
        self._tokens -= 1.0
        return 0.0

    def refund(self) -> None:
        """The connection that `wait_s` counted did not come."""
        if self._rate < NO_LIMIT:
            self._tokens += 1.0

    def admit(self, address: str) -> str | None:
        """Count the connection in; or the name of the limit that it would break."""
        limits = self._limits
        if self._open >= limits.max_connections:
            return "max.connections"
        if self._open >= self._descriptors_max:
            return OPEN_FILES
        count = self._by_address.get(address, 0)
        if count >= limits.max_connections_per_ip_overrides.get(address, limits.max_connections_per_ip):
            return "max.connections.per.ip"
        self._open += 1
        self._by_address[address] = count + 1
        return None

    def release(self, address: str) -> None:
        self._open -= 1
        count = self._by_address[address] - 1
        if count:
            self._by_address[address] = count
        else:
            del self._by_address[address]
