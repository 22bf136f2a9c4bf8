"""APIs and error codes as tests write them: `"produce"`, `"ListOffsets"`, `"NOT_LEADER_OR_FOLLOWER"`, or the number."""

from difflib import get_close_matches
from enum import IntEnum
from typing import TypeVar

from ottla.core.errors import ErrorCode
from ottla.protocol.apis import ApiKey

NumberT = TypeVar("NumberT", bound=IntEnum)


def parse_api(api: str | int) -> ApiKey:
    """In any spelling: case, `_`, `-` and blanks don't matter."""
    return _parse(api, ApiKey, "API")


def parse_error(error: str | int) -> ErrorCode:
    code = _parse(error, ErrorCode, "error code")
    if code == ErrorCode.NONE:
        raise ValueError("NONE means success; to fail a request, name an error")
    return code


def _parse(given: str | int, numbers: type[NumberT], what: str) -> NumberT:
    if isinstance(given, int):
        try:
            return numbers(given)
        except ValueError:
            raise ValueError(f"the Kafka protocol has no {what} {given}") from None
    known = {_plain(number.name): number for number in numbers}
    found = known.get(_plain(given))
    if found is None:
        nearest = get_close_matches(_plain(given), known, n=1)
        hint = f"; the nearest is {known[nearest[0]].name}" if nearest else ""
        raise ValueError(f"the Kafka protocol has no {what} {given!r}{hint}")
    return found


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
