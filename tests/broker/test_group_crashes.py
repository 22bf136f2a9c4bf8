"""The power goes at any operation on the disk: every commit that was answered is there, of deleted groups nothing is.

With flush.messages=1 on the coordinator's topic; without, an answer promises no more than any append does.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.controller.deltas import TopicCreated
from ottla.core.cluster import OFFSETS_TOPIC, TopicImage
from ottla.core.errors import ErrorCode
from ottla.core.exchange import Deferred
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.offset_commit import OffsetCommitResponse
from ottla.testing.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.broker.rig import Rig, bytes_of
from tests.broker.test_group_coordination import COMMIT_VERSION, commit_request, committed

GROUPS = ("one", "two")
# So small that a life has several rewritings in it.
REWRITE_ABOVE_BYTES = 600
STEPS = ["commit", "commit", "commit", "delete", "turn", "flush", "flush", "expire", "checkpoint"]


class _GroupLives:
    """Groups over several lives of their broker, and what must be there of them."""

    def __init__(self, seed: int, directories: Iterator[Path]) -> None:
        self.disk = SimulatedDisk(seed)
        self._directories = directories
        self._images: list[TopicImage] = []
        self._sent = 0
        self._deleted_at = dict.fromkeys(GROUPS, 0)  # the last commit that was sent before the last deletion was
        self._floor = dict.fromkeys(GROUPS, 0)  # the last one that was answered and not followed by a deletion
        self._gone_up_to = dict.fromkeys(GROUPS, 0)  # a deletion that was answered came after these
        self._waiting: list[tuple[str, str, int, object]] = []

    def live(self, crash_after: int, steps: list[tuple[str, str]]) -> None:
        """Start, look at what is there, and take the steps until the power goes."""
        rig = self._start()
        if not self._images:
            rig.create_topic("orders")
            rig.create_topic(OFFSETS_TOPIC, 1, cleanup_policy="compact", flush_messages="1")
            self._images = list(rig.topics.state.topics.values())
            rig.ask(FindCoordinatorRequest(key="one"), FindCoordinatorResponse, 3)
            rig.background.run_all()
        self.disk.crash_after(crash_after)
        try:
            for step, group_id in steps:
                self._take(rig, step, group_id)
                self._hear_answers()
        except SimulatedCrash:
            pass
        self._hear_answers()
        self._waiting.clear()
        rig.close()
        self.disk = self.disk.crash()

    def check(self) -> None:
        rig = self._start()
        for group_id in GROUPS:
            found = committed(rig, group_id)
            assert isinstance(found, dict), ErrorCode(found)
            offset = found.get(0, 0)
            assert self._floor[group_id] <= offset <= self._sent
            assert offset == 0 or offset > self._gone_up_to[group_id]
        rig.close()

    def _start(self) -> Rig:
        properties = {"offsets.topic.num.partitions": "1", "offsets.retention.minutes": "1000000"}
        rig = Rig(next(self._directories), properties, disk=self.disk)
        runtime = rig.coordinator.runtime
        runtime._settings = runtime._settings._replace(rewrite_above_bytes=REWRITE_ABOVE_BYTES)
        for image in self._images:
            rig.local_topics.apply_loaded(image, {})
            rig.local_topics.use_topic_config(image.name, image.configs)  # the rig loads logs without
            rig.topics.state.apply(TopicCreated(image))
        rig.groups.offsets_topic.maybe_start()
        rig.background.run_all()
        return rig

    def _take(self, rig: Rig, step: str, group_id: str) -> None:
        if step == "commit":
            self._sent += 1
            number = self._sent
            request = commit_request(number, group_id=group_id, text="x" * 40)
            self._wait_for(step, group_id, number, rig.send(encode_request(request, COMMIT_VERSION, 77, "test")))
        elif step == "delete":
            number = self._deleted_at[group_id] = self._sent
            self._floor[group_id] = 0
            request_to_delete = DeleteGroupsRequest(groups_names=[group_id])
            self._wait_for(step, group_id, number, rig.send(encode_request(request_to_delete, 2, 77, "test")))
        elif step == "turn":
            rig.turn()
        elif step == "flush":
            rig.flush()
        elif step == "expire":
            rig.coordinator.expire()
        else:
            rig.log_manager.checkpoint_recovery_points()
            rig.log_manager.checkpoint_log_start_offsets()
            rig.log_manager.remove_due(rig.now_ms + 100_000)

    def _wait_for(self, step: str, group_id: str, number: int, answer: object) -> None:
        self._waiting.append((step, group_id, number, answer))

    def _hear_answers(self) -> None:
        for entry in list(self._waiting):
            step, group_id, number, answer = entry
            if isinstance(answer, Deferred) and not answer.is_complete:
                continue
            self._waiting.remove(entry)
            data = bytes_of(answer)[4:]  # type: ignore[arg-type]
            if step == "commit":
                response = decode_response(OffsetCommitResponse, COMMIT_VERSION, data)[1]
                is_done = response.topics[0].partitions[0].error_code == 0
                if is_done and number > self._deleted_at[group_id]:
                    self._floor[group_id] = number
            else:
                (result,) = decode_response(DeleteGroupsResponse, 2, data)[1].results
                if result.error_code == 0:
                    self._gone_up_to[group_id] = max(self._gone_up_to[group_id], number)


_STEP = st.tuples(st.sampled_from(STEPS), st.sampled_from(GROUPS))
_LIFE = st.tuples(st.integers(1, 120), st.lists(_STEP, min_size=5, max_size=80))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), lives=st.lists(_LIFE, min_size=1, max_size=3))
def test_answered_commits_survive_any_crash_at_any_operation(
    tmp_path_factory: pytest.TempPathFactory, seed: int, lives: list[tuple[int, list[tuple[str, str]]]]
) -> None:
    directories = iter(lambda: tmp_path_factory.mktemp("store"), None)
    groups = _GroupLives(seed, directories)
    for crash_after, steps in lives:
        groups.live(crash_after, steps)
        groups.check()
