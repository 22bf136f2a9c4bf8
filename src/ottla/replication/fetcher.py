"""Fetches all partitions that one other broker leads and this one follows (Kafka's ReplicaFetcherThread).

The next request goes out in the turn in which the answer to the last one was appended. While one waits at the leader
and there is something to say, another partition or an fsync that is done, a second one goes out: the leader then ends
the wait. No socket and no clock of its own: a channel carries requests, and a loop has the time. What an answer comes
to is decided by `FollowedPartition`.
"""

import logging
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple, Protocol

from ottla.core.clock import Clock
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from ottla.links.backoff import Backoff
from ottla.links.errors import ClientError, error_name
from ottla.links.link import Timer
from ottla.protocol.fetch_client_codec import FetchAnswer
from ottla.protocol.fetch_codec import FetchArguments, FetchedPartition
from ottla.replication.fetcher_session import FULL_FETCH_EPOCH, FetcherSession, SessionRequest
from ottla.replication.followed_partition import FollowedPartition, PartitionKey, Verdict
from ottla.replication.partition import Partition
from ottla.storage.log import Log

_LOG = logging.getLogger("ottla.replication")

# Of the first back-off; it grows up to `replica.fetch.backoff.ms`. A new leader often learns a moment later than its
# followers that it is one.
_FIRST_BACKOFF_MS: Final = 20

# One that waits at the leader, and one that ends that wait.
_IN_FLIGHT_MAX: Final = 2
# When it takes longer than this the leader has nothing new; before, a second request would fetch the same again.
_LIKELY_WAITING_MS: Final = 2

_FULL_AGAIN: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class FetchChannel(Protocol):
    """The way to one broker."""

    def send(self, arguments: FetchArguments, on_answer: Callable[[FetchAnswer | ClientError], None]) -> None:
        """Calls back exactly once, never within the call; the records of an answer are valid only during it."""
        ...

    def close(self) -> None:
        """Nothing is called back afterwards."""
        ...


class TimerLoop(Protocol):
    """The part of `links.ClientLoop` that needs no socket."""

    def now_ms(self) -> int: ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer: ...

    def call_soon(self, callback: Callable[[], None]) -> None: ...


class FetcherSettings(NamedTuple):
    """The keys replica.fetch.*."""

    max_bytes: int = 1 << 20
    min_bytes: int = 1
    wait_max_ms: int = 500
    response_max_bytes: int = 10 << 20
    backoff_ms: int = 1_000


class FetcherPorts(NamedTuple):
    """What the fetchers of a broker need of it."""

    broker_id: BrokerId
    broker_epoch: Callable[[], BrokerEpoch]  # of its registration now
    clock: Clock  # the time of day, for the logs
    loop: TimerLoop
    random: Random
    # Calls back when the recovery point on disk is not above the offset, and the log start there is that of the log.
    await_truncation: Callable[[Log, Offset, Callable[[], None]], None]


class ReplicaFetcher:
    """Owned by `ReplicaFetchers`. Partitions come and go with what the controller says; `close` ends it."""

    def __init__(
        self, source: BrokerId, channel: FetchChannel, *, settings: FetcherSettings, ports: FetcherPorts
    ) -> None:
        self.source = source
        self.followed: dict[PartitionKey, FollowedPartition] = {}  # in the session, backing off, settling or stopped
        self._settings = settings
        self._ports = ports
        self._channel = channel
        self._session = FetcherSession()
        self._flushing: dict[PartitionKey, FollowedPartition] = {}  # fetched further than they are durable
        self._delayed: dict[PartitionKey, FollowedPartition] = {}
        self._backoff = Backoff(first_ms=_FIRST_BACKOFF_MS, max_ms=settings.backoff_ms, random=ports.random)
        self._failures = 0  # of whole requests, in a row
        self._requests = 0
        self._void_requests = 0  # answers to the requests up to this one are not taken: something failed since
        self._in_flight = 0
        self._last_sent_ms = 0
        self._is_full_in_flight = False
        self._was_full = False  # the request before: the leader has made no session
        self._interruption: Timer | None = None
        self._is_send_planned = False
        self._is_closed = False
        self._pause: Timer | None = None  # after a failure of a whole request
        self._retry: Timer | None = None
        self._retry_at_ms = 0

    def add(self, partition: Partition, *, leader_epoch: LeaderEpoch) -> None:
        """Follow it in this epoch, in place of an older one."""
        followed = FollowedPartition(partition, leader_epoch=leader_epoch, max_bytes=self._settings.max_bytes)
        self.remove(followed.key)
        self.followed[followed.key] = followed
        self._resume(followed)

    def remove(self, key: PartitionKey) -> None:
        """Fetch it no more. An answer that is under way is not taken for it."""
        followed = self.followed.pop(key, None)
        if followed is not None:
            self._put_aside(followed)
            self._send_soon()  # to end the session, if it was the last one

    def on_flushed(self, key: PartitionKey) -> None:
        """An fsync is done: the leader hears at once up to where the copy is durable now."""
        followed = self._flushing.get(key)
        if followed is not None and followed.refresh():
            if not followed.is_lagging:
                del self._flushing[key]
            self._session.change(followed)
            self._send_soon()

    def use_channel(self, channel: FetchChannel) -> None:
        """The broker is to be reached in another way from now on."""
        self._channel.close()
        self._channel = channel
        self._in_flight = 0
        self._is_full_in_flight = False
        self._failures = 0
        self._start_over()
        self._end_pause()
        self._send_soon()

    def close(self) -> None:
        self._is_closed = True
        self._end_pause()
        for timer in (self._retry, self._interruption):
            if timer is not None:
                timer.cancel()
        self._channel.close()

    # Sending.

    def _send_soon(self) -> None:
        """At the end of this turn: a request may wait at the leader, so what comes right after it should be in it."""
        if not self._is_send_planned:
            self._is_send_planned = True
            self._ports.loop.call_soon(self._send_planned)

    def _send_planned(self) -> None:
        self._is_send_planned = False
        self._maybe_send()

    def _maybe_send(self) -> None:
        """Send the next request, if there is something to fetch, or to say while one waits at the leader."""
        session = self._session
        if self._is_closed or self._pause is not None or (self._in_flight and not self._may_interrupt()):
            return
        if session.partitions:
            self._send(session.build(self._requests + 1))
        elif session.is_open:
            self._send(session.close())

    def _may_interrupt(self) -> bool:
        """Whether the leader should end a wait to hear what is new."""
        session = self._session
        if self._in_flight == _IN_FLIGHT_MAX or self._is_full_in_flight or not session.has_changes:
            return False
        loop = self._ports.loop
        left_ms = self._last_sent_ms + _LIKELY_WAITING_MS - loop.now_ms()
        if left_ms > 0 and self._interruption is None:
            self._interruption = loop.call_later(left_ms, self._interrupt)
        return left_ms <= 0

    def _interrupt(self) -> None:
        self._interruption = None
        self._maybe_send()

    def _send(self, request: SessionRequest) -> None:
        settings = self._settings
        is_full = request.epoch == FULL_FETCH_EPOCH
        if is_full or not self._session.is_open:
            self._void_requests = self._requests  # they were in a session that ends with this
        # The first answer says no more than which session it is, so that a second request can end a wait.
        wait_ms = 0 if is_full and not self._was_full else settings.wait_max_ms
        self._is_full_in_flight = self._was_full = is_full
        self._in_flight += 1
        self._last_sent_ms = self._ports.loop.now_ms()
        self._requests = number = self._requests + 1

        def on_answer(answer: FetchAnswer | ClientError) -> None:
            if self._is_closed:
                return
            self._in_flight -= 1
            if number > self._void_requests:
                self._is_full_in_flight = False
                self._take(answer, number, is_full=is_full)

        self._channel.send(
            FetchArguments(
                self._ports.broker_id,
                self._ports.broker_epoch(),
                wait_ms,
                settings.min_bytes,
                settings.response_max_bytes,
                0,
                request.session_id,
                request.epoch,
                request.topics,
                request.forgotten_topics,
                "",
            ),
            on_answer,
        )

    def _start_over(self) -> None:
        """What the leader knows of us is not known: nothing that is in flight counts, the next request is full."""
        self._void_requests = self._requests
        self._session.restart()

    # Answers.

    def _take(self, answer: FetchAnswer | ClientError, number: int, *, is_full: bool) -> None:
        session = self._session
        if isinstance(answer, ClientError):
            self._start_over()
            self._back_off(str(answer))
            return
        if answer.error_code:
            self._start_over()
            if is_full or answer.error_code not in _FULL_AGAIN:
                self._back_off(f"answered with {error_name(answer.error_code)}")
            else:
                self._maybe_send()
            return
        if self._failures:
            _LOG.info("broker %d: fetched from again after %d failures", self.source, self._failures)
            self._failures = 0
        session.on_answer(answer.session_id)
        partitions = session.partitions
        now_ms = self._ports.clock()
        for topic_id, answered in answer.topics:
            for fetched in answered:
                followed = partitions.get((topic_id, fetched.partition))
                if followed is None:
                    continue
                if number < followed.first_request or followed.sent is None:
                    # It came since the request, in place of an older epoch. What the leader said is lost: ask anew.
                    session.restart()
                    continue
                self._take_partition(followed, fetched, number, now_ms)
        self._maybe_send()

    def _take_partition(self, followed: FollowedPartition, fetched: FetchedPartition, number: int, now_ms: int) -> None:
        verdict = followed.take(fetched, number=number, now_ms=now_ms)
        if verdict is Verdict.FETCH_ANEW:
            followed.sent = None  # what is under way was said of a log that was longer
            followed.refresh()
            if followed.is_lagging:  # it began anew with records that are not durable yet
                self._flushing[followed.key] = followed
            self._session.restart()
        elif verdict is Verdict.FETCH:
            if followed.refresh():
                self._session.change(followed)
                if followed.is_lagging:
                    self._flushing[followed.key] = followed
                elif self._flushing:
                    self._flushing.pop(followed.key, None)
        else:
            self._put_aside(followed)
            if verdict is Verdict.BACK_OFF:
                self._delay(followed)
            elif verdict is Verdict.SETTLE:
                self._ports.await_truncation(
                    followed.partition.log, followed.settle_offset, lambda: self._resume(followed)
                )

    def _put_aside(self, followed: FollowedPartition) -> None:
        key = followed.key
        self._session.remove(followed)
        self._flushing.pop(key, None)
        self._delayed.pop(key, None)

    def _resume(self, followed: FollowedPartition) -> None:
        """Fetch a partition that is new or was put aside, if it is still followed in that epoch."""
        if self.followed.get(followed.key) is not followed or self._is_closed:
            return
        followed.refresh()
        if followed.is_lagging:
            self._flushing[followed.key] = followed
        self._session.add(followed)
        self._send_soon()

    # Back-off.

    def _back_off(self, reason: str) -> None:
        """The whole request failed. The channel has a back-off of its own for connections."""
        if not self._failures:
            _LOG.warning("broker %d: fetch failed, it is tried again: %s", self.source, reason)
        self._end_pause()
        delay_ms = self._backoff.delay_ms(self._failures)
        self._failures += 1
        self._was_full = False
        self._pause = self._ports.loop.call_later(delay_ms, self._end_back_off)

    def _end_back_off(self) -> None:
        self._pause = None
        self._maybe_send()

    def _end_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def _delay(self, followed: FollowedPartition) -> None:
        now_ms = self._ports.loop.now_ms()
        followed.retry_at_ms = now_ms + self._backoff.delay_ms(followed.failures - 1)
        self._delayed[followed.key] = followed
        self._plan_retry(followed.retry_at_ms, now_ms)

    def _plan_retry(self, at_ms: int, now_ms: int) -> None:
        if self._retry is not None:
            if self._retry_at_ms <= at_ms:
                return
            self._retry.cancel()
        self._retry_at_ms = at_ms
        self._retry = self._ports.loop.call_later(max(at_ms - now_ms, 0), self._retry_due)

    def _retry_due(self) -> None:
        self._retry = None
        now_ms = self._ports.loop.now_ms()
        due = [followed for followed in self._delayed.values() if followed.retry_at_ms <= now_ms]
        for followed in due:
            del self._delayed[followed.key]
        if self._delayed:
            self._plan_retry(min(followed.retry_at_ms for followed in self._delayed.values()), now_ms)
        for followed in due:
            self._resume(followed)
