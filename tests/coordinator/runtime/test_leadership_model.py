"""Leadership comes and goes in any order while requests, threads and commits go on; a model says what is served."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.errors import ErrorCode
from ottla.records.read import read_batch
from tests.coordinator.runtime.counters import Answer, CounterRig

# Of the leader epoch of a call: how much newer than the newest so far.
NEWER_BY = st.integers(-1, 2)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["load", "unload"]), NEWER_BY),
    st.tuples(st.sampled_from(["increment", "work", "report", "turn", "hold", "commit"]), st.just(0)),
)


class Model:
    """Which call was the last that counted; everything else is read from the log."""

    def __init__(self) -> None:
        self.rig = CounterRig(rewrite_above_bytes=500)
        self.leader_epoch = -1
        self.is_led = False
        self.requests: list[list[Answer]] = []
        self.take("load", 1)
        self.take("increment", 0)  # so that each load has something to read, and waits for a thread

    def take(self, step: str, newer_by: int) -> None:
        rig = self.rig
        leader_epoch = self.leader_epoch + newer_by
        if step == "load":
            rig.runtime.load(0, leader_epoch)
            if leader_epoch > self.leader_epoch:
                self.leader_epoch, self.is_led = leader_epoch, True
                assert all(self.requests)  # nobody waits for a shard that has ended
        elif step == "unload":
            rig.runtime.unload(0, leader_epoch, ErrorCode.NOT_COORDINATOR)
            if leader_epoch >= self.leader_epoch:
                self.leader_epoch, self.is_led = leader_epoch, False
                assert all(self.requests)
        elif step == "increment" and not isinstance(rig.counts(), ErrorCode):
            self.requests.append(rig.increment(f"name {len(self.requests) % 3}"))
        elif step == "work" and rig.background.waiting:
            rig.background.work_only()
        elif step == "report" and rig.background.started:
            rig.background.report()
        elif step == "turn":
            rig.loop.turn()
        elif step == "hold":
            rig.log().hold_commits()
        elif step == "commit":
            rig.log().commit()

    def finish(self) -> None:
        """All threads end, all commits come, and nothing is left to do."""
        rig = self.rig
        while rig.background.started:
            rig.background.report()
        rig.log().holds_commits = False
        while rig.loop.soon or rig.background.waiting or rig.log().has_waiting:
            rig.log().commit()
            rig.settle()

    def counts_in_log(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        log = self.rig.log()
        for _, batch in log.batches:
            for record in read_batch(batch, 0)[1]:
                if record.offset >= log.start_offset:
                    assert record.key is not None
                    assert record.value is not None
                    counts[record.key.decode()] = int(record.value)
        return counts


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_whatever_comes_in_between_the_newest_epoch_decides_and_the_log_is_served(steps: list[tuple[str, int]]) -> None:
    model = Model()
    for step, newer_by in steps:
        model.take(step, newer_by)
        assert isinstance(model.rig.counts(), dict) <= model.is_led
    model.finish()
    expected = model.counts_in_log() if model.is_led else ErrorCode.NOT_COORDINATOR
    assert model.rig.counts() == expected
    assert model.rig.runtime.loading_count == 0
    assert all(len(answers) == 1 for answers in model.requests)
    assert {answers[0].error_code for answers in model.requests} <= {ErrorCode.NONE, ErrorCode.NOT_COORDINATOR}

    model.take("load", 1)
    model.finish()
    served = model.rig.counts()
    assert isinstance(served, dict)
    for number, (answer,) in enumerate(model.requests):
        if answer.error_code == ErrorCode.NONE:
            assert served[f"name {number % 3}"] >= answer.count  # nothing that was acknowledged is lost
