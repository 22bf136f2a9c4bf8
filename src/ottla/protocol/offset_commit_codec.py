"""A hand-written codec of OffsetCommit 8-9, for the shape that nearly all of these requests have.

`codec` reads everything else (a length of more than one byte, tagged fields, damage): nothing here decides or raises
an error.
"""

from struct import Struct, error
from typing import Final, TypeAlias

FIRST_VERSION: Final = 8
LAST_VERSION: Final = 9
HEAD_POSITION: Final = 8  # after api key, version and correlation id

# (partition, offset, leader epoch, metadata), and by topic.
CommitPartition: TypeAlias = tuple[int, int, int, str]
CommitTopics: TypeAlias = list[tuple[str, list[CommitPartition]]]
# (partition, error code) by topic.
CommitResults: TypeAlias = list[tuple[str, list[tuple[int, int]]]]

_ONE_BYTE = 0x80  # a varint below it is a single byte

_unpack_length = Struct(">h").unpack_from
_PARTITION = Struct(">iqi")
_PARTITION_BYTES = _PARTITION.size
_unpack_partition = _PARTITION.unpack_from
# After the index of the only partition: offset, leader epoch, no metadata, and the tags of partition, topic, request.
_SINGLE_OFFSET = Struct(">qi")
SINGLE_ENDS: Final = (b"\1\0\0\0", b"\0\0\0\0")
SINGLE_TAIL_BYTES: Final = _SINGLE_OFFSET.size + len(SINGLE_ENDS[0])
# The bytes before it are the same in all commits of a member that has one partition and no metadata. The end of a
# request and a handler that has read the same bytes before can tell whether it is one of those.
SINGLE_HEAD: Final = slice(HEAD_POSITION, -SINGLE_TAIL_BYTES)
unpack_single_offset = _SINGLE_OFFSET.unpack_from

_pack_head = Struct(">iibi").pack  # size, correlation id, no tags, throttle time
_pack_result = Struct(">ihb").pack  # partition, error code, no tags


def end_of_head(frame: memoryview) -> int:
    """Where the topics begin: all before is the same in every commit of a member. 0 if that is not cheap to find."""
    try:
        (client_id_bytes,) = _unpack_length(frame, HEAD_POSITION)
        position = HEAD_POSITION + 2 + (client_id_bytes if client_id_bytes > 0 else 0)
        group_at = position + 1
        generation_at = group_at + frame[group_at]
        member_at = generation_at + 4
        instance_at = member_at + frame[member_at]
        end = instance_at + (frame[instance_at] or 1)
        if frame[position] or (frame[group_at] | frame[member_at] | frame[instance_at]) >= _ONE_BYTE:
            return 0
    except (IndexError, error):
        return 0
    return end


def read_topics(frame: memoryview, position: int) -> CommitTopics | None:
    """From the end of the head to the end of the request; None if it isn't of the usual shape."""
    try:
        topics: CommitTopics = []
        topic_count = frame[position]
        position += 1
        for _ in range(topic_count - 1):
            name_bytes = frame[position]
            name = str(frame[position + 1 : position + name_bytes], "utf-8")
            position += name_bytes
            partition_count = frame[position]
            position += 1
            partitions: list[CommitPartition] = []
            for _ in range(partition_count - 1):
                index, offset, leader_epoch = _unpack_partition(frame, position)
                position += _PARTITION_BYTES
                metadata_bytes = frame[position]
                metadata = ""
                if metadata_bytes > 1:
                    metadata = str(frame[position + 1 : position + metadata_bytes], "utf-8")
                position += metadata_bytes or 1
                if frame[position] or metadata_bytes >= _ONE_BYTE:
                    return None
                position += 1
                partitions.append((index, offset, leader_epoch, metadata))
            if frame[position] or not 0 < name_bytes < _ONE_BYTE or not 0 < partition_count < _ONE_BYTE:
                return None
            position += 1
            topics.append((name, partitions))
        if frame[position] or not 0 < topic_count < _ONE_BYTE:
            return None
    except (IndexError, error, UnicodeDecodeError):
        return None
    return topics


def end_of_single(head_end: int, topic: str) -> int:
    """The length of a request with one partition of this topic and no metadata, in the usual shape."""
    return head_end + 1 + 1 + len(topic.encode()) + 1 + 4 + SINGLE_TAIL_BYTES  # topics, name, partitions, index


def pack_response(correlation_id: int, results: CommitResults) -> bytes:
    """A whole answer to the topics that `read_topics` returned, its size included."""
    parts = [b"", bytes((len(results) + 1,))]
    for name, partitions in results:
        encoded = name.encode()
        parts += (bytes((len(encoded) + 1,)), encoded, bytes((len(partitions) + 1,)))
        for index, error_code in partitions:
            parts.append(_pack_result(index, error_code, 0))
        parts.append(b"\0")
    parts.append(b"\0")
    parts[0] = _pack_head(9 + sum(map(len, parts)), correlation_id, 0, 0)
    return b"".join(parts)
