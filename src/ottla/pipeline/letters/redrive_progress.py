"""Which letters of a partition were sent back: all before an offset, and some ranges after it. Pure.

It is kept as a committed offset of a group, with the ranges in its metadata, so that any lag tool shows what is left.
There is one group for each class of errors: a choice by time takes letters that lie next to each other, as letters lie
in the order of their death, and leaves few ranges.
"""

from typing import Final

GROUP_PREFIX: Final = "ottla-redrive-"
METADATA_BYTES_MAX: Final = 4_096  # a broker's `offset.metadata.max.bytes`


class TooManyRanges(ValueError):
    """What was chosen lies too scattered to be remembered."""


def group_of(error_class: str) -> str:
    return GROUP_PREFIX + error_class


class Progress:
    """Of one class in one partition. `next_offset` is the first that was not sent; `ranges` lie behind it, in order,
    each from its first to before its last, with a letter that was not sent before each of them.
    """

    def __init__(self, next_offset: int = 0, ranges: tuple[tuple[int, int], ...] = ()) -> None:
        self.next_offset = next_offset
        self.ranges = list(ranges)

    @classmethod
    def parse(cls, offset: int, metadata: str) -> "Progress":
        """As it was committed; metadata that is not ours is taken for none."""
        ranges = []
        try:
            for text in metadata.split(",") if metadata else ():
                first, _, last = text.partition("-")
                ranges.append((int(first), int(last)))
        except ValueError:
            ranges = []
        return cls(max(offset, 0), tuple(ranges))

    @property
    def metadata(self) -> str:
        text = ",".join(f"{first}-{last}" for first, last in self.ranges)
        if len(text) > METADATA_BYTES_MAX:
            raise TooManyRanges(
                f"{len(self.ranges)} stretches of letters that were sent back are between others that were not, more "
                "than can be remembered; redrive the older letters of this class first"
            )
        return text

    def is_done(self, offset: int) -> bool:
        return offset < self.next_offset or any(first <= offset < last for first, last in self.ranges)

    def add(self, first: int, last: int) -> None:
        """Letters from `first` to before `last` are sent, or are no letters of this class."""
        joined = []
        for start, end in self.ranges:
            if end < first or start > last:
                joined.append((start, end))
            else:
                first, last = min(first, start), max(last, end)
        self.ranges = sorted([*joined, (first, last)])
        while self.ranges and self.ranges[0][0] <= self.next_offset:
            self.next_offset = max(self.next_offset, self.ranges.pop(0)[1])
