"""Heartbeat 0-4: a member is alive, and learns whether its generation is still the group's.

The most frequent request of idle consumers, and all of a member's are the same bytes but for the correlation id. So
they are remembered with the member that they are from, as long as its group does not change.
"""

from struct import Struct

from ottla.broker.request_memo import RequestMemo
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.groups import Groups
from ottla.coordinator.group.member import Member
from ottla.core.errors import ErrorCode
from ottla.core.exchange import Answer, Peer
from ottla.protocol.codec import decode, encode_response
from ottla.protocol.frames import parse_request_header
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

LAST_SERVED_VERSION = 4

_AFTER_CORRELATION_ID = 8
_KEY_BYTES_MAX = 1016

_pack_head = Struct(">ii").pack  # size, correlation id


class HeartbeatHandler:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        versions = LAST_SERVED_VERSION + 1
        self._memo: RequestMemo[_Known] = RequestMemo(versions=versions, key_bytes_max=_KEY_BYTES_MAX)
        # What follows the correlation id where all is well.
        self._fine = [encode_response(HeartbeatResponse(), version, 0)[8:] for version in range(versions)]

    def handle_frame(self, frame: memoryview, version: int, correlation_id: int, peer: Peer) -> Answer:
        known = self._memo.by_version[version].get(bytes(frame[_AFTER_CORRELATION_ID:]))
        if known is None or known.group.mark != known.mark:
            return self._decode(frame, version, correlation_id)
        known.keep_alive(known.member)
        peer.is_deferrable = True
        fine = self._fine[version]
        return _pack_head(len(fine) + 4, correlation_id) + fine

    def _decode(self, frame: memoryview, version: int, correlation_id: int) -> bytes:
        request = decode(HeartbeatRequest, version, frame[parse_request_header(frame).body_position :])
        response = self._answer(request, version, frame)
        return encode_response(response, version, correlation_id)

    def _answer(self, request: HeartbeatRequest, version: int, frame: memoryview) -> HeartbeatResponse:
        if not request.group_id:
            return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        shard = self._coordinator.shard_for(request.group_id)
        if shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()  # as Kafka: the member is most likely in what is being loaded
        if isinstance(shard, ErrorCode):
            return HeartbeatResponse(error_code=shard)
        response = shard.groups.heartbeat(request)
        if response.error_code == ErrorCode.NONE:
            self._learn(shard.groups, request, version, frame)
        return response

    def _learn(self, groups: Groups, request: HeartbeatRequest, version: int, frame: memoryview) -> None:
        group = groups.get(request.group_id)
        assert group is not None
        known = _Known(groups, group, group.members[request.member_id])
        self._memo.learn(version, bytes(frame[_AFTER_CORRELATION_ID:]), known)


class _Known:
    """Whose heartbeat it is; the group's mark shows whether that still holds."""

    __slots__ = ("group", "keep_alive", "mark", "member")

    def __init__(self, groups: Groups, group: Group, member: Member) -> None:
        self.group = group
        self.mark = group.mark
        self.member = member
        self.keep_alive = groups.keep_alive
