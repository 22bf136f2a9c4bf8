"""Traffic with known phone numbers in many writings, in bad events too, and the search for them in what comes of it."""

import io
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ottla.pipeline.topics import LOGIN
from ottla.pipeline.traffic.events import Event

DAY_MS = 24 * 3_600_000
NATIONAL_DIGITS = 11
# One number in the ways in which apps and people write it: with calling code, without, with blanks, dashes, brackets.
WRITINGS = (
    "+86{0}{1}{2}",
    "{0}{1}{2}",
    "{0} {1} {2}",
    "0086{0}{1}{2}",
    "+86-{0}-{1}-{2}",
    "+86 ({0}) {1}.{2}",
    "0{0}{1}{2}",
)
# As it may stand anywhere: no digit before or after it, whatever else is there.
_SOLID = re.compile(r"(?<!\d)\d{9,15}(?!\d)")
_SPACED = re.compile(r"(?<!\d)\(?(\d{3})\)?[ \u00a0./-]{1,2}(\d{4})[ \u00a0./-](\d{4})(?!\d)")


def national(number: str) -> str:
    """The digits of a number, without the calling code of +86."""
    return re.sub(r"\D", "", number)[-NATIONAL_DIGITS:]


def written(number: str, way: int) -> str:
    digits = national(number)
    return WRITINGS[way % len(WRITINGS)].format(digits[:3], digits[3:7], digits[7:])


class Planted:
    """The numbers of some traffic, and where they are found again."""

    def __init__(self) -> None:
        self.numbers: set[str] = set()

    def rewritten(self, events: Iterable[Event]) -> Iterator[Event]:
        """The same events; each number of +86 in another writing than the one before, and all of them noted."""
        way = 0
        for event in events:
            assert isinstance(event.value, dict)
            value: dict[str, Any] = dict(event.value)
            for name in ("phone", "invitee_phone"):
                if value.get(name):
                    self.numbers.add(national(value[name]))
                    if value[name].startswith("+86"):
                        value[name] = written(value[name], way)
                        way += 1
            yield event._replace(value=value)

    def bad(self, login: Event) -> list[Event]:
        """A login with a number in it, broken in every way that makes a dead letter; and sound ones that hold more."""
        assert isinstance(login.value, dict)
        base: dict[str, Any] = login.value
        taken = iter(range(13_700_000_001, 13_700_000_400, 3))

        def number() -> str:
            self.numbers.add(str(chosen := next(taken)))
            return f"+86{chosen}"

        def event(**changes: Any) -> Event:
            if "phone" not in changes:
                changes["phone"] = number()
            value = {**base, "event_id": f"planted-{len(self.numbers)}", **changes}
            return Event(LOGIN.name, login.key, {name: each for name, each in value.items() if each is not None}, 0)

        cut = json.dumps({**base, "phone": number()}).encode()[:-3]
        return [
            Event(LOGIN.name, login.key, cut, 0),
            Event(LOGIN.name, login.key, number().encode(), 0),
            Event(LOGIN.name, login.key, b'{"phone": ' + number().encode() + b"}", 0),
            event(phone=int(national(number()))),
            event(phone=[number()]),
            event(phone={number(): number()}),
            event(login_kind=None),
            event(event_time=base["event_time"] + 400_000 * DAY_MS),
            event(event_time=int("86" + national(number()))),
            event(event_time=-int(national(number()))),
            event(schema_version=7),
            event(schema_version=int(national(number()))),
            event(event_type=number()),
            event(event_id=base["event_id"]),  # a conflict: the same id with another number
            # Sound, with numbers in fields that nobody declared.
            event(new_phone=number(), old={"phones": [written(number(), 2), int(national(number()))]}),
            event(backup=written(number(), 0), mobile=written(number(), 1), contact={"tel": written(number(), 2)}),
        ]

    def found_in(self, text: str) -> set[str]:
        solid = _SOLID.findall(text)
        runs = {*solid, *(run[-NATIONAL_DIGITS:] for run in solid)}
        runs |= {"".join(parts) for parts in _SPACED.findall(text)}
        return self.numbers & runs

    def found_in_file(self, path: Path) -> set[str]:
        """In its bytes as they are; and where they are packed, in what they hold."""
        content = path.read_bytes()
        found = self.found_in(content.decode("latin-1"))
        if content[:4] == b"PAR1":
            found |= self.found_in(json.dumps(pq.read_table(io.BytesIO(content)).to_pylist(), ensure_ascii=False))
        return found
