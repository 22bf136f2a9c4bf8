"""Clients of one group that join, work, get stuck, restart and die by a seed, against a coordinator that may restart.

The clients are as good as real ones: they do what an error code asks for, and repeat what was not answered in time.
"""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from ottla.coordinator.group.groups import Groups
from ottla.coordinator.group.states import EMPTY, STABLE
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from tests.coordinator.group.group_rig import GroupRig, replay_into

PARTITIONS = 12
STEP_MS = 1_000
HEARTBEAT_STEPS = 3
REQUEST_TIMEOUT_STEPS = 90  # longer than a rebalance, as in real clients

ResponseT = TypeVar("ResponseT")


class Simulation:
    """One run. `check` holds after every step, `settle_down` at the end."""

    def __init__(self, seed: int, *, fails_commits: bool) -> None:
        self.random = Random(seed)
        self.rig = GroupRig()
        self.fails_commits = fails_commits
        self.clients: list[Client] = []
        # Owner of each partition by generation: what the coordinator ever answered to a sync.
        self.owners: dict[tuple[int, int], str] = {}
        self.unanswered = 0
        self.instances = 0
        # What a start would make of the log, fed record by record.
        self.replica = self.rig.new_groups()
        self.replicated = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.disturb()
            self.step()

    def disturb(self) -> None:
        random = self.random
        chance = random.random()
        if chance < 0.08 and len(self.alive()) < 6:
            instance = None
            if random.random() < 0.4:
                self.instances += 1
                instance = f"instance-{self.instances}"
            self.clients.append(Client(self, instance))
        elif chance < 0.16 and self.alive():
            client = random.choice(self.alive())
            action = random.choice(("die", "leave", "stick", "lose", "restart", "news"))
            getattr(client, action)()
        elif chance < 0.20:
            self.rig.holds_commits = True
        elif chance < 0.30:
            self.settle_commits()
        elif chance < 0.32:
            self.restart_coordinator()

    def settle_commits(self) -> None:
        is_failure = self.fails_commits and self.random.random() < 0.4
        self.rig.holds_commits = False
        self.rig.settle(ErrorCode.COORDINATOR_NOT_AVAILABLE if is_failure else ErrorCode.NONE)

    def restart_coordinator(self) -> None:
        rig = self.rig
        rig.groups.unload(ErrorCode.NOT_COORDINATOR)
        rig.settle(ErrorCode.NOT_COORDINATOR)
        assert len(rig.wheel) == 0, "an unloaded shard leaves no timers"
        rig.groups = rig.replayed()
        rig.groups.on_loaded()

    def step(self) -> None:
        self.rig.pass_ms(STEP_MS)
        for client in self.alive():
            client.step()
        self.check()

    def alive(self) -> list["Client"]:
        return [client for client in self.clients if client.is_alive]

    def once(self, on_answer: Callable[[ResponseT], None]) -> Callable[[ResponseT], None]:
        """Each request is answered at most once, and the run counts those that are not yet."""
        self.unanswered += 1
        answered: list[ResponseT] = []

        def answer(response: ResponseT) -> None:
            assert not answered, f"answered twice: {answered[0]}, {response}"
            answered.append(response)
            self.unanswered -= 1
            on_answer(response)

        return answer

    def own(self, generation: int, partitions: bytes, owner: str) -> None:
        for partition in partitions:
            first = self.owners.setdefault((generation, partition), owner)
            assert first == owner, f"generation {generation}: partition {partition} is of {first} and of {owner}"

    def check(self) -> None:
        group = self.rig.groups.get("g")
        if group is None:
            return
        members = group.members.values()
        assert group.joins_waiting == sum(member.join_answer is not None for member in members)
        assert all(member.session_timer.is_scheduled for member in members), "a member that nobody watches"
        assert set(group.pending_sync) <= set(group.members)
        assert len(group.static_members) == sum(member.instance_id is not None for member in members)
        assert (group.leader_id in group.members) or not group.members
        if self.fails_commits:
            return  # then the log may know of more, or of less, until the next generation
        new_records = self.rig.log[self.replicated :]
        self.replicated += len(new_records)
        replay_into(self.replica, new_records)
        assert durable(self.replica) == durable(self.rig.replayed(list(self.rig.groups.live_records())))
        if group.state in (STABLE, EMPTY) and self.rig.log:
            assert durable(self.replica) == durable(self.rig.groups)

    def settle_down(self) -> None:
        """Without disturbance all who live are in one generation soon, and everything is read by one of them."""
        self.settle_commits_well()
        for client in self.alive():
            client.stuck_steps = 0
        for _ in range(400):
            self.settle_commits_well()
            self.step()
        alive = self.alive()
        assert self.unanswered == 0, "somebody waits forever"
        assert all(client.phase == "member" for client in alive), [client.phase for client in alive]
        group = self.rig.groups.get("g")
        if alive:
            assert group is not None
            assert group.state is STABLE
            assert {client.generation for client in alive} == {group.generation}
            assert sorted(b"".join(client.partitions for client in alive)) == list(range(PARTITIONS))
            assert set(group.members) == {client.member_id for client in alive}
        elif group is not None:
            assert group.is_abandoned
            assert len(self.rig.wheel) == 0

    def settle_commits_well(self) -> None:
        self.rig.holds_commits = False
        self.rig.settle()


class Client:
    """A consumer that assigns partitions evenly when it leads."""

    def __init__(self, simulation: Simulation, instance: str | None) -> None:
        self.simulation = simulation
        self.instance = instance
        self.is_alive = True
        self.phase = "out"
        self.member_id = ""
        self.generation = -1
        self.partitions = b""
        self.metadata = b"0"
        self.stuck_steps = 0
        self.waited_steps = 0
        self.attempt = 0

    # What happens to it

    def die(self) -> None:
        self.is_alive = False

    def stick(self) -> None:
        self.stuck_steps = self.simulation.random.randint(1, 40)

    def lose(self) -> None:
        """The answer to what it asked is lost."""
        self.attempt += 1

    def news(self) -> None:
        self.metadata = str(self.simulation.random.randint(0, 9)).encode()
        self.join_again()

    def restart(self) -> None:
        self.is_alive = False
        self.simulation.clients.append(Client(self.simulation, self.instance))

    def leave(self) -> None:
        self.is_alive = False
        if self.member_id:
            self.simulation.rig.leave(self.member_id)

    # What it does

    def step(self) -> None:
        if self.stuck_steps:
            self.stuck_steps -= 1
        elif self.phase == "out":
            self.send_join()
        elif self.phase in ("joining", "syncing"):
            self.waited_steps += 1
            if self.waited_steps > REQUEST_TIMEOUT_STEPS:
                self.join_again()
        else:
            self.waited_steps += 1
            if self.waited_steps >= HEARTBEAT_STEPS:
                self.waited_steps = 0
                error_code = self.simulation.rig.heartbeat(self.member_id, self.generation, instance=self.instance)
                self.act_on(error_code)

    def join_again(self) -> None:
        self.phase = "out"
        self.attempt += 1
        self.waited_steps = 0

    def act_on(self, error_code: ErrorCode) -> None:
        if error_code == ErrorCode.FENCED_INSTANCE_ID:
            self.is_alive = False
        elif error_code != ErrorCode.NONE:
            if error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
                self.member_id = ""
                self.partitions = b""
            self.join_again()

    def receive(self, on_answer: Callable[[ResponseT], None]) -> Callable[[ResponseT], None]:
        """Answers to what it gave up on, or to the dead, are not heard."""
        self.waited_steps = 0
        attempt = self.attempt

        def answer(response: ResponseT) -> None:
            if self.is_alive and self.attempt == attempt:
                on_answer(response)

        return self.simulation.once(answer)

    def send_join(self) -> None:
        self.phase = "joining"
        self.simulation.rig.join(
            self.member_id,
            protocols=[("range", self.metadata)],
            version=9,
            instance=self.instance,
            answer=self.receive(self.on_joined),
        )

    def on_joined(self, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join_again()
            return
        self.act_on(ErrorCode(response.error_code))
        if response.error_code:
            return
        self.member_id, self.generation = response.member_id, response.generation_id
        self.phase = "syncing"
        assignments = None
        if response.leader == self.member_id and not response.skip_assignment:
            ids = [member.member_id for member in response.members]
            assignments = {member_id: bytes(range(place, PARTITIONS, len(ids))) for place, member_id in enumerate(ids)}
        self.simulation.rig.sync(
            self.member_id,
            self.generation,
            assignments,
            instance=self.instance,
            answer=self.receive(self.on_synced),
        )

    def on_synced(self, response: SyncGroupResponse) -> None:
        self.act_on(ErrorCode(response.error_code))
        if response.error_code:
            return
        self.phase = "member"
        self.partitions = response.assignment
        self.simulation.own(self.generation, self.partitions, self.instance or self.member_id)


def durable(groups: Groups) -> dict[str, object]:
    """All of the groups that a restart must bring back."""
    return {
        group.group_id: (
            group.generation,
            group.protocol_type,
            group.protocol,
            group.leader_id,
            {
                member.member_id: (member.instance_id, member.assignment, member.session_timeout_ms)
                for member in group.members.values()
            },
        )
        for group in groups.all()
        if group.recorded is not None
    }
