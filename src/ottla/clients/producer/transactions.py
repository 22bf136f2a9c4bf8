"""The transactions of a producer: initialize, add partitions and offsets, commit, abort, through the coordinator.

It runs in the client loop, without I/O. Every call ends with `on_done(None)` or with `on_done(error)`; the sender
reports the outcomes of the transaction's batches.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ottla.clients.consumer.values import GroupMetadata, OffsetAndMetadata
from ottla.clients.errors import BrokerError, ClientError, TimedOut
from ottla.clients.network.coordinators import GROUP, TRANSACTION
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import Network
from ottla.clients.producer.accumulator import Accumulator
from ottla.clients.producer.coordinator_requests import CoordinatorRequests
from ottla.clients.producer.errors import (
    InvalidTransactionState,
    ProducerFenced,
    TransactionAborted,
    TransactionMustAbort,
)
from ottla.clients.producer.identity import Identity
from ottla.clients.producer.outcomes import FENCED
from ottla.clients.producer.settings import ProducerSettings
from ottla.clients.producer.transaction_messages import (
    ADD_OFFSETS_VERSIONS,
    ADD_PARTITIONS_VERSIONS,
    END_VERSIONS,
    INIT_VERSIONS,
    OFFSET_COMMIT_VERSIONS,
    TransactionMessages,
    error_of_offsets,
    error_of_partitions,
    top_error,
)
from ottla.clients.producer.transaction_state import TransactionState, check_step, is_step
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.links.backoff import Backoff
from ottla.protocol.message import ApiMessage

OnDone: TypeAlias = Callable[[ClientError | None], None]
_S = TransactionState

# The transaction has failed, the producer has not: abort, and go on with the next transaction.
_ABORTABLE: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    }
)


class Transactions:
    """One per transactional producer. `wake` makes the sender look at waiting batches again."""

    def __init__(
        self,
        network: Network,
        metadata: Metadata,
        settings: ProducerSettings,
        identity: Identity,
        accumulator: Accumulator,
        *,
        wake: Callable[[], None],
    ) -> None:
        assert settings.transactional_id is not None
        self.state = _S.UNINITIALIZED
        self._metadata = metadata
        self._id = settings.transactional_id
        self._identity = identity
        self._accumulator = accumulator
        self._wake = wake
        self._messages = TransactionMessages(self._id, identity, timeout_ms=settings.transaction_timeout_ms)
        backoff = Backoff(first_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms)
        self._requests = CoordinatorRequests(network, metadata, backoff, is_wanted=lambda: self.state is not _S.FATAL)
        self._cause: Exception | None = None  # of MUST_ABORT and FATAL
        self._added: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()
        self._is_adding = False
        self._has_offsets = False
        self._needs_new_epoch = False
        self._on_done: OnDone | None = None  # of the step under way
        accumulator.refuse(self._refusal())

    # The user's calls, run in the client loop

    def initialize(self, on_done: OnDone) -> None:
        """Get the producer id; the coordinator fences an earlier producer and ends its open transaction."""
        if self.state is _S.INITIALIZING:
            self._on_done = on_done  # called again after a timeout
            return
        self._step(_S.INITIALIZING, "init_transactions")
        self._metadata.request_update()  # the coordinator's address is in it
        self._on_done = on_done
        self._ask_for_epoch()

    def begin(self) -> None:
        self._step(_S.IN_TRANSACTION, "begin_transaction")
        self._accumulator.refuse(None)

    def commit(self, on_done: OnDone) -> None:
        """Deliver everything that was sent, then commit; an error means that it must be aborted."""
        if self.state is _S.COMMITTING:
            self._on_done = on_done
            return
        self._check_cause()
        self._step(_S.COMMITTING, "commit_transaction")
        self._on_done = on_done
        self._accumulator.refuse(self._refusal())
        self._when_flushed(self._end_commit)

    def abort(self, on_done: OnDone) -> None:
        """Drop what was not sent, wait for what was, then abort."""
        if self.state is _S.ABORTING:
            self._on_done = on_done
            return
        if self.state is _S.FATAL:
            self._check_cause()
        self._step(_S.ABORTING, "abort_transaction")
        self._on_done = on_done
        self._accumulator.refuse(self._refusal())
        for batch in self._accumulator.drop_waiting():
            if batch.has_sequence:
                self._needs_new_epoch = True  # it may be stored: there may be a gap in the sequence
            self._accumulator.release(batch)
            batch.fail(
                TransactionAborted(f"{batch.queue.topic_partition}: the transaction was aborted before this was sent")
            )
        self._when_flushed(self._end_abort)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, on_done: OnDone
    ) -> None:
        """Commit a consumer's offsets with the transaction."""
        self._check_cause()
        if self.state is not _S.IN_TRANSACTION:
            raise InvalidTransactionState(f"send_offsets_to_transaction: the producer is {self.state.value}")

        def committed(answer: object) -> None:
            on_done(self._judge(answer, f"committing offsets of group {group.group_id}", error_of_offsets))

        def added(answer: object) -> None:
            error = self._judge(answer, f"adding group {group.group_id} to the transaction", top_error)
            if error is not None:
                on_done(error)
                return
            self._has_offsets = True
            self._requests.send(
                GROUP,
                group.group_id,
                self._messages.commit_offsets(offsets, group),
                committed,
                error_of=error_of_offsets,
                versions=OFFSET_COMMIT_VERSIONS,
            )

        message = self._messages.add_offsets(group.group_id)
        self._requests.send(TRANSACTION, self._id, message, added, error_of=top_error, versions=ADD_OFFSETS_VERSIONS)

    # The sender's calls

    def may_send(self, topic_partition: TopicPartition) -> bool:
        """Whether a partition is in the transaction; if not, add it, and then wake the sender."""
        if self.state not in (_S.IN_TRANSACTION, _S.COMMITTING):
            return False
        if topic_partition in self._added:
            return True
        if topic_partition not in self._wanted:
            self._wanted.add(topic_partition)
            self._add_partitions()
        return False

    @property
    def is_aborting(self) -> bool:
        """Whether nothing may be sent again."""
        return self.state is _S.ABORTING

    def timed_out(self, what: str, timeout_ms: int) -> TimedOut:
        """The error for a caller that stops waiting for a step."""
        problem = self._requests.problem(TRANSACTION, self._id)
        return TimedOut(f"{what}: not done after {timeout_ms} ms: {problem}; it goes on, call it again to wait")

    @property
    def can_abort(self) -> bool:
        return is_step(self.state, _S.ABORTING)

    @property
    def failure(self) -> Exception | None:
        """Why no waiting batch will be sent: callers that wait should fail at once."""
        return self._refusal() if self.state in (_S.FATAL, _S.MUST_ABORT) else None

    def batch_failed(self, error: Exception) -> None:
        if isinstance(error, ProducerFenced):
            self._fail(error)
        else:
            self._must_abort(error)

    def close(self, error: ClientError) -> None:
        self._fail(error)

    # Steps

    def _ask_for_epoch(self) -> None:
        self._ask(self._messages.init_producer_id(), self._take_epoch, versions=INIT_VERSIONS)

    def _take_epoch(self, answer: object) -> None:
        error = self._judge(answer, f"initializing transactional id {self._id}", top_error)
        if error is not None:
            if self.state is not _S.FATAL:
                self._fail(error)
            return
        self._identity.set(answer.producer_id, answer.producer_epoch)  # type: ignore[attr-defined]
        self._needs_new_epoch = False
        self._finish()

    def _add_partitions(self) -> None:
        if self._is_adding or not self._wanted:
            return
        self._is_adding = True
        adding = frozenset(self._wanted)

        def take(answer: object) -> None:
            self._is_adding = False
            self._wanted -= adding
            if self._judge(answer, "adding partitions to the transaction", error_of_partitions) is None:
                self._added |= adding
            self._add_partitions()
            self._wake()

        message = self._messages.add_partitions(adding)
        self._ask(message, take, versions=ADD_PARTITIONS_VERSIONS, error_of=error_of_partitions)

    def _end_commit(self) -> None:
        if self.state is not _S.COMMITTING:
            return  # something failed meanwhile, and that was reported
        self._end(is_commit=True)

    def _end_abort(self) -> None:
        if self.state is not _S.ABORTING:
            return
        self._end(is_commit=False)

    def _end(self, *, is_commit: bool) -> None:
        if not self._added and not self._has_offsets and not self._is_adding:
            self._ended(is_commit=is_commit)
            return

        def take(answer: object) -> None:
            what = "committing the transaction" if is_commit else "aborting the transaction"
            error = self._judge(answer, what, top_error)
            if error is None or (not is_commit and self._needs_new_epoch and self.state is _S.ABORTING):
                self._ended(is_commit=is_commit)
            elif not is_commit and self.state is not _S.FATAL:
                self._fail(error)

        self._ask(self._messages.end(is_commit=is_commit), take, versions=END_VERSIONS)

    def _ended(self, *, is_commit: bool) -> None:
        self._added.clear()
        self._wanted.clear()
        self._has_offsets = False
        if not is_commit and self._needs_new_epoch:
            self._ask_for_epoch()  # sequences start anew
        else:
            self._finish()

    def _finish(self) -> None:
        assert is_step(self.state, _S.READY), self.state
        self.state = _S.READY
        self._cause = None
        self._accumulator.refuse(self._refusal())
        self._finish_step(None)

    # Transitions

    def _when_flushed(self, callback: Callable[[], None]) -> None:
        batches = self._accumulator.begin_flush()
        left = 1

        def one_done() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self._accumulator.end_flush()
                callback()

        for batch in batches:
            left += 1
            if not batch.when_done(one_done):
                left -= 1
        self._wake()
        one_done()

    def _ask(
        self,
        message: ApiMessage,
        on_answer: Callable[[object], None],
        *,
        versions: tuple[int, int],
        error_of: Callable[[object], int] = top_error,
    ) -> None:
        self._requests.send(TRANSACTION, self._id, message, on_answer, error_of=error_of, versions=versions)

    def _judge(self, answer: object, what: str, error_of: Callable[[object], int]) -> ClientError | None:
        """The error of an answer; the state has changed accordingly."""
        if isinstance(answer, ClientError):
            self._fail(answer)
            return answer
        code = error_of(answer)
        if code == ErrorCode.NONE:
            return None
        if code in _ABORTABLE:
            error = BrokerError(code, what)
            self._must_abort(error)
            return error
        kind = ProducerFenced if code in FENCED else BrokerError
        fatal = kind(code, f"{what} as {self._id}")
        self._fail(fatal)
        return fatal

    def _must_abort(self, error: Exception) -> None:
        self._needs_new_epoch = True
        if is_step(self.state, _S.MUST_ABORT):
            self.state = _S.MUST_ABORT
            self._cause = error
            self._accumulator.refuse(self._refusal())
            self._finish_step(_must_abort_error(error))
            self._wake()

    def _fail(self, error: Exception) -> None:
        if self.state is _S.FATAL:
            return
        self.state = _S.FATAL
        self._cause = error
        self._accumulator.refuse(self._refusal())
        self._finish_step(error if isinstance(error, ClientError) else ClientError(str(error)))
        self._wake()

    def _step(self, following: TransactionState, what: str) -> None:
        check_step(self.state, following, what)
        self.state = following

    def _check_cause(self) -> None:
        if self.state is _S.MUST_ABORT and self._cause is not None:
            raise _must_abort_error(self._cause)
        if self.state is _S.FATAL and self._cause is not None:
            raise self._cause

    def _refusal(self) -> Exception:
        """The error for records in any state except IN_TRANSACTION."""
        if self._cause is not None:
            return _must_abort_error(self._cause) if self.state is _S.MUST_ABORT else self._cause
        return InvalidTransactionState(f"send: the producer is {self.state.value}")

    def _finish_step(self, error: ClientError | None) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(error)


def _must_abort_error(cause: Exception) -> TransactionMustAbort:
    error = TransactionMustAbort(f"the transaction can only be aborted: {cause}")
    error.__cause__ = cause
    return error
