"""Numbers that can be compared and not read."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.detection.private_numbers import UNKNOWN_NUMBER, largest_neighbourhood, number_hider

KEY = "a key of some length"
hide = number_hider(KEY, plain=str)


@settings(deadline=None, max_examples=200)
@given(numbers=st.lists(st.integers(8_613_000_000_000, 8_613_000_000_400), max_size=15), distance=st.integers(1, 31))
def test_the_largest_neighbourhood_is_that_of_the_numbers_themselves(numbers: list[int], distance: int) -> None:
    private = [hide(f"+{number}") for number in numbers]
    most = max((sum(abs(other - number) <= distance for other in numbers) for number in numbers), default=0)
    near = largest_neighbourhood(private, distance=distance)
    assert len(near) == most
    spread = [numbers[index] for index in near]
    assert not spread or max(spread) - min(spread) <= 2 * distance


def test_no_digits_of_a_number_are_in_its_private_form() -> None:
    private = hide("+8613800138000")
    assert "13800138000" not in repr(private)
    assert private.place < 32


def test_another_key_gives_other_blocks() -> None:
    assert number_hider("another key altogether", plain=str)("+8613800138000").block != hide("+8613800138000").block


def test_what_is_no_number_is_unknown_and_near_to_nothing() -> None:
    for phone in (None, "", "abc", "+86x", "+８６１３"):
        assert hide(phone) == UNKNOWN_NUMBER
    assert largest_neighbourhood([UNKNOWN_NUMBER, UNKNOWN_NUMBER], distance=20) == []
