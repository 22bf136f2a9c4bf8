"""What edits make of the entries that are there."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.controller.config_edits import ConfigChange, ConfigEdit, ConfigFault, ConfigOperation, changed_entries
from ottla.core.config.config import BrokerConfig, TopicConfig
from ottla.core.errors import ErrorCode

BROKER = BrokerConfig.parse({})
SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def after(entries: dict[str, str], *edits: ConfigEdit, is_replacement: bool = False) -> dict[str, str] | ConfigFault:
    in_force, _ = TopicConfig.of_stored(entries, BROKER)
    return changed_entries(entries, ConfigChange(edits, is_replacement), in_force)


def code_of(outcome: dict[str, str] | ConfigFault) -> ErrorCode:
    assert isinstance(outcome, ConfigFault), outcome
    return outcome.error_code


def test_set_and_delete_leave_the_other_entries() -> None:
    entries = {"segment.ms": "5", "retention.ms": "6"}
    assert after(entries, ConfigEdit("retention.ms", "7")) == {"segment.ms": "5", "retention.ms": "7"}
    assert after(entries, ConfigEdit("segment.ms", None, DELETE)) == {"retention.ms": "6"}
    assert after(entries, ConfigEdit("never.heard.of", None, DELETE)) == entries


def test_a_replacement_drops_what_it_does_not_name() -> None:
    assert after({"segment.ms": "5"}, ConfigEdit("retention.ms", "7"), is_replacement=True) == {"retention.ms": "7"}
    assert after({"segment.ms": "5"}, is_replacement=True) == {}


def test_append_begins_with_the_list_in_force() -> None:
    assert after({}, ConfigEdit("cleanup.policy", "compact", APPEND)) == {"cleanup.policy": "delete,compact"}
    entries = {"cleanup.policy": "compact"}
    assert after(entries, ConfigEdit("cleanup.policy", " delete , compact", APPEND)) == {
        "cleanup.policy": "compact,delete"
    }
    assert after(entries, ConfigEdit("cleanup.policy", "", APPEND)) == entries


def test_subtract_takes_items_out_and_may_leave_none() -> None:
    both = {"cleanup.policy": "delete,compact"}
    assert after(both, ConfigEdit("cleanup.policy", "delete", SUBTRACT)) == {"cleanup.policy": "compact"}
    assert after(both, ConfigEdit("cleanup.policy", "compact,delete", SUBTRACT)) == {"cleanup.policy": ""}
    assert after(both, ConfigEdit("cleanup.policy", "other", SUBTRACT)) == both


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
@pytest.mark.parametrize("name", ["retention.ms", "nonsense"])
def test_only_lists_can_be_appended_to(name: str, operation: ConfigOperation) -> None:
    assert code_of(after({}, ConfigEdit(name, "5", operation))) == ErrorCode.INVALID_CONFIG


def test_a_value_is_needed_but_for_a_deletion() -> None:
    for operation in (SET, APPEND, SUBTRACT):
        assert code_of(after({}, ConfigEdit("cleanup.policy", None, operation))) == ErrorCode.INVALID_REQUEST


def test_unknown_operations_and_keys_named_twice_are_refused() -> None:
    assert code_of(after({}, ConfigEdit("cleanup.policy", "compact", 7))) == ErrorCode.INVALID_REQUEST
    twice = (ConfigEdit("segment.ms", "1"), ConfigEdit("segment.ms", None, DELETE))
    assert code_of(after({}, *twice)) == ErrorCode.INVALID_REQUEST
    assert code_of(after({}, *twice, is_replacement=True)) == ErrorCode.INVALID_REQUEST


ITEMS = st.lists(st.sampled_from(["delete", "compact"]), max_size=4)


@settings(deadline=None, max_examples=100)
@given(ITEMS, ITEMS)
def test_what_is_appended_can_be_subtracted_again(start: list[str], added: list[str]) -> None:
    entries = {"cleanup.policy": ",".join(dict.fromkeys(start))}
    text = ",".join(added)
    appended = after(entries, ConfigEdit("cleanup.policy", text, APPEND))
    assert isinstance(appended, dict)
    assert set(appended["cleanup.policy"].split(",")) - {""} == set(start) | set(added)
    cut = after(appended, ConfigEdit("cleanup.policy", text, SUBTRACT))
    assert isinstance(cut, dict)
    assert set(cut["cleanup.policy"].split(",")) - {""} == set(start) - set(added)
