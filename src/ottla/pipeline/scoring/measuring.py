"""Quality over many seeds: generated traffic, the detectors on it in memory, and their scores added up."""

from collections.abc import Callable, Iterable

from ottla.pipeline.detection.address_table import address_table
from ottla.pipeline.scoring.offline import BATCH_MS, detect
from ottla.pipeline.scoring.score import Score, pooled, score_alerts
from ottla.pipeline.traffic.generator import Settings, Traffic
from ottla.pipeline.traffic.regions import address_table as generated_addresses
from ottla.pipeline.traffic.scenarios import Hardness


def measure(
    seeds: Iterable[int],
    hardness: Hardness,
    *,
    accounts: int,
    days: int,
    has_address_table: bool = False,
    batch_ms: int = BATCH_MS,
    tell: Callable[[int, Score], None] = lambda seed, score: None,
) -> Score:
    """One score over all seeds; `tell` hears of each run as it ends."""
    region_of_network = address_table(generated_addresses()) if has_address_table else None
    scores = []
    for seed in seeds:
        traffic = Traffic(Settings(seed, accounts, days, hardness))
        events = ((event.topic, event.value) for event in traffic.events() if isinstance(event.value, dict))
        alerts = detect(events, batch_ms=batch_ms, region_of_network=region_of_network)
        score = score_alerts(traffic.truth(), alerts.device_alerts, alerts.invite_alerts)
        tell(seed, score)
        scores.append(score)
    return pooled(scores)
