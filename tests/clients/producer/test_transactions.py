"""The transactional producer's state machine on a scripted coordinator."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.clients.consumer.values import GroupMetadata, OffsetAndMetadata
from ottla.clients.errors import ClientError, UnsupportedByBroker
from ottla.clients.producer.errors import (
    InvalidTransactionState,
    ProducerFenced,
    TransactionAborted,
    TransactionMustAbort,
)
from ottla.clients.producer.transaction_state import TransactionState
from ottla.clients.producer.transactions import OnDone, Transactions
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.find_coordinator import FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.clients.fake_network import Sent
from tests.clients.producer.rig import HOLD, Rig

SOURCE = TopicPartition("source", 0)


class TransactionalRig(Rig):
    """With a coordinator that says yes to all, unless `errors` has something else for an API, once each."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(transactional_id="tx", **keywords)
        self.errors: dict[int, list[int]] = {}
        self.epoch = -1
        transactions = self.core.transactions
        assert transactions is not None
        self.transactions: Transactions = transactions
        network = self.network
        network.serve(ApiKey.FIND_COORDINATOR, lambda sent: FindCoordinatorResponse(node_id=1, host="fake", port=9001))
        network.serve(ApiKey.INIT_PRODUCER_ID, self._init)
        network.serve(ApiKey.ADD_PARTITIONS_TO_TXN, self._add_partitions)
        network.serve(ApiKey.ADD_OFFSETS_TO_TXN, lambda sent: AddOffsetsToTxnResponse(error_code=self._code(sent)))
        network.serve(ApiKey.TXN_OFFSET_COMMIT, self._commit_offsets)
        network.serve(ApiKey.END_TXN, lambda sent: EndTxnResponse(error_code=self._code(sent)))

    def _code(self, sent: Sent) -> int:
        codes = self.errors.get(sent.api_key)
        return codes.pop(0) if codes else ErrorCode.NONE

    def _init(self, sent: Sent) -> InitProducerIdResponse:
        code = self._code(sent)
        if code == ErrorCode.NONE:
            self.epoch += 1
        return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=self.epoch)

    def _add_partitions(self, sent: Sent) -> AddPartitionsToTxnResponse:
        code = self._code(sent)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                        for index in topic.partitions
                    ],
                )
                for topic in sent.message.v3_and_below_topics
            ]
        )

    def _commit_offsets(self, sent: Sent) -> TxnOffsetCommitResponse:
        code = self._code(sent)
        topics = [
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in sent.message.topics
        ]
        return TxnOffsetCommitResponse(topics=topics)

    def step(self, start: Callable[[OnDone], None], *, within_ms: int = 5_000) -> ClientError | None:
        """Run a step to its end; the error that it came to."""
        outcome: list[ClientError | None] = []
        start(outcome.append)
        self.advance(within_ms)
        assert outcome, "the step did not end"
        return outcome[0]

    def begun(self) -> "TransactionalRig":
        assert self.step(self.transactions.initialize) is None
        self.transactions.begin()
        self.learn("orders")
        return self

    def ends(self) -> list[bool]:
        return [sent.message.committed for sent in self.network.of(ApiKey.END_TXN)]


def test_a_transaction_adds_its_partitions_before_it_sends() -> None:
    rig = TransactionalRig(topics={"orders": 2}).begun()
    handles = [rig.send(b"x", partition=partition) for partition in (0, 1)]
    assert rig.step(rig.transactions.commit) is None
    assert [handle.result(0).offset for handle in handles] == [0, 0]
    apis = [sent.api_key for sent in rig.network.sent]
    assert apis.index(ApiKey.ADD_PARTITIONS_TO_TXN) < apis.index(ApiKey.PRODUCE) < apis.index(ApiKey.END_TXN)
    assert rig.produce_requests()[0].message.transactional_id == "tx"
    assert rig.cluster.headers[TopicPartition("orders", 0)][0].is_transactional
    assert rig.ends() == [True]


def test_records_outside_of_a_transaction_are_refused_with_what_to_do() -> None:
    rig = TransactionalRig()
    rig.learn("orders")
    with pytest.raises(InvalidTransactionState, match="call init_transactions first"):
        rig.send(b"x")
    assert rig.step(rig.transactions.initialize) is None
    with pytest.raises(InvalidTransactionState, match="call begin_transaction first"):
        rig.send(b"x")


def test_a_call_in_the_wrong_state_is_refused() -> None:
    rig = TransactionalRig()
    with pytest.raises(InvalidTransactionState, match="commit_transaction: the producer is not initialized"):
        rig.transactions.commit(lambda error: None)
    rig.begun()
    with pytest.raises(InvalidTransactionState, match="begin_transaction: the producer is in a transaction"):
        rig.transactions.begin()


def test_an_empty_transaction_needs_no_end() -> None:
    rig = TransactionalRig().begun()
    assert rig.step(rig.transactions.commit) is None
    assert rig.ends() == []


def test_sequences_go_on_from_one_transaction_to_the_next() -> None:
    rig = TransactionalRig().begun()
    for _ in range(3):
        rig.send(b"x")
        assert rig.step(rig.transactions.commit) is None
        rig.transactions.begin()
    headers = rig.cluster.headers[TopicPartition("orders", 0)]
    assert [(header.producer_epoch, header.base_sequence) for header in headers] == [(0, 0), (0, 1), (0, 2)]


def test_what_passes_is_waited_out() -> None:
    rig = TransactionalRig()
    rig.errors[ApiKey.INIT_PRODUCER_ID] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
    rig.errors[ApiKey.ADD_PARTITIONS_TO_TXN] = [ErrorCode.CONCURRENT_TRANSACTIONS]
    rig.errors[ApiKey.END_TXN] = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    rig.begun()
    rig.send(b"x")
    assert rig.step(rig.transactions.commit) is None
    assert len(rig.network.of(ApiKey.FIND_COORDINATOR)) == 3


def test_an_abort_drops_what_was_not_sent() -> None:
    rig = TransactionalRig(linger_ms=10_000).begun()
    handle = rig.send(b"x")
    assert rig.step(rig.transactions.abort) is None
    assert isinstance(handle.exception(0), TransactionAborted)
    assert rig.produce_requests() == []
    assert rig.core.accumulator.buffered_bytes == 0


def test_an_abort_waits_for_what_is_under_way() -> None:
    rig = TransactionalRig().begun()
    rig.cluster.faults.append(HOLD)
    handle = rig.send(b"x")
    rig.run()
    rig.transactions.abort(lambda error: None)
    rig.run()
    assert rig.ends() == []
    held = rig.produce_requests()[0]
    held.answer(rig.cluster.store(held))
    rig.run()
    assert handle.done()
    assert rig.ends() == [False]


def test_a_failed_record_leaves_only_the_abort_and_a_new_epoch_after_it() -> None:
    rig = TransactionalRig().begun()
    rig.cluster.faults.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    rig.send(b"x")
    assert isinstance(rig.step(rig.transactions.commit), TransactionMustAbort)
    with pytest.raises(TransactionMustAbort, match="TOPIC_AUTHORIZATION_FAILED"):
        rig.send(b"y")
    with pytest.raises(TransactionMustAbort):
        rig.transactions.commit(lambda error: None)
    assert rig.step(rig.transactions.abort) is None
    assert rig.ends() == [False]
    assert rig.epoch == 1
    rig.transactions.begin()
    handle = rig.send(b"z")
    assert rig.step(rig.transactions.commit) is None
    assert handle.result(0).offset == 0
    header = rig.cluster.headers[TopicPartition("orders", 0)][0]
    assert (header.producer_epoch, header.base_sequence) == (1, 0)


def test_records_behind_a_failed_one_are_given_up_at_once() -> None:
    rig = TransactionalRig(topics={"orders": 2}).begun()
    rig.cluster.faults.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    rig.send(b"x", partition=0)
    rig.run()
    with pytest.raises(TransactionMustAbort):
        rig.send(b"y", partition=1)
    rig = TransactionalRig(linger_ms=1_000).begun()
    rig.cluster.faults.append(HOLD)
    failing = rig.send(b"x")
    rig.advance(1_000)
    waiting = rig.send(b"y")
    held = rig.produce_requests()[0]
    held.answer(rig.cluster.store(held, refuse_with=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    rig.run()
    assert failing.done()
    assert isinstance(waiting.exception(0), TransactionMustAbort)
    assert rig.step(rig.transactions.abort) is None


@pytest.mark.parametrize("api", [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN])
def test_a_fenced_producer_can_only_be_closed(api: ApiKey) -> None:
    rig = TransactionalRig().begun()
    rig.errors[api] = [ErrorCode.PRODUCER_FENCED]
    handle = rig.send(b"x")
    assert isinstance(rig.step(rig.transactions.commit), ProducerFenced)
    assert rig.transactions.state is TransactionState.FATAL
    with pytest.raises(ProducerFenced):
        rig.send(b"y")
    with pytest.raises(ProducerFenced):
        rig.transactions.abort(lambda error: None)
    assert handle.done()


def test_offsets_go_to_the_groups_coordinator_under_the_transaction() -> None:
    rig = TransactionalRig().begun()
    rig.errors[ApiKey.TXN_OFFSET_COMMIT] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    group = GroupMetadata("g", 3, "member", None)
    offsets = {SOURCE: OffsetAndMetadata(5, "note")}
    assert rig.step(lambda done: rig.transactions.send_offsets(offsets, group, done)) is None
    assert rig.step(rig.transactions.commit) is None
    message = rig.network.of(ApiKey.TXN_OFFSET_COMMIT)[-1].message
    assert (message.group_id, message.generation_id, message.member_id) == ("g", 3, "member")
    assert message.topics[0].partitions[0].committed_offset == 5
    assert rig.ends() == [True], "offsets alone are a transaction too"


def test_a_group_that_moved_on_makes_the_transaction_abort() -> None:
    rig = TransactionalRig().begun()
    rig.errors[ApiKey.TXN_OFFSET_COMMIT] = [ErrorCode.ILLEGAL_GENERATION]
    error = rig.step(
        lambda done: rig.transactions.send_offsets({SOURCE: OffsetAndMetadata(5)}, GroupMetadata("g"), done)
    )
    assert "ILLEGAL_GENERATION" in str(error)
    assert rig.transactions.state is TransactionState.MUST_ABORT
    assert rig.step(rig.transactions.abort) is None


def test_a_cluster_without_transactions_says_so() -> None:
    rig = TransactionalRig()
    rig.network.serve(ApiKey.FIND_COORDINATOR, lambda sent: UnsupportedByBroker("broker 1 doesn't serve it"))
    assert isinstance(rig.step(rig.transactions.initialize), UnsupportedByBroker)
    assert rig.transactions.state is TransactionState.FATAL


def test_a_commit_that_is_called_again_waits_for_the_same_end() -> None:
    rig = TransactionalRig().begun()
    rig.network.hold(ApiKey.END_TXN)
    rig.send(b"x")
    rig.transactions.commit(lambda error: None)
    rig.run()
    outcome: list[ClientError | None] = []
    rig.transactions.commit(outcome.append)
    rig.network.held(ApiKey.END_TXN)[0].answer(EndTxnResponse())
    rig.run()
    assert outcome == [None]
