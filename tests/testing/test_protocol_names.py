"""What a test may call an API or an error."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.testing.protocol_names import parse_api, parse_error


@pytest.mark.parametrize(
    "name", ["list_offsets", "ListOffsets", "LIST_OFFSETS", "list-offsets", ApiKey.LIST_OFFSETS, 2]
)
def test_an_api_may_be_spelled_in_any_way(name: str | int) -> None:
    assert parse_api(name) is ApiKey.LIST_OFFSETS


def test_an_unknown_api_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"has no API 'produces'; the nearest is PRODUCE"):
        parse_api("produces")


@pytest.mark.parametrize("name", ["NOT_LEADER_OR_FOLLOWER", "not leader or follower", 6, ErrorCode(6)])
def test_an_error_may_be_spelled_in_any_way(name: str | int) -> None:
    assert parse_error(name) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("name", [0, "NONE", 4711, "NOT_A_LEADER_AT_ALL"])
def test_what_is_no_error_is_refused(name: str | int) -> None:
    with pytest.raises(ValueError, match=r"no error code|NONE means success"):
        parse_error(name)
