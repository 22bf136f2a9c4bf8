"""What the composition root puts right or refuses at a start; on real files, with no client."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from ottla.broker.broker import Broker
from ottla.broker.cluster_join import ask
from ottla.controller.topics import NewTopic
from ottla.coordination import paths
from ottla.coordinator.shard import GroupShard
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.errors import ErrorCode
from ottla.protocol.offset_commit_codec import CommitResults, CommitTopics

Body = Callable[[Broker, asyncio.AbstractEventLoop], Coroutine[Any, Any, None]]


def run_broker(directory: Path, body: Body) -> None:
    """One life of a broker with two log directories."""
    config = BrokerConfig.parse(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": f"{directory}/a,{directory}/b",
            "ottla.coordination.path": str(directory / "store" / "coordination.db"),
        }
    )

    async def live() -> None:
        loop = asyncio.get_running_loop()
        broker = Broker(config, loop)
        await broker.start()
        try:
            await body(broker, loop)
        finally:
            await broker.stop()

    asyncio.run(live())


async def create_orders(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
    for name in ("invoices", "orders"):
        assert isinstance(await ask(loop, broker._topics.create, NewTopic(name, 4, 1)), TopicImage)


def test_directory_that_fails_within_the_start_takes_its_partitions_offline(tmp_path: Path) -> None:
    run_broker(tmp_path, create_orders)
    folder = next(iter(sorted((tmp_path / "a").glob("orders-*"))))
    shutil.rmtree(folder)
    folder.write_bytes(b"in the way")  # the missing log can't be made in this directory

    async def look(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        assert list(broker._log_manager.offline_directories) == [f"{tmp_path}/a"]
        # Two of the four are in that directory, and were already served when it failed.
        found = [broker._replicas.find("invoices", index) for index in range(4)]
        assert found.count(ErrorCode.KAFKA_STORAGE_ERROR) == 2

    run_broker(tmp_path, look)


def test_note_of_a_deletion_whose_topic_is_gone_is_removed(tmp_path: Path) -> None:
    async def leave_note(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        assert (await ask(loop, broker._store.create, paths.delete_topic_path("orders"), b"")).is_ok

    run_broker(tmp_path, leave_note)
    run_broker(tmp_path, create_orders)  # a topic of that name is not meant

    async def look(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        assert "orders" in broker._topics.images

    run_broker(tmp_path, look)


def test_offsets_of_a_topic_whose_deletion_is_finished_by_the_start_are_gone(tmp_path: Path) -> None:
    async def commit_and_note_a_deletion(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        await create_orders(broker, loop)
        groups = broker._start_groups()
        await ask(loop, lambda on_done: groups.offsets_topic.ensure(lambda: on_done(None)))
        shard = await loaded_shard(broker)
        results: list[CommitResults] = []
        topics: CommitTopics = [(name, [(0, 5, -1, "")]) for name in ("invoices", "orders")]
        outcome = shard.offsets.commit_topics("readers", topics, partitions_of=lambda _: {0}, answer=results.append)
        groups.coordinator.execute(shard, outcome)
        assert results == [[("invoices", [(0, 0)]), ("orders", [(0, 0)])]]
        assert (await ask(loop, broker._store.create, paths.delete_topic_path("orders"), b"")).is_ok

    run_broker(tmp_path, commit_and_note_a_deletion)

    async def look(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        assert "orders" not in broker._topics.images
        assert isinstance(await ask(loop, broker._topics.create, NewTopic("orders", 4, 1)), TopicImage)
        shard = await loaded_shard(broker)
        assert shard.offsets.of_group("readers").keys() == {"invoices"}

    run_broker(tmp_path, look)
    run_broker(tmp_path, look_again)


async def look_again(broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
    shard = await loaded_shard(broker)
    assert shard.offsets.of_group("readers").keys() == {"invoices"}


async def loaded_shard(broker: Broker) -> GroupShard:
    coordinator = broker._start_groups().coordinator
    while coordinator.loading_count:
        await asyncio.sleep(0)  # a turn of the loop
    shard = coordinator.shard_for("readers")
    assert isinstance(shard, GroupShard)
    return shard
