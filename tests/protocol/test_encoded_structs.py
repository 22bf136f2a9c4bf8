"""Structs that were encoded before stand in an array as if they were messages."""

import pytest

from ottla.protocol.codec import encode, encode_struct
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


@pytest.mark.parametrize("version", range(13))
def test_encoded_struct_gives_the_bytes_of_the_struct(version: int) -> None:
    topics = [
        MetadataResponseTopic(
            name=name, error_code=code, partitions=[MetadataResponsePartition(partition_index=index, isr_nodes=[1, 2])]
        )
        for index, (name, code) in enumerate([("a", 0), ("b", 5), ("c" * 200, 0)])
    ]
    plain = encode(MetadataResponse(topics=topics), version)
    encoded = [encode_struct(topic, version, within=MetadataResponse) for topic in topics]
    assert [struct.error_code for struct in encoded] == [0, 5, 0]
    assert encode(MetadataResponse(topics=encoded), version) == plain  # type: ignore[arg-type]
    assert encode(MetadataResponse(topics=[topics[0], *encoded[1:]]), version) == plain  # type: ignore[list-item]
