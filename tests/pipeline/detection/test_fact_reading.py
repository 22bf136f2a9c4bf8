"""Facts as a step sees them: what the store has, the batch's own over it, and which of those are new."""

from typing import Any

from ottla.pipeline.detection.fact_reading import FactReading
from ottla.pipeline.detection.facts import Invite, InviteBatch, Region, Sighting
from ottla.pipeline.detection.in_memory import MemoryStore
from ottla.pipeline.detection.outcome import arrow_rows
from ottla.pipeline.detection.private_numbers import UNKNOWN_NUMBER
from ottla.pipeline.tables import INVITE_FACT, SIGHTING_FACT, Table

HOME = Sighting("a", "d", "f", "100.64.1")
AWAY = Sighting("a", "d", "f", "100.64.2")
# Joined with a NUL between its parts it reads the same as the next.
ODD = Sighting("b", "d\0f", "g", "n")
OTHER_ODD = Sighting("b", "d", "f\0g", "n")


def store_with(table: Table, *rows: tuple[Any, ...]) -> MemoryStore:
    store = MemoryStore()
    store.upsert(table.name, arrow_rows(table, rows))
    return store


def test_what_the_store_has_is_not_new_and_the_rest_of_a_key_is() -> None:
    store = store_with(SIGHTING_FACT, HOME, ("a", "d", "f", "100.64.9"))
    reading = FactReading(store, InviteBatch(sightings=[HOME, AWAY]))

    assert reading.sightings.new() == {"a": {AWAY}}
    assert reading.sightings(["a"])["a"] == {HOME, AWAY, Sighting("a", "d", "f", "100.64.9")}
    assert reading.sightings.new() == {"a": {AWAY}}


def test_rows_that_read_the_same_are_told_apart() -> None:
    reading = FactReading(store_with(SIGHTING_FACT, ODD), InviteBatch(sightings=[ODD, OTHER_ODD]))

    assert reading.sightings.new() == {"b": {OTHER_ODD}}


def test_an_invitation_with_another_content_is_new() -> None:
    first = Invite(1, "e", "a", "b", UNKNOWN_NUMBER, Region("CN", "Hunan"))
    other = first._replace(invitee_id="c")
    row = ("a", 1, "e", "b", *UNKNOWN_NUMBER, "CN", "Hunan")

    assert FactReading(store_with(INVITE_FACT, row), InviteBatch(invites=[first])).invites.new() == {}
    assert FactReading(store_with(INVITE_FACT, row), InviteBatch(invites=[other])).invites.new() == {"a": {other}}
