"""Phone numbers as facts may hold them: rules can see which are near each other, nobody can read them.

A number is split into a block of 32 neighbours and its place in the block. A fact holds keyed hashes of the block and
of the next block, and the place: two numbers of one block differ by their places, two of adjoining blocks by 32 more.
Without the key nobody can try all blocks; a reader sees the last five bits of a number, and that two numbers of one
inviter are near.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from hmac import digest
from typing import Final, NamedTuple

BLOCK: Final = 32
_PURPOSE: Final = b"number-block:"  # the same key hashes whole numbers elsewhere: the texts must differ
_HASH_BYTES: Final = 12
_REMEMBERED: Final = 1 << 14


class PrivateNumber(NamedTuple):
    """Empty hashes stand for an unknown number."""

    block: str
    next_block: str
    place: int


UNKNOWN_NUMBER: Final = PrivateNumber("", "", 0)


def number_hider(key: str, *, plain: Callable[[str], str]) -> Callable[[str | None], PrivateNumber]:
    """A function from a number as written to its private form; `plain` brings it to one form first."""
    secret = key.encode()

    @lru_cache(maxsize=_REMEMBERED)
    def hash_block(block: int) -> str:
        return digest(secret, _PURPOSE + str(block).encode(), "sha256")[:_HASH_BYTES].hex()

    def hide(phone: str | None) -> PrivateNumber:
        digits = plain(phone).removeprefix("+") if phone else ""
        if not (digits.isascii() and digits.isdecimal()):
            return UNKNOWN_NUMBER
        block, place = divmod(int(digits), BLOCK)
        return PrivateNumber(hash_block(block), hash_block(block + 1), place)

    return hide


def largest_neighbourhood(numbers: Iterable[PrivateNumber], *, distance: int) -> list[int]:
    """The largest set of these numbers (by index) that lie within `distance` of one of them, that one included.

    Needs `distance` < BLOCK: numbers two blocks apart are never compared.
    """
    assert distance < BLOCK, f"distance {distance} does not fit blocks of {BLOCK}"
    numbers = list(numbers)
    by_block: dict[str, list[int]] = {}
    for index, number in enumerate(numbers):
        if number.block:
            by_block.setdefault(number.block, []).append(index)
    previous = {numbers[indexes[0]].next_block: block for block, indexes in by_block.items()}
    best: list[int] = []
    for block, indexes in by_block.items():
        before = by_block.get(previous.get(block, ""), ())
        after = by_block.get(numbers[indexes[0]].next_block, ())
        around = [(numbers[i].place, i) for i in indexes]
        around += [(numbers[i].place - BLOCK, i) for i in before]
        around += [(numbers[i].place + BLOCK, i) for i in after]
        for centre in indexes:
            place = numbers[centre].place
            near = sorted(i for other, i in around if abs(other - place) <= distance)
            if (-len(near), near) < (-len(best), best):
                best = near
    return best
