"""Clients that do the same work on one broker by turns, each in a process of its own, and what that yields as rows."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from bench.clients.job import Job, Outcome
from bench.model import OURS, Metric, Row
from bench.peers import Peer

Say = Callable[[str], None]

_WORKER_SECONDS_MAX = 600.0


class Rival(NamedTuple):
    """Whom ours is held against in one race, and the ratio that is to be reached."""

    name: str
    goal: float | None = None


class Race(Protocol):
    """One piece of work for several entrants; `run` yields a figure for one of them."""

    name: str
    title: str
    unit: str
    higher_is_better: bool
    rivals: Sequence[Rival]
    absolute_goal: float | None  # for our own figure, whatever the others do

    def prepare(self, peer: Peer) -> None: ...

    def run(self, peer: Peer, entrant: str) -> float: ...

    def clean_up(self, peer: Peer) -> None: ...


def run_race(race: Race, peer: Peer, *, rounds: int, say: Say) -> list[Row]:
    """One row for each rival, and one for a goal of our own; who fails is left out, and its row says why."""
    entrants = [OURS, *(rival.name for rival in race.rivals)]
    figures: dict[str, list[float]] = {name: [] for name in entrants}
    failures: dict[str, str] = {}
    race.prepare(peer)
    try:
        for round_number in range(rounds):
            turn = round_number % len(entrants)
            for name in [*entrants[turn:], *entrants[:turn]]:
                if name in failures:
                    continue
                try:
                    figure = race.run(peer, name)
                except (RuntimeError, subprocess.SubprocessError) as failure:
                    failures[name] = f"{name} failed: {failure}"
                    say(f"  {failures[name]}")
                    continue
                figures[name].append(figure)
                say(f"  round {round_number + 1} {name:<16} {figure:.4g} {race.unit}")
    finally:
        race.clean_up(peer)
    rows = []
    for rival in race.rivals:
        metric = Metric(f"beside {rival.name}", race.unit, race.higher_is_better, rival.goal)
        rows.append(_row(race, metric, figures, failures, rival.name))
    if race.absolute_goal is not None:
        metric = Metric("alone", race.unit, race.higher_is_better, race.absolute_goal, absolute_goal=True)
        rows.append(_row(race, metric, figures, failures, "-"))
    return rows


def _row(
    race: Race, metric: Metric, figures: Mapping[str, Sequence[float]], failures: Mapping[str, str], rival: str
) -> Row:
    rounds = {name: figures[name] for name in (OURS, rival) if figures.get(name)}
    note = "; ".join(text for name, text in failures.items() if name in (OURS, rival))
    # The rival has a column of its own in the table, so its name is not repeated in the row's title.
    return Row(race.name, race.title, metric, rounds, {}, note, rival)


def run_worker(client: str, task: str, job: Job, *, environment: Mapping[str, str] | None = None) -> Outcome:
    """In a process of its own; RuntimeError has the end of what it said when it failed."""
    command = [sys.executable, "-m", "bench.clients.worker", client, task, job.to_text()]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_WORKER_SECONDS_MAX,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode != 0:
        raise RuntimeError(f"{client} {task}: {done.stderr[-800:]}")
    outcome = Outcome.from_text(done.stdout.splitlines()[-1])
    expected = job.record_count * job.value_bytes
    if outcome.value_bytes < expected:
        raise RuntimeError(f"{client} {task}: {outcome.value_bytes} bytes of values seen, {expected} expected")
    return outcome
