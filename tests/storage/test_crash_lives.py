"""Any life of a broker, ended by a crash at any operation on its disk: what was flushed is there, in order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.testing.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.log_making import NOW_MS, batch, flush
from tests.storage.managed_logs import ORDERS, SMALL, ManagedLogs, produce


class _Life:
    """One partition over several lives of its broker: what was written, and what must still be there."""

    def __init__(self, seed: int) -> None:
        self.config = SMALL._replace(retention_bytes=600)
        self.disk = SimulatedDisk(seed)
        self.written: list[bytes] = []
        self.durable_end = 0
        self.start_offset_max = 0
        self.is_created = False

    def live(self, crash_after: int, steps: list[str]) -> None:
        """Start and take the steps until the power goes."""
        self.disk.crash_after(crash_after)
        try:
            broker = ManagedLogs(self.disk, config=self.config)
            if broker.manager.get(ORDERS) is None:
                broker.create()
            self.is_created = True
            for step in steps:
                broker = self._take(step, broker)
        except SimulatedCrash:
            pass
        self.disk = self.disk.crash()

    def _take(self, step: str, broker: ManagedLogs) -> ManagedLogs:
        log = broker.log()
        if step == "append":
            self.written.append(b"value-%d" % len(self.written))
            sequence = len(self.written) - 1
            info = log.append_as_leader(
                batch(self.written[-1], producer_id=9, producer_epoch=0, base_sequence=sequence),
                leader_epoch=0,
                now_ms=NOW_MS,
            )
            assert (info.error_code, info.first_offset, info.is_duplicate) == (0, sequence, False)
        elif step == "flush":
            flush(log)
            self.durable_end = log.log_end_offset
        elif step == "checkpoint":
            broker.manager.checkpoint_recovery_points()
            broker.manager.checkpoint_log_start_offsets()
        elif step == "sweep":
            self.start_offset_max = log.log_end_offset  # a crash on the way may leave any of them deleted
            broker.manager.delete_expired(NOW_MS)
            broker.manager.remove_due(NOW_MS + 2000)
        elif step == "delete records":
            self.start_offset_max = log.log_end_offset
            log.advance_log_start_offset(log.log_end_offset)
        else:
            broker.manager.shutdown(NOW_MS)
            self.durable_end = log.log_end_offset
            broker = ManagedLogs(self.disk, config=self.config)
            assert broker.log().recovery.segments_checked == 0
        return broker

    def check(self) -> None:
        """Start once more, look, and leave it to the next life, which may find the disk as this start left it."""
        broker = ManagedLogs(self.disk, config=self.config)
        assert not broker.failed
        if broker.manager.get(ORDERS) is None:
            # Only the folder's name was durable: a start with a store makes the log anew, as the next life does.
            assert self.disk.exists("/a/orders-0") or not self.is_created
            assert self.durable_end == 0
            self.written.clear()
            return
        log = broker.log()
        assert log.log_end_offset >= self.durable_end
        assert log.log_start_offset <= max(self.start_offset_max, self.durable_end)
        assert broker.values() == self.written[log.log_start_offset : log.log_end_offset]
        del self.written[log.log_end_offset :]
        if self.written and len(log.producer_state):
            last = len(self.written) - 1
            assert produce(log, last) == (last, True)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    lives=st.lists(
        st.tuples(
            st.integers(5, 500),
            st.lists(
                st.sampled_from(["append"] * 4 + ["flush", "checkpoint", "sweep", "restart", "delete records"]),
                min_size=1,
                max_size=40,
            ),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_what_was_flushed_survives_any_crash_at_any_operation(seed: int, lives: list[tuple[int, list[str]]]) -> None:
    life = _Life(seed)
    for crash_after, steps in lives:
        life.live(crash_after, steps)
        life.check()
