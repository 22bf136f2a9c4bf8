"""Short runs of a cluster of three, each with an emphasis of its own; the seed chooses which.

Together they show all that `Sightings` counts. `make test` runs some hundred of them.
"""

from collections.abc import Mapping
from typing import Final

from ottla.testing.simulation.fault_plan import FaultSettings
from ottla.testing.simulation.run import RunSettings

_SHORT: Final = RunSettings(
    duration_s=12.0,
    partitions=2,
    producers=1,
    client_producers=1,
    members=0,
    faults=FaultSettings(interval_s=1.5, lasts_max_s=8.0),
)
_ENDS_BROKERS: Final = ("kill", "stop", "pause", "isolate", "power-off", "session-expired")

PROFILES: Final[Mapping[str, RunSettings]] = {
    # Whatever may happen to a cluster.
    "faults": _SHORT,
    "crashes": _SHORT._replace(
        pause_s=0.05,
        faults=FaultSettings(interval_s=1.5, lasts_max_s=4.0, kinds=("power-off", "power-off-in-write", "delay")),
    ),
    "log-starts": _SHORT._replace(
        deletes_records=True, members=1, faults=FaultSettings(interval_s=1.5, lasts_max_s=6.0, kinds=_ENDS_BROKERS)
    ),
    "remade-topic": _SHORT._replace(
        remakes_topic=True,
        partitions=1,
        faults=FaultSettings(interval_s=1.5, lasts_max_s=6.0, kinds=(*_ENDS_BROKERS, "cut", "store-answers-lost")),
    ),
    "unclean": _SHORT._replace(
        takes_isr_down=True,
        partitions=1,
        faults=FaultSettings(interval_s=2.0, lasts_max_s=4.0, kinds=("cut", "stall", "delay", "store-answers-lost")),
    ),
    "group": _SHORT._replace(
        members=3,
        member_lives_s=4.0,
        faults=FaultSettings(interval_s=1.5, lasts_max_s=6.0, kinds=(*_ENDS_BROKERS, "cut", "store-cut")),
    ),
}


def profile_of(seed: int) -> str:
    return list(PROFILES)[seed % len(PROFILES)]


def short_run(seed: int) -> RunSettings:
    """The settings of a seed's run."""
    return PROFILES[profile_of(seed)]
