"""Rings of invitations: accounts of one device that invited each other, and invitations that lead back to their start.

Pure walks over who invited whom; the caller passes the graph, or a function that loads it level by level.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

ACCOUNTS_WALKED_MAX: Final = 4_096

# Loads who invited these accounts: account -> inviters.
Inviters = Callable[[Collection[str]], Mapping[str, Collection[str]]]


def ancestors_of(account_ids: Iterable[str], inviters_of: Inviters, *, steps_max: int) -> dict[str, set[str]]:
    """For each account those from which at most `steps_max` invitations lead to it.

    Walks against the invitations: an account has few inviters but may have any number of invitees. All accounts walk
    together, a level at a time, so that a level is one lookup in the store. A walk that has met too many stops at the
    end of its level, so that its end does not depend on any order.
    """
    found: dict[str, set[str]] = {account_id: set() for account_id in account_ids}
    frontiers: dict[str, set[str]] = {account_id: {account_id} for account_id in found}
    for _ in range(steps_max):
        asked = set().union(*frontiers.values()) if frontiers else set()
        if not asked:
            break
        inviters = inviters_of(asked)
        following: dict[str, set[str]] = {}
        for account_id, frontier in frontiers.items():
            reached = {inviter for member in frontier for inviter in inviters.get(member, ())}
            fresh = reached - found[account_id]
            found[account_id] |= fresh
            if fresh and len(found[account_id]) <= ACCOUNTS_WALKED_MAX:
                following[account_id] = fresh
        frontiers = following
    return found


def rings_of_device(accounts: Collection[str], inviters: Mapping[str, Collection[str]]) -> list[frozenset[str]]:
    """The groups, of two and more, that invitations among the accounts of one device connect."""
    parent = {account_id: account_id for account_id in accounts}

    def root(account_id: str) -> str:
        while parent[account_id] != account_id:
            parent[account_id] = parent[parent[account_id]]
            account_id = parent[account_id]
        return account_id

    for invitee_id in parent:
        for inviter_id in inviters.get(invitee_id, ()):
            if inviter_id in parent:
                parent[root(inviter_id)] = root(invitee_id)
    groups: dict[str, set[str]] = {}
    for account_id in parent:
        groups.setdefault(root(account_id), set()).add(account_id)
    return sorted((frozenset(group) for group in groups.values() if len(group) >= 2), key=sorted)
