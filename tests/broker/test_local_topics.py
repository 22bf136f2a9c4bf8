"""The controller's decisions made real: logs, partitions, the metadata cache."""

import errno
from functools import partial
from random import Random

import pytest

from ottla.broker.controlling import DirectLink
from ottla.controller.broadcast import Broadcast
from ottla.controller.broker_channels import BrokerChannels
from ottla.controller.deltas import (
    PartitionsAdded,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicDeletionStarted,
    TopicDelta,
)
from ottla.controller.ports import ControllerPorts
from ottla.controller.state import ClusterState, StoredBrokerConfigs
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.control import ControlAnswer, StoppedReplica
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.storage.segment_files import PARTITION_METADATA_FILE
from ottla.testing.simulated_disk import SimulatedDisk
from tests.broker.conftest import MakeRig
from tests.broker.control_values import broker, carry_out, leader_and_isr, stop, update_metadata
from tests.broker.rig import BROKER_ID, Rig
from tests.storage.log_making import batch, read_all, values_of

HERE = PartitionState(1, 0, (1,), (1,))
ELSEWHERE = PartitionState(2, 0, (2,), (2,))


def image(topic_id: bytes = b"\x01" * 16, **partitions: PartitionState) -> TopicImage:
    states = {int(name[1:]): state for name, state in partitions.items()} or {0: HERE}
    return TopicImage("orders", topic_id, {}, states)


def create(rig: Rig, new: TopicImage) -> None:
    """The controller has this broker hold what is its own of a topic, and show it to clients."""
    here = {number: state for number, state in new.partitions.items() if BROKER_ID in state.replicas}
    assert carry_out(rig, leader_and_isr(here)) == ControlAnswer()
    carry_out(rig, update_metadata(new))


def restarted(make_rig: MakeRig, rig: Rig, *directories: str) -> Rig:
    """A new life on the same disk, after a clean stop; the store is a new one."""
    rig.run(rig.core.stop())
    return make_rig(disk=rig.disk, directories=directories or ("/data",))


def test_only_partitions_of_this_broker_get_a_log(rig: Rig) -> None:
    create(rig, image(p0=HERE, p1=ELSEWHERE, p2=HERE))
    assert [str(one) for one in rig.log_manager.partitions()] == ["orders-0", "orders-2"]
    assert rig.replicas.find("orders", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert rig.cache.name_of(b"\x01" * 16) == "orders"


def test_loaded_topic_goes_on_where_it_was(make_rig: MakeRig) -> None:
    rig = make_rig()
    create(rig, image())
    rig.produce(batch(b"a", b"b"))
    again = restarted(make_rig, rig)
    again.local_topics.apply_loaded(image(), {TopicPartition("orders", 0): 1})
    assert again.partition().high_watermark == 2
    assert again.produce(batch(b"c")) == (0, 2)


def test_missing_log_of_a_loaded_topic_is_made(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.local_topics.apply_loaded(image(p0=HERE, p1=HERE), {})
    assert rig.produce(batch(b"a"), index=1) == (0, 0)


def test_folder_of_an_older_topic_of_the_name_is_set_aside_for_good(make_rig: MakeRig) -> None:
    rig = make_rig()
    create(rig, image())
    rig.produce(batch(b"old"))
    again = restarted(make_rig, rig)
    again.local_topics.apply_loaded(image(b"\x02" * 16), {TopicPartition("orders", 0): 1})
    assert again.produce(batch(b"new")) == (0, 0)
    assert values_of(read_all(again.partition().log)) == [b"new"]
    assert again.log_manager.topic_id_of(TopicPartition("orders", 0)) == b"\x02" * 16
    again.log_manager.remove_due(again.now_ms + 10**9)
    (stray,) = [entry.name for entry in again.disk.list("/data") if entry.name.endswith("-stray")]
    assert b"old" in again.disk.read(f"/data/{stray}/{0:020d}.log")


def test_folder_that_lost_its_id_is_given_it_again(make_rig: MakeRig) -> None:
    rig = make_rig()
    create(rig, image())
    rig.produce(batch(b"a"))
    rig.disk.remove(f"/data/orders-0/{PARTITION_METADATA_FILE}")
    again = restarted(make_rig, rig)
    again.local_topics.apply_loaded(image(), {})
    assert values_of(read_all(again.partition().log)) == [b"a"]
    assert again.log_manager.topic_id_of(TopicPartition("orders", 0)) == b"\x01" * 16


def test_log_is_not_made_anew_while_a_directory_is_offline(make_rig: MakeRig) -> None:
    disk = SimulatedDisk()
    rig = make_rig(disk=disk, directories=("/a", "/b"))
    create(rig, image(p0=HERE, p1=HERE))
    rig.log_manager.shutdown(rig.now_ms)
    disk.fail_next("list", errno.EIO, path_prefix="/b")
    again = make_rig(disk=disk, directories=("/a", "/b"))
    again.local_topics.apply_loaded(image(p0=HERE, p1=HERE), {})
    found = [again.replicas.find("orders", index) for index in (0, 1)]
    assert found.count(ErrorCode.KAFKA_STORAGE_ERROR) == 1
    assert len(again.log_manager.partitions()) == 1


def test_new_topic_on_a_disk_that_fails_is_served_with_storage_errors(rig: Rig) -> None:
    rig.disk.fail_next("make_dirs", errno.ENOSPC)
    rig.create_topic("orders", 2)
    for index in (0, 1):
        assert rig.replicas.find("orders", index) == ErrorCode.KAFKA_STORAGE_ERROR
    assert "orders" in rig.cache.topics


def test_removed_topic_is_gone_with_its_folders_after_the_delay(rig: Rig) -> None:
    rig.create_topic("orders", 2, file_delete_delay_ms="1000")
    rig.produce(batch(b"a"))
    assert rig.pump.call(rig.topics.delete, "orders") is None
    assert rig.cache.topics == {}
    assert rig.log_manager.partitions() == []
    names = [entry.name for entry in rig.disk.list("/data") if entry.is_dir]
    assert len(names) == 2
    assert all(name.endswith("-delete") for name in names)
    rig.log_manager.remove_due(rig.now_ms + 1000)
    rig.settle()
    assert [entry.name for entry in rig.disk.list("/data") if entry.is_dir] == []


def test_flush_that_is_under_way_when_its_topic_goes_harms_nobody(rig: Rig) -> None:
    rig.create_topic(flush_messages="1")
    rig.create_topic("payments")
    rig.send_produce(("orders", 0, batch(b"a")))
    rig.turn()  # the fsync is with its thread now
    rig.local_topics.handle(stop(0, deletes=True), lambda _: None)
    rig.background.run_all()
    assert rig.produce(batch(b"b"), "payments") == (0, 0)


def test_unknown_topic_can_be_removed(rig: Rig) -> None:
    assert carry_out(rig, stop(0, deletes=True, topic="unknown")) == ControlAnswer()


def large(count: int = 50) -> TopicImage:
    return TopicImage("orders", b"\x01" * 16, {}, dict.fromkeys(range(count), HERE))


def test_large_topic_is_made_and_deleted_over_several_turns(rig: Rig) -> None:
    done: list[str] = []
    rig.local_topics.handle(leader_and_isr(large().partitions), lambda _: done.append("made"))
    assert 0 < len(rig.log_manager.partitions()) < 50
    assert done == []
    rig.settle()
    assert done == ["made"]
    assert len(rig.replicas.partitions) == len(rig.log_manager.partitions()) == 50
    rig.local_topics.handle(stop(*range(50), deletes=True), lambda _: done.append("removed"))
    assert not rig.replicas.partitions
    assert done == ["made"]
    rig.settle()
    assert done == ["made", "removed"]
    assert not rig.log_manager.partitions()


def test_deletion_waits_for_the_making_of_the_rest(rig: Rig) -> None:
    done: list[str] = []
    rig.local_topics.handle(leader_and_isr(large().partitions), lambda _: done.append("made"))
    rig.local_topics.handle(update_metadata(deleted=("orders",)), lambda _: done.append("hidden"))
    rig.local_topics.handle(stop(*range(50), deletes=True), lambda _: done.append("removed"))
    rig.settle()
    assert done == ["hidden", "made", "removed"]
    assert "orders" not in rig.cache.topics
    assert not rig.replicas.partitions
    assert not rig.log_manager.partitions()


def test_config_that_changes_meanwhile_holds_for_logs_that_are_made_after(rig: Rig) -> None:
    rig.local_topics.handle(leader_and_isr(large().partitions), lambda _: None)
    rig.local_topics.use_topic_config("orders", {"segment.bytes": "4096"})
    rig.settle()
    assert {log.config.segment_bytes for log in rig.log_manager.logs()} == {4096}
    carry_out(rig, update_metadata(large()))  # as the controller knew it when it sent both requests
    assert rig.cache.topics["orders"].configs == {"segment.bytes": "4096"}


def test_partitions_in_the_making_are_hidden_while_a_config_shows_at_once(rig: Rig) -> None:
    create(rig, large(2))
    added = dict.fromkeys(range(2, 50), HERE)
    rig.local_topics.handle(leader_and_isr(added), lambda _: None)
    rig.local_topics.use_topic_config("orders", {"segment.bytes": "4096"})
    seen = rig.cache.topics["orders"]
    assert (list(seen.partitions), seen.configs) == ([0, 1], {"segment.bytes": "4096"})
    rig.settle()
    carry_out(rig, update_metadata(large()._replace(partitions=added)))
    assert list(rig.cache.topics["orders"].partitions) == list(range(50))


def take_step(rig: Rig, random: Random) -> bool:
    """Any one of what the loop and the threads have to do; False when that is nothing."""
    soon, waiting = rig.loop.soon, rig.background.waiting
    if soon and (not waiting or random.random() < 0.5):
        soon.pop(random.randrange(len(soon)))()
    elif waiting:
        rig.background.run_one()
    return bool(soon or waiting)


def broadcast_to(rig: Rig, state: ClusterState) -> Broadcast:
    """A controller's way to its own broker."""
    link = DirectLink(rig.local_topics)
    ports = ControllerPorts(rig.clock, rig.loop.call_soon, rig.core.timers.call_later, Random(1).randbytes, link)
    channels = BrokerChannels(
        ports,
        controller_id=BROKER_ID,
        controller_epoch=5,
        live_brokers=lambda: tuple(state.brokers.values()),
        on_answer=lambda *_: None,
    )
    for one in state.brokers.values():
        channels.open(one)
    return Broadcast(state, channels, broker_id=BROKER_ID)


@pytest.mark.parametrize("seed", range(20))
def test_clients_see_in_the_end_what_the_controller_has(rig: Rig, seed: int) -> None:
    random = Random(seed)
    state = ClusterState([], StoredBrokerConfigs({}, {}), brokers=[broker(BROKER_ID)])
    broadcast = broadcast_to(rig, state)
    created = dict.fromkeys(range(30), HERE)
    deltas: list[TopicDelta] = [
        TopicCreated(TopicImage("orders", b"\x01" * 16, {}, created)),
        TopicConfigChanged("orders", {"segment.ms": "5"}),
        PartitionsAdded("orders", dict.fromkeys(range(30, 75), HERE)),
        TopicConfigChanged("orders", {"retention.ms": "7"}),
        PartitionsAdded("orders", dict.fromkeys(range(75, 80), HERE)),
        *((TopicDeletionStarted("orders", tuple(range(80))), TopicDeleted("orders")) if seed % 4 == 0 else ()),
    ]
    applied: list[TopicDelta] = []
    for delta in deltas:
        if isinstance(delta, TopicDeleted):  # decided when the files are gone
            while take_step(rig, random):
                pass
        state.apply(delta)
        if isinstance(delta, TopicConfigChanged):
            rig.local_topics.use_topic_config(delta.topic, delta.configs)
        broadcast.apply(delta, partial(applied.append, delta))
        if isinstance(delta, TopicDeletionStarted):
            for partition in delta.partitions:
                broadcast.stop(BROKER_ID, StoppedReplica(TopicPartition("orders", partition), 0, deletes=True))
        for _ in range(random.randrange(4)):
            take_step(rig, random)
    while take_step(rig, random):
        pass
    assert sorted(applied, key=deltas.index) == deltas
    assert rig.cache.topics == state.topics
    assert len(rig.log_manager.partitions()) == len(rig.replicas.partitions) == (0 if seed % 4 == 0 else 80)
    if rig.cache.topics:
        assert {log.config.retention_ms for log in rig.log_manager.logs()} == {7}


def test_a_foreign_folder_takes_only_its_own_partition_away(rig: Rig) -> None:
    rig.disk.make_dirs("/data/orders-1")
    rig.disk.write_atomically("/data/orders-1/notes.txt", b"mine")
    rig.create_topic("orders", 4)
    codes = [rig.produce(batch(b"a"), "orders", partition)[0] for partition in range(4)]
    assert codes == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE, ErrorCode.NONE]
