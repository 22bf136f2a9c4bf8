"""Numbers to hashes: one for each number, however it is written."""

import hashlib
import hmac

import pytest

from ottla.pipeline.events.phone_hashing import phone_hasher, plain_number


@pytest.mark.parametrize(
    "written", ["+8613800000000", "+86 138 0000 0000", "0086-138-0000-0000", "13800000000", "(0)138.0000.0000"]
)
def test_all_ways_of_writing_a_number_are_one(written: str) -> None:
    assert plain_number(written, calling_code="86") == "+8613800000000"


def test_the_hash_is_keyed_and_that_of_the_plain_number() -> None:
    hash_phone = phone_hasher("a secret of mine", calling_code="86")
    expected = hmac.new(b"a secret of mine", b"+8613800000000", hashlib.sha256).hexdigest()
    assert hash_phone("+8613800000000") == hash_phone("138 0000 0000") == expected
    assert phone_hasher("another secret", calling_code="86")("+8613800000000") != expected


def test_other_numbers_and_what_is_no_number_have_hashes_of_their_own() -> None:
    hash_phone = phone_hasher("a secret of mine", calling_code="86")
    assert len({hash_phone(text) for text in ("", "+", "none", "+8613800000000", "+8613800000001", "号")}) == 6
