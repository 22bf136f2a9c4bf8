"""A task's steps to its progress and its reward: a pure function of the set of steps, the same for every store."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.pipeline.ledger.ledger_rules import reward_entry_id


class Step(NamedTuple):
    """One event of a task. The fields are in the order of the columns of TASK_STEP after the task."""

    step: int
    steps_total: int
    reward: int
    event_id: str
    event_time_ms: int


class Reward(NamedTuple):
    """What a finished task pays: the entry of the ledger, without its rule."""

    entry_id: str
    event_id: str
    amount: int
    event_time_ms: int


class Progress(NamedTuple):
    """`reward` is None until every step is done."""

    steps_done: int
    steps_total: int
    reward: Reward | None


def paid_columns(reward: Reward | None) -> tuple[int, int]:
    """`done` and `reward_paid` of task_progress."""
    return (0, 0) if reward is None else (1, reward.amount)


def fold_steps(account_id: str, task_id: str, steps: Iterable[Step]) -> Progress:
    """A step counts once, however many events report it; the greatest steps_total and reward count.

    The task is done at the event time at which the last of its steps was first done.
    """
    steps_total = reward = 0
    first_done: dict[int, tuple[int, str]] = {}
    for step in steps:
        steps_total = max(steps_total, step.steps_total)
        reward = max(reward, step.reward)
        moment = (step.event_time_ms, step.event_id)
        first_done[step.step] = min(first_done.get(step.step, moment), moment)
    moments = [moment for number, moment in first_done.items() if 1 <= number <= steps_total]
    if not moments or len(moments) < steps_total:
        return Progress(len(moments), steps_total, None)
    event_time_ms, event_id = max(moments)
    entry = Reward(reward_entry_id(account_id, task_id), event_id, reward, event_time_ms)
    return Progress(len(moments), steps_total, entry)
