"""Which answers are worth another attempt, compared with what another client thinks of the same codes."""

import kafka.errors

from ottla.clients.error_rules import RETRIABLE, STALE_METADATA
from ottla.core.errors import ErrorCode

KNOWN = {int(code) for code in ErrorCode}
# Java's client retries it too: the records were damaged on their way, and the producer still has them.
RETRIED_BY_JAVA_ALONE = {ErrorCode.CORRUPT_MESSAGE}
# Share groups are not for this client.
SHARE_SESSIONS = {122, 123}


def codes_with(flag: str) -> set[int]:
    return {code for code, error in kafka.errors.kafka_errors.items() if getattr(error, flag, False)} & KNOWN


def test_retriable_are_the_codes_that_kafka_python_retries() -> None:
    assert codes_with("retriable") - SHARE_SESSIONS == RETRIABLE - RETRIED_BY_JAVA_ALONE


def test_metadata_is_stale_after_the_codes_after_which_kafka_python_asks_for_it() -> None:
    assert codes_with("invalid_metadata") == STALE_METADATA
