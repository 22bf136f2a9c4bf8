"""Runs cases: peers take turns within each round, so that whatever else the machine does hits all of them alike."""

from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import KafkaException

from bench.model import OURS, THEIRS, Case, Metric, Row
from bench.peers import Peer

Say = Callable[[str], None]


def run_case(case: Case, peers: Sequence[Peer], *, rounds: int, say: Say) -> list[Row]:
    """One row for each metric; a peer that fails is left out of the row, and the row says why."""
    figures: dict[str, list[Mapping[str, float]]] = {peer.name: [] for peer in peers}
    cpu_cores: dict[str, list[float]] = {peer.name: [] for peer in peers}
    rival = rival_among(peers)
    failures: dict[str, str] = {}
    for round_number in range(rounds):
        turn = round_number % len(peers)
        for peer in [*peers[turn:], *peers[:turn]]:
            if peer.name in failures:
                continue
            peer.cpu_cores_used = None
            try:
                result = case.run_round(peer, round_number)
            except (RuntimeError, KafkaException, TimeoutError) as failure:
                failures[peer.name] = f"{peer.name} failed: {failure}"
                say(f"  {failures[peer.name]}")
                continue
            if peer.cpu_cores_used is not None:
                cpu_cores[peer.name].append(peer.cpu_cores_used)
            figures[peer.name].append(result)
            say(f"  round {round_number + 1} {peer.name:<6} {_shown(result, case.metrics)}")
    note = "; ".join(failures.values())
    return [_row(case, metric.held_against(rival), figures, cpu_cores, note, rival) for metric in case.metrics]


def rival_among(peers: Sequence[Peer]) -> str:
    """Whom ours is held against."""
    return next((peer.name for peer in peers if peer.name != OURS), THEIRS)


def _shown(result: Mapping[str, float], metrics: Sequence[Metric]) -> str:
    return ", ".join(f"{metric.name} {result[metric.name]:.4g} {metric.unit}" for metric in metrics)


def _row(
    case: Case,
    metric: Metric,
    figures: Mapping[str, Sequence[Mapping[str, float]]],
    cpu_cores: Mapping[str, Sequence[float]],
    note: str,
    rival: str,
) -> Row:
    rounds = {name: [result[metric.name] for result in results] for name, results in figures.items() if results}
    cores = {name: sum(used) / len(used) for name, used in cpu_cores.items() if used}
    return Row(case.name, case.title, metric, rounds, cores, note, rival)
