"""Short runs of many seeds, in chunks, with what they have shown together."""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.testing.simulation import sightings
from ottla.testing.simulation.profiles import profile_of, short_run
from ottla.testing.simulation.run import SimulatedRun

CHUNK = 10
# What a cluster can do; runs that don't show all of it prove too little.
EVERYTHING = (
    sightings.TRUNCATION,
    sightings.ISR_SHRUNK,
    sightings.ISR_GROWN,
    sightings.CONTROLLER_CHANGED,
    sightings.REGISTRATION_LOST,
    sightings.LOSSY_CRASH,
    sightings.LOG_START_MOVED,
    sightings.UNCLEAN_ELECTION,
    sightings.COORDINATOR_MOVED_IN_REBALANCE,
    sightings.TOPIC_DELETED_WITH_DEAD_REPLICA,
)


class ShortSeeds:
    """Those of one test module. Modules run beside each other, so each one has to show everything."""

    def __init__(self, first: int, count: int) -> None:
        self.chunks = [range(start, min(start + CHUNK, first + count)) for start in range(first, first + count, CHUNK)]
        self.seen: Counter[str] = Counter()
        self._done: set[range] = set()

    @property
    def are_all_done(self) -> bool:
        return len(self._done) == len(self.chunks)

    @property
    def missing(self) -> list[str]:
        return [what for what in EVERYTHING if not self.seen[what]]

    def run(self, seeds: range) -> None:
        with _no_logs():
            for seed in seeds:
                try:
                    self.seen.update(SimulatedRun(seed, short_run(seed)).run().sightings)
                except Exception as error:
                    error.add_note(f"ottla-sim --short --seed {seed}  # profile {profile_of(seed)}")
                    raise
        self._done.add(seeds)


@contextmanager
def _no_logs() -> Iterator[None]:
    """The brokers of a run log a lot; a run that failed is repeated with `--log`."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)
