"""The fold of a task's steps does not hang on their order, nor on how often one comes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.ledger.ledger_rules import reward_entry_id
from ottla.pipeline.stores.folding import Progress, Reward, Step, fold_steps

some_steps = st.lists(
    st.builds(
        Step,
        step=st.integers(0, 4),
        steps_total=st.integers(1, 3),
        reward=st.integers(0, 9),
        event_id=st.sampled_from("abcdef"),
        event_time_ms=st.integers(1, 5),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=100)
@given(some_steps, st.randoms(use_true_random=False))
def test_order_and_repetition_change_nothing(steps: list[Step], shuffling: object) -> None:
    mixed = steps + steps[:3]
    shuffling.shuffle(mixed)  # type: ignore[attr-defined]
    assert fold_steps("account", "task", mixed) == fold_steps("account", "task", steps)


def test_a_task_is_done_when_the_last_of_its_steps_was_first_done() -> None:
    steps = [Step(1, 2, 5, "a", 100), Step(2, 2, 7, "b", 300), Step(2, 2, 5, "c", 200), Step(1, 2, 5, "d", 400)]
    assert fold_steps("account", "task", steps) == Progress(
        2, 2, Reward(reward_entry_id("account", "task"), "c", 7, 200)
    )


def test_without_steps_nothing_is_done() -> None:
    assert fold_steps("account", "task", []) == Progress(0, 0, None)
