"""OffsetCommit 2-9: how far a group has come, answered when it is durable by the rules of the offsets topic.

A member commits all the time, and its requests begin with the same bytes. So these are remembered with what they
mean, as long as its group does not change; the rest of such a request is read by `protocol/offset_commit_codec.py`. Of
a member that commits one partition without metadata, all but the offset is the same and is remembered.
"""

from collections.abc import Container
from struct import Struct

from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.request_memo import RequestMemo
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.member import Member
from ottla.coordinator.group.offsets import CommitOfOne
from ottla.coordinator.group.schemas import OffsetKey, encode_offset_key
from ottla.coordinator.group.shard import GroupShard
from ottla.core.errors import ErrorCode
from ottla.core.exchange import Answer, Deferred, Peer
from ottla.protocol import offset_commit_codec
from ottla.protocol.codec import decode, encode_response
from ottla.protocol.frames import parse_request_header
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.offset_commit_codec import (
    HEAD_POSITION,
    SINGLE_ENDS,
    SINGLE_HEAD,
    SINGLE_TAIL_BYTES,
    CommitResults,
    CommitTopics,
    end_of_head,
    end_of_single,
    pack_response,
    read_topics,
    unpack_single_offset,
)

LAST_SERVED_VERSION = 9

_HEAD_BYTES_MAX = 512
_SINGLE_BYTES_MAX = 512
_FAST_SINCE = offset_commit_codec.FIRST_VERSION
_NONE = ErrorCode.NONE
_pack_answer_head = Struct(">ii").pack  # size, correlation id


class OffsetCommitHandler:
    def __init__(self, coordinator: GroupCoordinator, cache: MetadataCache) -> None:
        self._coordinator = coordinator
        self._cache = cache
        versions = offset_commit_codec.LAST_VERSION + 1
        self._heads: RequestMemo[_Known] = RequestMemo(versions=versions, key_bytes_max=_HEAD_BYTES_MAX)
        self._singles: RequestMemo[_KnownSingle] = RequestMemo(versions=versions, key_bytes_max=_SINGLE_BYTES_MAX)

    def handle_frame(self, frame: memoryview, version: int, correlation_id: int, peer: Peer) -> Answer | Deferred:
        if version >= _FAST_SINCE:
            if len(frame) <= _SINGLE_BYTES_MAX:
                request = bytes(frame)
                single = self._singles.by_version[version].get(request[SINGLE_HEAD])
                if single is not None and single.group.mark == single.mark and request.endswith(SINGLE_ENDS):
                    _, topic, partition = single.key
                    image = self._cache.topics.get(topic)
                    if image is not None and partition in image.partitions:
                        return self._commit_single(single, request, correlation_id)
            head_end = end_of_head(frame)
            known = self._heads.by_version[version].get(bytes(frame[HEAD_POSITION:head_end]))
            if known is not None and known.group.mark == known.mark:
                topics = read_topics(frame, head_end)
                if topics is not None:
                    self._maybe_learn_single(known, topics, version, frame, head_end)
                    return self._commit_topics(known, topics, version, correlation_id)
        return self._decode(frame, version, correlation_id)

    def _commit_single(self, known: "_KnownSingle", request: bytes, correlation_id: int) -> Answer | Deferred:
        coordinator = self._coordinator
        member = known.member
        if member is not None:
            known.keep_alive(member)
        now_ms = coordinator.clock()
        offset, leader_epoch = unpack_single_offset(request, len(request) - SINGLE_TAIL_BYTES)
        commit = CommitOfOne(known.shard.offsets, known, correlation_id, offset, leader_epoch, now_ms)
        coordinator.execute_soon(known.shard, commit, now_ms)
        return commit

    def _commit_topics(
        self, known: "_Known", topics: CommitTopics, version: int, correlation_id: int
    ) -> Answer | Deferred:
        shard = known.shard
        member = known.member
        if member is not None:
            known.keep_alive(member)
        results = _Results(version, correlation_id, is_fast=True)
        outcome = shard.offsets.commit_topics(
            known.group.group_id, topics, partitions_of=self._partitions_of, answer=results.put
        )
        self._coordinator.execute_soon(shard, outcome, self._coordinator.clock())
        return results.answer()

    def _decode(self, frame: memoryview, version: int, correlation_id: int) -> Answer | Deferred:
        request = decode(OffsetCommitRequest, version, frame[parse_request_header(frame).body_position :])
        results = _Results(version, correlation_id, is_fast=False)
        shard = self._coordinator.shard_for(request.group_id)
        if isinstance(shard, ErrorCode):
            results.put(_refused(request, shard))
            return results.answer()
        outcome = shard.offsets.commit(request, version=version, partitions_of=self._partitions_of, answer=results.put)
        self._coordinator.execute(shard, outcome)
        if version >= _FAST_SINCE:
            self._maybe_learn(shard, request, version, frame)
        return results.answer()

    def _partitions_of(self, topic: str) -> Container[int]:
        image = self._cache.topics.get(topic)
        return () if image is None else image.partitions

    def _maybe_learn(self, shard: GroupShard, request: OffsetCommitRequest, version: int, frame: memoryview) -> None:
        group = shard.groups.get(request.group_id)
        head_end = end_of_head(frame)
        if group is None or head_end <= HEAD_POSITION:
            return
        refusal = shard.groups.check_commit(
            request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id_or_member_epoch,
        )
        if refusal == ErrorCode.NONE:
            # Without a member it is a consumer that assigns itself, which may commit as long as the group is empty.
            member = group.members.get(request.member_id)
            self._heads.learn(version, bytes(frame[HEAD_POSITION:head_end]), _Known(shard, group, member))

    def _maybe_learn_single(
        self, known: "_Known", topics: CommitTopics, version: int, frame: memoryview, head_end: int
    ) -> None:
        if len(topics) != 1 or len(topics[0][1]) != 1 or len(frame) > _SINGLE_BYTES_MAX:
            return
        topic, partitions = topics[0]
        request = bytes(frame)
        # The offset must be where it is looked for: unknown tags at the end could look as the end of the usual shape.
        if not request.endswith(SINGLE_ENDS) or len(request) != end_of_single(head_end, topic):
            return
        key = OffsetKey(known.group.group_id, topic, partitions[0][0])
        self._singles.learn(version, request[SINGLE_HEAD], _KnownSingle(known, key))


class _Known:
    """Who commits; the group's mark shows whether it still may."""

    __slots__ = ("group", "keep_alive", "mark", "member", "shard")

    def __init__(self, shard: GroupShard, group: Group, member: Member | None) -> None:
        self.shard = shard
        self.group = group
        self.mark = group.mark
        self.member = member
        self.keep_alive = shard.groups.keep_alive


class _KnownSingle(_Known):
    """A member and the only partition that it commits."""

    __slots__ = ("_fine", "_fine_bytes", "encoded_key", "key")

    def __init__(self, known: _Known, key: OffsetKey) -> None:
        super().__init__(known.shard, known.group, known.member)
        self.key = key
        self.encoded_key = encode_offset_key(key)
        # What follows the correlation id where all is well, and the size of such an answer.
        self._fine = pack_response(0, [(key.topic, [(key.partition, _NONE)])])[HEAD_POSITION:]
        self._fine_bytes = len(self._fine) + 4

    def pack_answer(self, correlation_id: int, error_code: ErrorCode) -> bytes:
        if not error_code:
            return _pack_answer_head(self._fine_bytes, correlation_id) + self._fine
        return pack_response(correlation_id, [(self.key.topic, [(self.key.partition, error_code)])])


class _Results:
    """Takes the results; nearly all are there before the handler returns, and cost no `Deferred` then."""

    __slots__ = ("_answer", "_correlation_id", "_deferred", "_is_fast", "_version")

    def __init__(self, version: int, correlation_id: int, *, is_fast: bool) -> None:
        self._version = version
        self._correlation_id = correlation_id
        self._is_fast = is_fast
        self._answer: bytes | None = None
        self._deferred: Deferred | None = None

    def put(self, results: CommitResults) -> None:
        if self._is_fast:
            answer = pack_response(self._correlation_id, results)
        else:
            answer = encode_response(_response(results), self._version, self._correlation_id)
        if self._deferred is None:
            self._answer = answer
        else:
            self._deferred.complete(answer)

    def answer(self) -> Answer | Deferred:
        if self._answer is not None:
            return self._answer
        self._deferred = Deferred(holds=True)
        return self._deferred


def _response(results: CommitResults) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition, error_code=error_code)
                    for partition, error_code in partitions
                ],
            )
            for topic, partitions in results
        ]
    )


def _refused(request: OffsetCommitRequest, error_code: ErrorCode) -> CommitResults:
    return [
        (topic.name, [(partition.partition_index, int(error_code)) for partition in topic.partitions])
        for topic in request.topics
    ]
