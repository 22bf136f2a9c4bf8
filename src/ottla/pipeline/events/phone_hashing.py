"""Phone numbers to keyed hashes, which replace them in every table, export, alert and log line.

HMAC-SHA256 over a normal form of the number, so that any spelling has the same hash. Without the key nobody can find a
number by trying them all.
"""

from collections.abc import Callable
from functools import lru_cache
from hmac import digest
from typing import Final

# The same number is in many events of a batch; bounded, as a worker lives long.
_REMEMBERED: Final = 1 << 16
_SEPARATORS: Final = str.maketrans("", "", " \t\u00a0-‐–./()")


def plain_number(phone: str, *, calling_code: str) -> str:
    """`+`, calling code and number without separators, as far as that works without each country's numbering plan."""
    number = phone.translate(_SEPARATORS)
    if number.startswith("00"):
        return "+" + number[2:]
    if number.startswith("+") or not number:
        return number
    # The zero before a national number is a dialling prefix and not part of it.
    return f"+{calling_code}{number.lstrip('0')}"


def phone_hasher(key: str, *, calling_code: str) -> Callable[[str], str]:
    """A function from a number to its hash, in hex."""
    secret = key.encode()

    @lru_cache(maxsize=_REMEMBERED)
    def hash_phone(phone: str) -> str:
        number = plain_number(phone, calling_code=calling_code)
        return digest(secret, number.encode("utf-8", "surrogatepass"), "sha256").hex()

    return hash_phone
