"""The partitioner agrees with Kafka's, by the word of another library."""

from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as foreign_murmur2

from ottla.clients.partitioning import murmur2, partition_for_key


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40))
def test_hash_is_that_of_kafka_python(key: bytes) -> None:
    assert murmur2(key) == foreign_murmur2(key) & 0xFFFFFFFF


def test_hash_has_the_values_of_kafkas_own_test() -> None:
    assert murmur2(b"21") - 2**32 == -973932308
    assert murmur2(b"foobar") - 2**32 == -790332482
    assert murmur2(b"abc") == 479470107


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=20), st.integers(1, 50))
def test_a_key_always_has_the_same_partition_in_range(key: bytes, partition_count: int) -> None:
    partition = partition_for_key(key, partition_count)
    assert 0 <= partition < partition_count
    assert partition == partition_for_key(bytes(key), partition_count)
