"""What the ledger's rules are called, and what tells its entries apart: one place for jobs, stores and reconciliation.

An entry's id depends on what is paid and on nothing else, so that however often, late or shuffled an event comes, it
is the same entry. Imports nothing.
"""

from hashlib import sha256
from typing import Final

CREDIT: Final = "credit"
TASK_REWARD: Final = "task_reward"

ENTRY_ID_DIGITS: Final = 32  # 128 bits of SHA-256, in hex
SEPARATOR: Final = "|"  # in no rule's name


def entry_id(event_id: str, rule: str) -> str:
    """Of the entry that a rule makes of an event."""
    return sha256(f"{rule}{SEPARATOR}{event_id}".encode()).hexdigest()[:ENTRY_ID_DIGITS]


def reward_entry_id(account_id: str, task_id: str) -> str:
    """Of a task's reward. It hangs on the task, not on the event that happened to finish it: that is paid once."""
    return entry_id(f"{account_id}{SEPARATOR}{task_id}", TASK_REWARD)
