"""What follows from the error code of a batch: a table, and the few cases that need more."""

from enum import Enum
from typing import Final

from ottla.clients.error_rules import RETRIABLE
from ottla.core.errors import ErrorCode


class Verdict(Enum):
    """What the sender does with a batch."""

    STORED = "stored"
    RETRY = "sent again after a while"
    SPLIT = "sent again in smaller parts"
    OUT_OF_SEQUENCE = "sent again with its sequence, or in a new epoch"
    FAIL = "given up"


_STORED: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_OUT_OF_SEQUENCE: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})

# Only a newer producer can use this transactional id now.
FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})


def judge(error_code: int, *, record_count: int, has_sequence: bool) -> Verdict:
    """By the code alone; the sender also considers the number of attempts and the state."""
    if error_code in _STORED:
        return Verdict.STORED
    if error_code in _TOO_LARGE and record_count > 1:
        return Verdict.SPLIT
    if error_code in _OUT_OF_SEQUENCE and has_sequence:
        return Verdict.OUT_OF_SEQUENCE
    return Verdict.RETRY if error_code in RETRIABLE else Verdict.FAIL
