"""The names of the ledger's rules and the ids of its entries, for jobs, stores and reconciliation.

An entry's id depends only on what is paid, so that an event makes the same entry however often, late or shuffled it
comes. Imports nothing.
"""

from hashlib import sha256
from typing import Final

CREDIT: Final = "credit"
TASK_REWARD: Final = "task_reward"

ENTRY_ID_DIGITS: Final = 32  # 128 bits of SHA-256, in hex
SEPARATOR: Final = "|"  # in no rule's name


def entry_id(event_id: str, rule: str) -> str:
    """The id of the entry that a rule makes of an event."""
    return sha256(f"{rule}{SEPARATOR}{event_id}".encode()).hexdigest()[:ENTRY_ID_DIGITS]


def reward_entry_id(account_id: str, task_id: str) -> str:
    """The id of a task's reward. It depends on the task, not on the event that finished it: a task is paid once."""
    return entry_id(f"{account_id}{SEPARATOR}{task_id}", TASK_REWARD)
