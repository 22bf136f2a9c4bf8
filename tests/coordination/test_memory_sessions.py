"""Several clients of the engine in memory, over time: sessions that live and expire, connections and answers lost."""

from random import Random

import pytest

from ottla.coordination.memory import MemoryStore
from ottla.coordination.memory_ensemble import MemoryEnsemble
from ottla.coordination.store import (
    ANY_VERSION,
    NO_OWNER,
    Code,
    Result,
    SessionState,
    WatchEvent,
    WatchKind,
)
from tests.coordination.hand_time import HandLoop, HandTime, RandomCourier

TIMEOUT_S = 6.0
CONNECTED, SUSPENDED, EXPIRED = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED


class Process:
    """A client with a loop of its own that notes all that it hears."""

    def __init__(self, cluster: "Cluster", name: str, *, delays: Random | None = None) -> None:
        self.loop = HandLoop(cluster.time)
        self.results: list[Result] = []
        self.states: list[SessionState] = []
        self.events: list[WatchEvent] = []
        self.to_ensemble = RandomCourier(cluster.loop, delays, delay_max_s=0.05) if delays else None
        to_client = RandomCourier(self.loop, delays, delay_max_s=0.05) if delays else None
        self.store = MemoryStore(
            cluster.ensemble, self.loop, name=name, to_ensemble=self.to_ensemble, to_client=to_client
        )
        self.store.add_session_listener(self.states.append)

    @property
    def codes(self) -> list[Code]:
        """Of the results since the last look."""
        codes = [result.code for result in self.results]
        self.results.clear()
        return codes

    def create(self, path: str, *, ephemeral: bool = False) -> None:
        self.store.create(path, b"", self.results.append, ephemeral=ephemeral)

    def set(self, path: str, value: bytes) -> None:
        self.store.set(path, value, self.results.append, version=ANY_VERSION)

    def watch(self, path: str) -> None:
        self.store.exists(path, self.results.append, watch=self.events.append)

    def watch_children(self, path: str) -> None:
        self.store.children(path, self.results.append, watch=self.events.append)


class Cluster:
    def __init__(self) -> None:
        self.time = HandTime()
        self.loop = HandLoop(self.time)
        self.ensemble = MemoryEnsemble(self.loop, session_timeout_ms=int(TIMEOUT_S * 1000))

    def process(self, name: str, *, delays: Random | None = None) -> Process:
        process = Process(self, name, delays=delays)
        self.time.run_for(0.001)
        return process

    def settle(self) -> None:
        self.time.run_for(0.5)

    def has(self, path: str) -> bool:
        return self.ensemble.tree.exists(path).is_ok


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def one(cluster: Cluster) -> Process:
    return cluster.process("one")


@pytest.fixture
def two(cluster: Cluster) -> Process:
    return cluster.process("two")


# Several clients


def test_watch_hears_the_change_of_another_client_once(cluster: Cluster, one: Process, two: Process) -> None:
    one.watch("/a")
    cluster.settle()
    two.create("/a")
    two.set("/a", b"x")
    cluster.settle()
    assert one.events == [WatchEvent(WatchKind.CREATED, "/a")]
    assert two.events == []


def test_each_client_has_a_session_of_its_own(cluster: Cluster, one: Process, two: Process) -> None:
    one.create("/one", ephemeral=True)
    two.create("/two", ephemeral=True)
    cluster.settle()
    assert NO_OWNER != one.store.session_id != two.store.session_id
    one.store.close()
    cluster.settle()
    assert (cluster.has("/one"), cluster.has("/two")) == (False, True)
    assert cluster.ensemble.session_ids == (two.store.session_id,)


def test_operations_before_the_first_session_wait_for_it(cluster: Cluster) -> None:
    process = Process(cluster, "early")
    assert process.store.session_id == NO_OWNER
    process.create("/a", ephemeral=True)
    cluster.settle()
    assert process.codes == [Code.OK]
    stat = cluster.ensemble.tree.exists("/a").stat
    assert stat is not None
    assert stat.ephemeral_owner == process.store.session_id


def test_change_is_recorded_with_the_value_after_it(cluster: Cluster, one: Process) -> None:
    changes: list[tuple[WatchEvent, bytes]] = []
    cluster.ensemble.on_change = lambda event, value: changes.append((event, value))
    one.create("/a", ephemeral=True)
    one.set("/a", b"x")
    one.store.close()
    cluster.settle()
    kinds = (WatchKind.CREATED, WatchKind.CHANGED, WatchKind.DELETED)
    assert changes == [(WatchEvent(kind, "/a"), value) for kind, value in zip(kinds, (b"", b"x", b""), strict=True)]


# Time


def test_idle_client_keeps_its_session(cluster: Cluster, one: Process) -> None:
    session_id = one.store.session_id
    cluster.time.run_for(100 * TIMEOUT_S)
    assert one.states == [CONNECTED]
    assert one.store.session_id == session_id


def test_session_of_a_dead_process_ends_by_its_timeout_and_not_before(
    cluster: Cluster, one: Process, two: Process
) -> None:
    one.create("/e", ephemeral=True)
    cluster.settle()
    two.watch("/e")
    one.loop.is_dead = True
    again = cluster.process("one")
    cluster.time.run_for(TIMEOUT_S / 2)
    assert cluster.has("/e")
    cluster.time.run_for(TIMEOUT_S)
    assert two.events == [WatchEvent(WatchKind.DELETED, "/e")]
    assert again.states == [CONNECTED]


def test_process_that_was_stopped_for_too_long_hears_that_it_expired(cluster: Cluster, one: Process) -> None:
    one.create("/e", ephemeral=True)
    cluster.settle()
    old_session_id = one.store.session_id
    one.loop.stop()
    cluster.time.run_for(2 * TIMEOUT_S)
    assert not cluster.has("/e")
    one.create("/late", ephemeral=True)  # called before it hears of anything
    one.loop.go_on()
    cluster.settle()
    assert one.states == [CONNECTED, SUSPENDED, EXPIRED, CONNECTED]
    assert one.store.session_id != old_session_id
    assert one.codes == [Code.OK, Code.CONNECTION_LOST]
    assert not cluster.has("/late")


def test_process_that_was_stopped_for_a_moment_notices_nothing(cluster: Cluster, one: Process) -> None:
    one.loop.stop()
    cluster.time.run_for(TIMEOUT_S / 2)
    one.loop.go_on()
    cluster.settle()
    assert one.states == [CONNECTED]


# Connections


def test_cut_connection_suspends_and_comes_back_with_the_same_session(cluster: Cluster, one: Process) -> None:
    one.create("/e", ephemeral=True)
    cluster.settle()
    session_id = one.store.session_id
    cluster.ensemble.cut("one")
    cluster.settle()
    one.create("/b")
    assert one.codes == [Code.OK]  # never inside the call
    cluster.settle()
    assert one.codes == [Code.CONNECTION_LOST]
    assert one.states == [CONNECTED, SUSPENDED]
    cluster.ensemble.restore("one")
    cluster.settle()
    assert one.states == [CONNECTED, SUSPENDED, CONNECTED]
    assert one.store.session_id == session_id
    assert cluster.has("/e")
    one.create("/b")
    cluster.settle()
    assert one.codes == [Code.OK]


def test_operations_under_way_at_a_cut_are_lost_in_their_order(cluster: Cluster, one: Process) -> None:
    order: list[int] = []
    one.store.create("/a", b"", lambda result: order.append(0))
    one.store.get("/a", lambda result: order.append(1))
    cluster.ensemble.cut("one")
    one.store.get("/a", lambda result: order.append(2))  # the client has not noticed yet
    cluster.settle()
    one.store.get("/a", lambda result: order.append(3))
    cluster.settle()
    assert order == [0, 1, 2, 3]
    assert not cluster.has("/a")


def test_cut_that_outlasts_the_session_expires_it(cluster: Cluster, one: Process, two: Process) -> None:
    one.create("/e", ephemeral=True)
    one.watch("/p")
    cluster.settle()
    old_session_id = one.store.session_id
    cluster.ensemble.cut("one")
    cluster.time.run_for(2 * TIMEOUT_S)
    assert one.states == [CONNECTED, SUSPENDED]
    assert not cluster.has("/e")
    cluster.ensemble.restore("one")
    two.create("/p")
    cluster.settle()
    assert one.states == [CONNECTED, SUSPENDED, EXPIRED, CONNECTED]
    assert one.store.session_id != old_session_id
    assert one.events == []


def test_watches_live_through_a_cut_and_hear_what_changed_meanwhile(
    cluster: Cluster, one: Process, two: Process
) -> None:
    for path in ("/changed", "/gone", "/same", "/parent", "/barren"):
        two.create(path)
    cluster.settle()
    for path in ("/changed", "/gone", "/same", "/new", "/never"):
        one.watch(path)
    for path in ("/parent", "/barren", "/"):
        one.watch_children(path)
    cluster.settle()
    cluster.ensemble.cut("one")
    two.set("/changed", b"x")
    two.store.delete("/gone", two.results.append, version=ANY_VERSION)
    two.create("/new")
    two.create("/parent/child")
    cluster.settle()
    assert one.events == []
    cluster.ensemble.restore("one")
    cluster.settle()
    assert one.states[-1] == CONNECTED
    assert one.events == [
        WatchEvent(WatchKind.CHANGED, "/changed"),
        WatchEvent(WatchKind.DELETED, "/gone"),
        WatchEvent(WatchKind.CREATED, "/new"),
        WatchEvent(WatchKind.CHILDREN_CHANGED, "/parent"),
        WatchEvent(WatchKind.CHILDREN_CHANGED, "/"),
    ]
    one.events.clear()
    for path in ("/changed", "/new", "/parent", "/same", "/barren"):
        two.set(path, b"y")
    two.create("/barren/child")
    two.create("/never")
    cluster.settle()
    assert one.events == [
        WatchEvent(WatchKind.CHANGED, "/same"),
        WatchEvent(WatchKind.CHILDREN_CHANGED, "/barren"),
        WatchEvent(WatchKind.CREATED, "/never"),
    ]


def test_read_whose_answer_was_lost_has_set_no_watch(cluster: Cluster, one: Process, two: Process) -> None:
    one.watch("/a")
    cluster.ensemble.cut("one")
    cluster.ensemble.restore("one")
    cluster.settle()
    assert one.codes == [Code.CONNECTION_LOST]
    two.create("/a")
    cluster.settle()
    assert one.events == []


def test_short_stall_only_delays(cluster: Cluster, one: Process) -> None:
    cluster.ensemble.stall("one")
    one.create("/a")
    cluster.time.run_for(TIMEOUT_S / 4)
    assert one.codes == []
    cluster.ensemble.restore("one")
    cluster.settle()
    assert one.codes == [Code.OK]
    assert one.states == [CONNECTED]


def test_stall_is_noticed_after_two_thirds_of_the_session(cluster: Cluster, one: Process) -> None:
    cluster.time.run_for(10 * TIMEOUT_S)
    cluster.ensemble.stall("one")
    one.create("/a")
    # The last pong came at most a third of the timeout ago.
    cluster.time.run_for(TIMEOUT_S / 3 - 0.1)
    assert one.states == [CONNECTED]
    cluster.time.run_for(TIMEOUT_S / 3 + 0.2)
    assert one.states == [CONNECTED, SUSPENDED]
    assert one.codes == [Code.CONNECTION_LOST]
    cluster.ensemble.restore("one")
    cluster.time.run_for(TIMEOUT_S / 3 + 0.5)
    assert one.states == [CONNECTED, SUSPENDED, CONNECTED]
    assert not cluster.has("/a")  # its connection was given up before it arrived


def test_stalled_client_learns_of_its_expiry_only_afterwards(cluster: Cluster, one: Process) -> None:
    cluster.ensemble.stall("one")
    cluster.time.run_for(3 * TIMEOUT_S)
    assert cluster.ensemble.session_ids == ()
    assert one.states == [CONNECTED, SUSPENDED]
    cluster.ensemble.restore("one")
    cluster.time.run_for(TIMEOUT_S)
    assert one.states == [CONNECTED, SUSPENDED, EXPIRED, CONNECTED]


def test_start_without_a_connection_suspends_and_then_connects(cluster: Cluster) -> None:
    cluster.ensemble.cut("one")
    process = Process(cluster, "one")
    process.create("/a")
    cluster.settle()
    assert process.codes == [Code.CONNECTION_LOST]
    assert process.states == [SUSPENDED]
    cluster.ensemble.restore("one")
    cluster.settle()
    assert process.states == [SUSPENDED, CONNECTED]


def test_ensemble_that_was_away_keeps_all_sessions(cluster: Cluster, one: Process, two: Process) -> None:
    one.create("/e", ephemeral=True)
    cluster.settle()
    cluster.ensemble.stop()
    cluster.time.run_for(10 * TIMEOUT_S)
    assert one.states == two.states == [CONNECTED, SUSPENDED]
    cluster.ensemble.start()
    cluster.time.run_for(2 * TIMEOUT_S)
    assert one.states == two.states == [CONNECTED, SUSPENDED, CONNECTED]
    assert cluster.has("/e")


def test_close_without_a_connection_leaves_the_session_to_its_timeout(cluster: Cluster, one: Process) -> None:
    one.create("/e", ephemeral=True)
    cluster.settle()
    cluster.ensemble.cut("one")
    cluster.settle()
    one.store.close()
    cluster.settle()
    assert cluster.has("/e")
    cluster.time.run_for(2 * TIMEOUT_S)
    assert not cluster.has("/e")
    assert one.states == [CONNECTED, SUSPENDED]


def test_what_was_called_before_close_is_answered(cluster: Cluster, one: Process) -> None:
    one.create("/a")
    one.store.close()
    one.create("/b")
    cluster.settle()
    assert sorted(one.codes) == [Code.OK, Code.SESSION_EXPIRED]
    assert (cluster.has("/a"), cluster.has("/b")) == (True, False)


# Answers


def test_lost_answer_means_applied_but_unknown(cluster: Cluster, one: Process, two: Process) -> None:
    session_id = one.store.session_id
    cluster.ensemble.lose_answers(1, client="one")
    two.create("/b")
    one.store.get("/", one.results.append)  # only answers of writes are lost
    cluster.settle()
    one.create("/a", ephemeral=True)
    cluster.settle()
    assert two.codes == [Code.OK]
    assert one.codes == [Code.OK, Code.CONNECTION_LOST]
    assert cluster.has("/a")
    assert one.states == [CONNECTED, SUSPENDED, CONNECTED]
    assert one.store.session_id == session_id
    one.create("/a")
    cluster.settle()
    assert one.codes == [Code.NODE_EXISTS]


def test_writes_behind_a_lost_answer_are_perhaps_applied(cluster: Cluster, one: Process) -> None:
    cluster.ensemble.lose_answers(1)
    for path in ("/a", "/b", "/c"):
        one.create(path)
    cluster.settle()
    assert one.codes == [Code.CONNECTION_LOST] * 3
    assert cluster.has("/c")  # it was under way already


def test_expired_session_is_replaced(cluster: Cluster, one: Process, two: Process) -> None:
    one.create("/e", ephemeral=True)
    cluster.settle()
    two.watch("/e")
    cluster.settle()
    cluster.ensemble.expire(one.store.session_id)
    cluster.ensemble.expire(12345)  # of nobody
    cluster.settle()
    assert one.states == [CONNECTED, SUSPENDED, EXPIRED, CONNECTED]
    assert two.states == [CONNECTED]
    assert two.events == [WatchEvent(WatchKind.DELETED, "/e")]


# Couriers


def test_message_that_its_courier_dropped_ends_the_connection_in_time(cluster: Cluster) -> None:
    one = cluster.process("one", delays=Random(1))
    cluster.settle()
    assert one.to_ensemble is not None
    one.to_ensemble.drops = 1
    one.create("/a")
    one.create("/b")
    cluster.time.run_for(TIMEOUT_S)
    assert one.states == [CONNECTED, SUSPENDED, CONNECTED]
    assert one.codes == [Code.CONNECTION_LOST] * 2
    assert not cluster.has("/b")  # nothing arrives behind what was lost


@pytest.mark.parametrize("seed", range(20))
def test_what_is_known_of_writes_holds_under_any_faults(cluster: Cluster, seed: int) -> None:
    random = Random(seed)
    ensemble = cluster.ensemble
    written: list[bytes] = []
    ensemble.on_change = lambda event, value: written.append(value)
    cluster.process("maker").create("/n")
    names = ("one", "two", "three")
    results: dict[str, dict[bytes, Code]] = {name: {} for name in names}
    processes = {name: cluster.process(name, delays=random) for name in names}
    called: dict[str, list[bytes]] = {name: [] for name in names}

    def write(name: str) -> None:
        value = f"{name} {len(called[name])}".encode()
        called[name].append(value)

        def note(result: Result) -> None:
            assert list(results[name]) == called[name][: len(results[name])], "callbacks out of order"
            results[name][value] = result.code

        processes[name].store.set("/n", value, note, version=ANY_VERSION)

    for _ in range(600):
        name = random.choice(names)
        fault = random.random()
        if fault < 0.02:
            ensemble.cut(name)
        elif fault < 0.04:
            ensemble.stall(name)
        elif fault < 0.10:
            ensemble.restore(name)
        elif fault < 0.13:
            ensemble.lose_answers(1, client=name)
        elif fault < 0.14:
            ensemble.expire(processes[name].store.session_id)
        else:
            write(name)
        if random.random() < 0.5:
            cluster.time.run_for(random.uniform(0, 0.5))
    for name in names:
        ensemble.restore(name)
    cluster.time.run_for(3 * TIMEOUT_S)
    for name in names:
        assert list(results[name]) == called[name], "every call ends, in order"
        mine = [value for value in written if value in results[name]]
        assert mine == [value for value in called[name] if value in mine], "applied in order, once"
        for value, code in results[name].items():
            assert value in mine or code != Code.OK
            assert value not in mine or code in (Code.OK, Code.CONNECTION_LOST)
        assert processes[name].states[-1] == CONNECTED
    codes = [code for of_name in results.values() for code in of_name.values()]
    assert codes.count(Code.OK) > 50
    assert codes.count(Code.CONNECTION_LOST) > 5
