"""A client loop without a thread: sockets and timers run only while a caller waits for an answer.

For clients with few requests, such as the admin client. The next call notices a connection that broke meanwhile.
"""

from typing import Any, Final

from ottla.clients.errors import ClientClosed, ClientError
from ottla.clients.network.threaded import ThreadNetwork
from ottla.core.types import BrokerId
from ottla.links.settings import NetworkSettings
from ottla.protocol.message import ApiMessage

_NO_WAIT_S: Final = 0.0


class BlockingNetwork(ThreadNetwork):
    """For one thread at a time, which is the client loop; it needs no start, only `close`."""

    def __init__(self, bootstrap: str, *, client_id: str, settings: NetworkSettings) -> None:
        super().__init__(bootstrap, client_id=client_id, settings=settings)
        self._answers: list[Any] = []

    @property
    def is_in_loop(self) -> bool:
        return True

    def ask(self, broker_id: BrokerId, message: ApiMessage, *, versions: tuple[int, int] | None = None) -> Any:
        """Send a message and wait for its answer; raises why there is none, at the request's timeout at the latest."""
        if self._is_stopped:
            raise ClientClosed("the client is closed")
        self._turn(_NO_WAIT_S)
        # A list for each call: the answer to an interrupted request may still come.
        answers: list[Any] = []
        self._answers = answers
        self.request(broker_id, message, answers.append, versions=versions)
        while not answers:
            self._turn()
        if isinstance(answers[0], ClientError):
            raise answers[0]
        return answers[0]

    def _sleep_s(self, most_s: float | None) -> float | None:
        # A callback of this turn may have got the answer.
        return 0 if self._answers else super()._sleep_s(most_s)
