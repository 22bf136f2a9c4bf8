"""Which partitions are looked at again after a step."""

from ottla.core.types import TopicPartition
from ottla.replication.partition import Partition
from ottla.testing.simulation.changed_partitions import ChangedPartitions
from tests.replication.partitions import BROKER_ID, ORDERS, append, make_partition


def test_a_partition_is_looked_at_when_anything_that_is_judged_has_changed() -> None:
    partition = make_partition()
    partitions: dict[tuple[str, int], Partition] = {}
    looks = ChangedPartitions()
    assert list(looks.look(partitions)) == []
    partitions[ORDERS] = partition
    assert looks.look(partitions) == [partition]
    assert not looks.look(partitions)
    append(partition)
    assert looks.look(partitions) == [partition]
    partition.high_watermark = 0
    assert looks.look(partitions) == [partition]
    partition.log.advance_log_start_offset(1)
    assert looks.look(partitions) == [partition]
    partition.state = partition.state._replace(leader=BROKER_ID + 1)
    assert looks.look(partitions) == [partition]
    partition.topic_id = bytes(15) + b"\x01"
    assert looks.look(partitions) == [partition]
    partition.is_offline = True
    assert looks.look(partitions) == [partition]
    assert not looks.look(partitions)


def test_only_what_has_changed_is_looked_at() -> None:
    one, two = make_partition(), make_partition()
    two.topic_partition = TopicPartition("orders", 1)
    partitions = {one.topic_partition: one, two.topic_partition: two}
    looks = ChangedPartitions()
    assert looks.look(partitions) == [one, two]
    append(two)
    assert looks.look(partitions) == [two]
    del partitions[one.topic_partition]
    assert looks.look(partitions) == []
    partitions[one.topic_partition] = one  # a new log, for all that is known
    assert looks.look(partitions) == [one]
