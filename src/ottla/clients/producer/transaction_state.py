"""The states of a transactional producer and the legal transitions; nothing else may change the state."""

from enum import Enum
from typing import Final

from ottla.clients.producer.errors import InvalidTransactionState


class TransactionState(Enum):
    UNINITIALIZED = "not initialized: call init_transactions first"
    INITIALIZING = "being initialized"
    READY = "without a transaction: call begin_transaction first"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    MUST_ABORT = "failed: call abort_transaction"
    FATAL = "failed for good: close the producer"


_S = TransactionState

_NEXT: Final = {
    _S.UNINITIALIZED: {_S.INITIALIZING},
    _S.INITIALIZING: {_S.READY, _S.FATAL},
    _S.READY: {_S.IN_TRANSACTION, _S.FATAL},
    _S.IN_TRANSACTION: {_S.COMMITTING, _S.ABORTING, _S.MUST_ABORT, _S.FATAL},
    _S.COMMITTING: {_S.READY, _S.MUST_ABORT, _S.FATAL},
    _S.MUST_ABORT: {_S.ABORTING, _S.FATAL},
    _S.ABORTING: {_S.READY, _S.FATAL},
    _S.FATAL: set(),
}


def check_step(state: TransactionState, following: TransactionState, what: str) -> None:
    """InvalidTransactionState if a user's call doesn't fit the state."""
    if following not in _NEXT[state]:
        raise InvalidTransactionState(f"{what}: the producer is {state.value}")


def is_step(state: TransactionState, following: TransactionState) -> bool:
    return following in _NEXT[state]
