"""The sender of a producer: takes due batches, groups them by leader, sends them, and acts on the answers.

It runs in the client loop and does no I/O: the network has the requests and timers. Users' threads reach it only
through `Network.post`.
"""

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from ottla.clients.cluster_view import NO_LEADER
from ottla.clients.error_rules import STALE_METADATA
from ottla.clients.errors import BrokerError, ClientError, UnsupportedByBroker
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import Network
from ottla.clients.producer.accumulator import NEVER_MS, Accumulator
from ottla.clients.producer.batch import ProducerBatch, split
from ottla.clients.producer.errors import DeliveryTimedOut, ProducerFenced, RecordRefused
from ottla.clients.producer.exchange import BatchAnswer, ProduceExchange
from ottla.clients.producer.identity import Identity
from ottla.clients.producer.outcomes import FENCED, Verdict, judge
from ottla.clients.producer.queues import Destination, PartitionQueue
from ottla.clients.producer.sequencing import Sequencing
from ottla.clients.producer.settings import ProducerSettings
from ottla.core.types import BrokerId
from ottla.links.backoff import Backoff
from ottla.links.link import Timer

if TYPE_CHECKING:
    from ottla.clients.producer.transactions import Transactions


class Sender:
    """One per producer. `run` does all that can be done now, and plans when to run again."""

    def __init__(
        self,
        network: Network,
        metadata: Metadata,
        accumulator: Accumulator,
        settings: ProducerSettings,
        *,
        identity: Identity | None,
        transactions: "Transactions | None" = None,
        random: Random | None = None,
    ) -> None:
        self._network = network
        self._metadata = metadata
        self._accumulator = accumulator
        self._settings = settings
        self._identity = identity
        self._transactions = transactions
        self._sequencing = Sequencing(settings, identity)
        self._backoff = Backoff(first_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms, random=random)
        self._exchange = ProduceExchange(network, settings)
        self._destinations: dict[BrokerId, Destination] = {}
        self._timer: Timer | None = None
        self._is_closed = False
        # The outcomes of records; written in the client loop, read by any thread.
        self.stored_records = 0
        self.stored_bytes = 0
        self.failed_records = 0
        self.first_failure: Exception | None = None
        metadata.on_change.append(self._metadata_changed)

    def run(self) -> None:
        """Expire, send, plan."""
        if self._is_closed:
            return
        now_ms = self._network.now_ms()
        self._expire(now_ms)
        if self._identity is not None and not self._identity.is_known and self._transactions is None:
            self._identity.ask()
            if self._identity.failure is not None:
                self.fail_waiting(self._identity.failure)
        if self._transactions is not None and self._transactions.failure is not None:
            self.fail_waiting(self._transactions.failure)
        while self._send_once(now_ms):
            pass
        self._plan(now_ms)

    def fail_waiting(self, error: Exception) -> None:
        """Fail everything that is not in flight."""
        for batch in self._accumulator.drop_waiting():
            self._give_up(batch, error)

    def fail_all(self, error: Exception) -> None:
        """Fail everything; later answers are ignored."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.fail_waiting(error)
        for batch in list(self._accumulator.incomplete):
            self._give_up(batch, error)

    # Sending

    def _send_once(self, now_ms: int) -> bool:
        """Send a request to each leader that can take one; returns whether there may be more to send."""
        accumulator = self._accumulator
        may_send = self._sequencing.may_send
        chosen: dict[Destination, list[ProducerBatch]] = {}
        room: dict[Destination, int] = {}
        is_leader_missing = False
        for queue in accumulator.active_queues():
            if not accumulator.is_due(queue, now_ms):
                continue
            destination = queue.destination or self._find_destination(queue)
            if destination is None:
                is_leader_missing = True
                continue
            if destination.is_saturated or (queue.waiting and queue.waiting[0].not_before_ms > now_ms):
                continue
            if self._transactions is not None and not self._transactions.may_send(queue.topic_partition):
                continue
            if not may_send(queue):
                continue
            head = queue.waiting[0] if queue.waiting else queue.open
            assert head is not None
            size = head.appender.size_bytes
            left = room.get(destination)
            if left is not None and left < size:
                continue  # with the next request
            batch = accumulator.take(queue)
            room[destination] = (self._settings.max_request_size if left is None else left) - size
            self._sequencing.assign(batch)
            chosen.setdefault(destination, []).append(batch)
        for destination, batches in chosen.items():
            self._send(destination, batches)
        if is_leader_missing:
            self._metadata.request_update()
        return bool(chosen)

    def _send(self, destination: Destination, batches: Sequence[ProducerBatch]) -> None:
        destination.in_flight += 1
        destination.is_saturated = destination.in_flight >= self._settings.max_in_flight
        for batch in batches:
            batch.attempts += 1

        def on_answer(answers: Sequence[BatchAnswer] | ClientError) -> None:
            destination.in_flight -= 1
            destination.is_saturated = False
            if isinstance(answers, ClientError):
                self._unanswered(batches, answers)
            else:
                for batch, answer in zip(batches, answers, strict=True):
                    self._answered(batch, answer)
            self.run()

        self._exchange.send(destination.broker_id, batches, on_answer)

    def _find_destination(self, queue: PartitionQueue) -> Destination | None:
        leader_id = self._metadata.leader_of(queue.topic_partition)
        if leader_id == NO_LEADER:
            queue.destination = None
            return None
        destination = self._destinations.get(leader_id)
        if destination is None:
            destination = self._destinations[leader_id] = Destination(leader_id)
        queue.destination = destination
        return destination

    def _metadata_changed(self) -> None:
        for name, topic in list(self._accumulator.topics.items()):
            count = self._metadata.partition_count(name)
            if count is not None and count > len(topic.queues):
                self._accumulator.learn_topic(name, count)
            for queue in topic.queues:
                self._find_destination(queue)
        self.run()

    # Answers

    def _unanswered(self, batches: Sequence[ProducerBatch], error: ClientError) -> None:
        """The connection broke or no answer came in time: the batches may or may not be stored."""
        is_final = isinstance(error, UnsupportedByBroker)
        for batch in batches:
            self._sequencing.refused(batch)
            if batch.is_done:
                self._sequencing.batch_failed(batch)  # expired meanwhile
            elif is_final:
                self._give_up(batch, error)
            else:
                self._retry(batch, error)
        if not is_final:
            self._metadata.request_update()

    def _answered(self, batch: ProducerBatch, answer: BatchAnswer) -> None:
        error_code = answer.error_code
        verdict = judge(error_code, record_count=batch.record_count, has_sequence=batch.has_sequence)
        if verdict is Verdict.STORED:
            self._sequencing.acknowledged(batch)
            if not batch.is_done:
                self._accumulator.release(batch)
                self.stored_records += batch.record_count
                self.stored_bytes += batch.size_bytes
                batch.succeed(answer.base_offset, answer.append_time_ms)
            return
        self._sequencing.refused(batch)
        if batch.is_done:
            self._sequencing.batch_failed(batch)
            return
        if error_code in STALE_METADATA:
            leader = answer.leader
            if leader is None or not self._metadata.set_leader(batch.queue.topic_partition, leader[0], leader[1]):
                self._metadata.request_update()
        error = self._error_of(batch, answer)
        if verdict is Verdict.RETRY:
            self._retry(batch, error)
        elif verdict is Verdict.SPLIT:
            parts = split(batch)
            self._sequencing.divide(batch, [part for _, part in parts])
            batch.divide(parts)
            self._accumulator.replace(batch, [part for _, part in parts])
        elif verdict is Verdict.OUT_OF_SEQUENCE:
            self._out_of_sequence(batch, error)
        else:
            record_errors = {
                index: RecordRefused(error_code, f"{batch.queue.topic_partition}: record {index} of a batch", message)
                for index, message in answer.record_errors
            }
            self._give_up(batch, error, record_errors or None)

    def _out_of_sequence(self, batch: ProducerBatch, error: Exception) -> None:
        if self._sequencing.waits_for_another(batch):
            self._retry(batch, error, after_ms=0)  # the batch is valid, and is sent only after the other
        elif self._transactions is not None:
            self._give_up(batch, error)
        else:
            # The broker has lost earlier batches or the state of this producer: start again (KIP-360).
            self._sequencing.strip(batch)
            self._retry(batch, error, after_ms=self._backoff.delay_ms(0))

    def _error_of(self, batch: ProducerBatch, answer: BatchAnswer) -> BrokerError:
        what = f"{batch.queue.topic_partition}: a batch of {batch.record_count} records was refused"
        kind = ProducerFenced if answer.error_code in FENCED and self._transactions is not None else BrokerError
        return kind(answer.error_code, what, answer.error_message)

    def _retry(self, batch: ProducerBatch, error: Exception, *, after_ms: int | None = None) -> None:
        is_dropped = self._transactions is not None and self._transactions.is_aborting
        if batch.attempts > self._settings.retries or is_dropped:
            self._give_up(batch, error)
            return
        if after_ms is None:
            after_ms = self._backoff.delay_ms(batch.attempts - 1)
        batch.not_before_ms = self._network.now_ms() + after_ms
        self._accumulator.put_back(batch)

    def _give_up(
        self, batch: ProducerBatch, error: Exception, record_errors: dict[int, RecordRefused] | None = None
    ) -> None:
        self._sequencing.batch_failed(batch)
        self._accumulator.release(batch)
        if self._transactions is not None:
            self._transactions.batch_failed(error)
        self._count_failure(batch, error)
        batch.fail(error, record_errors)

    def _count_failure(self, batch: ProducerBatch, error: Exception) -> None:
        self.failed_records += batch.record_count
        if self.first_failure is None:
            self.first_failure = error

    # Time

    def _expire(self, now_ms: int) -> None:
        timeout_ms = self._settings.delivery_timeout_ms
        while (batch := self._accumulator.oldest()) is not None and now_ms - batch.created_ms >= timeout_ms:
            is_under_way = batch in batch.queue.in_flight
            self._accumulator.withdraw(batch)
            topic_partition = batch.queue.topic_partition
            if is_under_way:
                seen = "it was sent and not answered"
            elif batch.attempts:
                seen = f"it was sent {batch.attempts} times"
            elif batch.queue.destination is None:
                seen = "the partition has no leader"
            else:
                seen = "it was not sent: too many batches before it, or its leader can't be reached"
            error = DeliveryTimedOut(
                f"{topic_partition}: {batch.record_count} records not acknowledged within {timeout_ms} ms: {seen}"
            )
            if is_under_way:
                # The answer, or the lack of one, decides whether there is a gap in the sequence.
                self._accumulator.release(batch)
                if self._transactions is not None:
                    self._transactions.batch_failed(error)
                self._count_failure(batch, error)
                batch.fail(error)
            else:
                self._give_up(batch, error)

    def _plan(self, now_ms: int) -> None:
        """Set a timer for when the next batch is due or expires; answers and new batches wake the loop themselves."""
        wakes_ms = self._accumulator.plan(now_ms)
        if wakes_ms is None:
            return  # running too early costs less than a new timer each time
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wakes_ms != NEVER_MS:
            self._timer = self._network.call_later(max(wakes_ms - now_ms, 0), self._timed)

    def _timed(self) -> None:
        self._timer = None
        self._accumulator.wakes_ms = NEVER_MS
        self.run()
