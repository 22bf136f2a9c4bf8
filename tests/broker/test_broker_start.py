"""What the composition root puts right or refuses at a start; on real files, with no client."""

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.states import BrokerState
from ottla.controller.new_topics import NewTopic
from ottla.coordination import paths
from ottla.coordinator.group.shard import GroupShard
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.errors import ErrorCode
from ottla.protocol.offset_commit_codec import CommitResults, CommitTopics

Body = Callable[[Broker, asyncio.AbstractEventLoop], Coroutine[Any, Any, None]]


def config_of(directory: Path) -> BrokerConfig:
    return BrokerConfig.parse(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": f"{directory}/a,{directory}/b",
            "ottla.coordination.path": str(directory / "store" / "coordination.db"),
        }
    )


def run_broker(directory: Path, body: Body) -> None:
    """One life of a broker with two log directories."""

    async def live() -> None:
        loop = asyncio.get_running_loop()
        broker = Broker(config_of(directory), loop)
        await broker.start()
        try:
            await body(broker, loop)
        finally:
            await broker.stop()

    asyncio.run(live())


async def ask(loop: asyncio.AbstractEventLoop, operation: Callable[..., None], *arguments: Any) -> Any:
    future: asyncio.Future[Any] = loop.create_future()
    operation(*arguments, future.set_result)
    return await future


async def create_orders(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
    for name in ("invoices", "orders"):
        assert isinstance(await ask(loop, broker.core.topics.create, NewTopic(name, 4, 1)), TopicImage)


def test_directory_that_fails_within_the_start_takes_its_partitions_offline(tmp_path: Path) -> None:
    run_broker(tmp_path, create_orders)
    folder = next(iter(sorted((tmp_path / "a").glob("orders-*"))))
    (folder / "partition.metadata").unlink()
    (folder / "partition.metadata").mkdir()  # its topic id can't be read

    async def look(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        assert list(broker.core.log_manager.offline_directories) == [f"{tmp_path}/a"]
        # Two of the four are in that directory, and were already served when it failed.
        found = [broker.core.replicas.find("invoices", index) for index in range(4)]
        assert found.count(ErrorCode.KAFKA_STORAGE_ERROR) == 2

    run_broker(tmp_path, look)


def test_file_in_the_way_of_a_log_takes_that_partition_offline_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_broker(tmp_path, create_orders)
    for directory in ("a", "b"):
        path = tmp_path / directory / "orders-1"
        shutil.rmtree(path, ignore_errors=True)
        path.write_bytes(b"mine")

    async def look(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        assert not broker.core.log_manager.offline_directories
        found = [broker.core.replicas.find("orders", partition) for partition in range(4)]
        assert [one == ErrorCode.KAFKA_STORAGE_ERROR for one in found] == [False, True, False, False]

    run_broker(tmp_path, look)
    (error,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert f"{tmp_path}/a/orders-1" in error
    assert f"{tmp_path}/b/orders-1" in error
    assert "in the way" in error
    assert (tmp_path / "a" / "orders-1").read_bytes() == b"mine"


def test_note_of_a_deletion_whose_topic_is_gone_is_removed(tmp_path: Path) -> None:
    async def leave_note(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        assert (await ask(loop, broker.core._store.create, paths.delete_topic_path("orders"), b"")).is_ok

    run_broker(tmp_path, leave_note)
    run_broker(tmp_path, create_orders)  # a topic of that name is not meant

    async def look(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        assert "orders" in broker.core.topics.state.topics

    run_broker(tmp_path, look)


def test_offsets_of_a_topic_whose_deletion_is_finished_by_the_start_are_gone(tmp_path: Path) -> None:
    async def commit_and_note_a_deletion(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        await create_orders(broker, loop)
        groups = broker.core.start_groups()
        await ask(loop, lambda on_done: groups.offsets_topic.ensure(lambda: on_done(None)))
        shard = await loaded_shard(broker)
        results: list[CommitResults] = []
        topics: CommitTopics = [(name, [(0, 5, -1, "")]) for name in ("invoices", "orders")]
        outcome = shard.offsets.commit_topics("readers", topics, partitions_of=lambda _: {0}, answer=results.append)
        groups.coordinator.execute(shard, outcome)
        assert results == [[("invoices", [(0, 0)]), ("orders", [(0, 0)])]]
        assert (await ask(loop, broker.core._store.create, paths.delete_topic_path("orders"), b"")).is_ok

    run_broker(tmp_path, commit_and_note_a_deletion)

    async def look(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        assert "orders" not in broker.core.topics.state.topics
        assert isinstance(await ask(loop, broker.core.topics.create, NewTopic("orders", 4, 1)), TopicImage)
        shard = await loaded_shard(broker)
        assert shard.offsets.of_group("readers").keys() == {"invoices"}

    run_broker(tmp_path, look)
    run_broker(tmp_path, look_again)


@pytest.mark.parametrize("turns", [1, 2, 5, 20])
def test_start_that_is_cut_short_leaves_nothing_locked(tmp_path: Path, turns: int) -> None:
    async def cut_short() -> None:
        broker = Broker(config_of(tmp_path), asyncio.get_running_loop())
        start = asyncio.create_task(broker.start())
        for _ in range(turns):
            await asyncio.sleep(0)  # how far it comes in these is up to its threads
        start.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await start
            await broker.stop()
        assert broker.core.state is BrokerState.NOT_RUNNING

    asyncio.run(cut_short())
    run_broker(tmp_path, create_orders)


async def look_again(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
    shard = await loaded_shard(broker)
    assert shard.offsets.of_group("readers").keys() == {"invoices"}


async def loaded_shard(broker: Broker) -> GroupShard:
    coordinator = broker.core.start_groups().coordinator
    while coordinator.runtime.loading_count:
        await asyncio.sleep(0)  # a turn of the loop
    shard = coordinator.shard_for("readers")
    assert isinstance(shard, GroupShard)
    return shard
