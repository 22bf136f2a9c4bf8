"""Java-style properties, as java.util.Properties reads them."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.config.properties import PropertiesError, apply_overrides, parse_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\nb=2\n", {"a": "1", "b": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("# note\n! note\n   # indented\n\n \t\f\na=1", {"a": "1"}),
        ("# a comment is not continued \\\na=1", {"a": "1"}),
        ("a = 1\nb:2\nc : 3\nd 4\ne\t5\nf\f=\f6", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"}),
        ("a==1\nb= :2\nc  d=3", {"a": "=1", "b": ":2", "c": "d=3"}),
        ("a\nb=\nc:", {"a": "", "b": "", "c": ""}),
        ("a=x \\\n   y\\\n\tz", {"a": "x yz"}),
        ("a=x\\\n# part of the value", {"a": "x# part of the value"}),
        ("a=ends with \\\\\nb=2", {"a": "ends with \\", "b": "2"}),
        ("a=ends in a continuation\\", {"a": "ends in a continuation"}),
        ("\\\n", {}),
        ("a\\=b\\:c\\ d=1", {"a=b:c d": "1"}),
        ("a=\\t\\n\\r\\f\\q\\#", {"a": "\t\n\r\fq#"}),
        ("a=\\u00e9\\u4E2D", {"a": "é中"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=trailing \n", {"a": "trailing "}),
        ("=value", {"": "value"}),
        ("a=line\u2028separator", {"a": "line\u2028separator"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text.encode()) == properties


def test_utf_8_and_iso_8859_1_are_both_read() -> None:
    assert parse_properties("a=é".encode()) == {"a": "é"}
    assert parse_properties("a=é".encode("iso-8859-1")) == {"a": "é"}
    assert parse_properties(b"\xef\xbb\xbfa=1") == {"a": "1"}


@pytest.mark.parametrize("text", ["\n\na=\\u12", "\n\na=\\u12g4", "\n\na=\\u+123"])
def test_a_broken_unicode_escape_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(PropertiesError, match="line 3"):
        parse_properties(text.encode())


def store(properties: dict[str, str]) -> bytes:
    """Writes like java.util.Properties.store: everything special escaped, all else as \\uXXXX."""
    named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}

    def escape(text: str) -> str:
        parts = []
        for unit in memoryview(text.encode("utf-16-le")).cast("H"):
            character = chr(unit)
            if character in named:
                parts.append(named[character])
            elif character in "\\=:#! ":
                parts.append("\\" + character)
            else:
                parts.append(character if 32 <= unit < 127 else f"\\u{unit:04X}")
        return "".join(parts)

    return "".join(f"{escape(key)}={escape(value)}\n" for key, value in properties.items()).encode("ascii")


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=5))
@settings(max_examples=200, deadline=None)
def test_what_java_stores_is_read_back(properties: dict[str, str]) -> None:
    assert parse_properties(store(properties)) == properties


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(PropertiesError):
        parse_properties(data)


def test_overrides_win_and_the_last_one_most() -> None:
    merged = apply_overrides({"a": "1", "b": "2"}, ["b=3", "c=x=y", "b = 4"])
    assert merged == {"a": "1", "b": "4", "c": "x=y"}


@pytest.mark.parametrize("override", ["a", "=1", ""])
def test_an_override_of_another_form_is_refused(override: str) -> None:
    with pytest.raises(PropertiesError, match="KEY=VALUE"):
        apply_overrides({}, [override])
