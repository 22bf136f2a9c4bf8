"""The bytes that members exchange, against kafka-python's own coding of them."""

import pytest

from ottla.clients.consumer_protocol import decode_assignment, decode_member, encode_assignment, encode_subscription
from ottla.core.errors import ProtocolViolation
from ottla.core.types import TopicPartition


def test_what_is_encoded_is_decoded() -> None:
    member = decode_member("m", None, encode_subscription(["b", "a"]))
    assert member.topics == {"a", "b"}
    topic_partitions = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)]
    assert decode_assignment(encode_assignment(topic_partitions)) == topic_partitions
    assert decode_assignment(encode_assignment([])) == decode_assignment(b"") == []


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    # Version 9: topics, user data, owned partitions, generation and rack as in version 3, and more behind.
    newer = bytes.fromhex("0009 00000001 0001 61 ffffffff 00000000 00000005 ffff 00ff00ff")
    assert decode_member("m", None, newer).topics == {"a"}


@pytest.mark.parametrize("data", [b"\x00", b"\xff\xff", bytes.fromhex("0000 00000009 0001 61")])
def test_garbage_is_a_violation(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        decode_member("m", None, data)
