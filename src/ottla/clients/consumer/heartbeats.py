"""Sends heartbeats to the coordinator, and notices when the user no longer polls: timers in the client loop."""

from collections.abc import Callable

from ottla.clients.consumer.coordinator import Coordinator
from ottla.clients.consumer.group_requests import GroupSettings, heartbeat_request
from ottla.clients.consumer.values import GroupMetadata
from ottla.clients.errors import ClientError
from ottla.clients.network.port import Network
from ottla.links.link import Timer
from ottla.protocol.messages.heartbeat import HeartbeatResponse


class Heartbeats:
    """Owned by one `Group`. Runs from `start` to `stop`; starting twice does nothing."""

    def __init__(
        self,
        network: Network,
        coordinator: Coordinator,
        settings: GroupSettings,
        *,
        identity: Callable[[], GroupMetadata | None],
        poll_idle_ms: Callable[[], int],
        on_answer: Callable[[int], None],
        on_overdue: Callable[[int], None],
    ) -> None:
        self._network = network
        self._coordinator = coordinator
        self._settings = settings
        self._identity = identity
        self._poll_idle_ms = poll_idle_ms
        self._on_answer = on_answer
        self._on_overdue = on_overdue
        self._heartbeat_timer: Timer | None = None
        self._poll_timer: Timer | None = None
        self._is_waiting = False  # for an answer

    def start(self) -> None:
        if self._heartbeat_timer is None:
            self._heartbeat_timer = self._network.call_later(self._settings.heartbeat_interval_ms, self._send_heartbeat)
        if self._poll_timer is None:
            self._poll_timer = self._network.call_later(self._settings.max_poll_interval_ms, self._look_at_polls)

    def stop(self) -> None:
        for timer in (self._heartbeat_timer, self._poll_timer):
            if timer is not None:
                timer.cancel()
        self._heartbeat_timer = self._poll_timer = None

    def _send_heartbeat(self) -> None:
        self._heartbeat_timer = self._network.call_later(self._settings.heartbeat_interval_ms, self._send_heartbeat)
        identity = self._identity()
        if identity is None or self._is_waiting:
            return
        if self._coordinator.broker_id is None:
            self._coordinator.find(lambda _: None)
            return
        self._is_waiting = True

        def take(answer: HeartbeatResponse | ClientError) -> None:
            self._is_waiting = False
            # An answer for an older membership does not apply to this one.
            if isinstance(answer, HeartbeatResponse) and identity == self._identity():
                self._on_answer(answer.error_code)

        timeout_ms = min(self._settings.request_timeout_ms, self._settings.session_timeout_ms)
        self._coordinator.ask(heartbeat_request(identity), take, timeout_ms=timeout_ms)

    def _look_at_polls(self) -> None:
        limit_ms = self._settings.max_poll_interval_ms
        idle_ms = self._poll_idle_ms()
        if idle_ms < limit_ms:
            self._poll_timer = self._network.call_later(limit_ms - idle_ms, self._look_at_polls)
        else:
            self._poll_timer = None
            self._on_overdue(idle_ms)
