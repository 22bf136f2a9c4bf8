"""Declared keys: parsing, ranges, and the refusal of what is not declared."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ottla
from ottla.core.config.broker_keys import BROKER_DEFINITION
from ottla.core.config.definition import ConfigKey, Definition
from ottla.core.config.topic_keys import TOPIC_DEFINITION
from ottla.core.config.values import ConfigType, parse_value, render_value

KEYS = (
    ConfigKey("size", ConfigType.INT, 5, "A size.", at_least=1, at_most=10),
    ConfigKey("colour", ConfigType.STRING, "red", "A colour.", valid_values=("red", "blue")),
    ConfigKey("colours", ConfigType.LIST, ("red",), "Colours.", valid_values=("red", "blue")),
    ConfigKey("ratio", ConfigType.DOUBLE, 0.5, "A ratio.", at_least=0, at_most=1),
    ConfigKey("secret", ConfigType.PASSWORD, None, "A secret.", check=lambda value: "expected another"),
)
DEFINITION = Definition("broker", KEYS, not_served={"shade": "", "hue": "use colour"}, not_served_prefixes=("tint.",))


def problem_of(name: str, text: str) -> str:
    (problem,) = DEFINITION.parse({name: text}).problems
    return problem


@pytest.mark.parametrize(
    ("value_type", "text", "value"),
    [
        (ConfigType.BOOLEAN, " True ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, "-7", -7),
        (ConfigType.INT, "2147483647", 2147483647),
        (ConfigType.LONG, "9223372036854775807", 9223372036854775807),
        (ConfigType.DOUBLE, "0.25", 0.25),
        (ConfigType.LIST, "a, b,c", ("a", "b", "c")),
        (ConfigType.LIST, "", ()),
        (ConfigType.STRING, "  text ", "text"),
    ],
)
def test_text_becomes_a_value_of_its_type(value_type: ConfigType, text: str, value: object) -> None:
    assert parse_value(value_type, text) == value


@pytest.mark.parametrize(
    ("value_type", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.BOOLEAN, ""),
        (ConfigType.INT, "2147483648"),
        (ConfigType.SHORT, "32768"),
        (ConfigType.LONG, "9223372036854775808"),
        (ConfigType.LONG, "9" * 10_000),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "1.0"),
        (ConfigType.INT, "٣"),
        (ConfigType.INT, "--1"),
        (ConfigType.INT, ""),
        (ConfigType.DOUBLE, "half"),
    ],
)
def test_text_of_another_form_is_refused(value_type: ConfigType, text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected"):
        parse_value(value_type, text)


@given(st.one_of(st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False)))
@settings(max_examples=50, deadline=None)
def test_rendered_values_are_read_back(value: bool | int | float) -> None:
    types = {bool: ConfigType.BOOLEAN, int: ConfigType.LONG, float: ConfigType.DOUBLE}
    text = render_value(value)
    assert text is not None
    assert parse_value(types[type(value)], text) == value


def test_values_out_of_range_are_refused_with_the_range() -> None:
    assert problem_of("size", "11") == "size=11: expected 1 to 10"
    assert problem_of("ratio", "nan") == "ratio=nan: expected 0 to 1"
    assert problem_of("colour", "green") == "colour=green: expected one of red, blue"
    assert problem_of("colours", "red,green") == "colours=red,green: expected one or more of red, blue"
    assert problem_of("colours", "") == "colours=: expected one or more of red, blue"


def test_a_password_is_not_shown() -> None:
    assert problem_of("secret", "swordfish") == "secret=(hidden): expected another"


def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    assert problem_of("color", "red") == "unknown broker key color; the nearest known one is colour"
    assert problem_of("zzz", "1") == "unknown broker key zzz"


def test_a_key_of_kafka_without_effect_is_refused_in_other_words() -> None:
    assert problem_of("shade", "1") == "known to Kafka, not served by Ottla: shade"
    assert problem_of("hue", "1") == "known to Kafka, not served by Ottla: hue (use colour)"
    assert problem_of("tint.depth", "1") == "known to Kafka, not served by Ottla: tint.depth"


def test_all_problems_are_reported_together_and_good_values_kept() -> None:
    parsed = DEFINITION.parse({"size": "x", "colour": "blue", "shade": "1", "nothing.like.it": "1"})
    assert parsed.values == {"colour": "blue"}
    assert len(parsed.problems) == 3
    assert parsed.refused == {"size", "shade", "nothing.like.it"}


@pytest.mark.parametrize("definition", [BROKER_DEFINITION, TOPIC_DEFINITION], ids=["broker", "topic"])
def test_every_declaration_holds_together(definition: Definition) -> None:
    for key in definition.keys.values():
        assert key.doc.endswith((".", ".)"))
        assert not definition.is_known_to_kafka(key.name), f"{key.name} is both served and not served"
        if key.default is not None:
            text = render_value(key.default)
            assert text is not None
            assert key.parse(text) == key.default
        for synonym in key.synonyms:
            assert synonym.name in BROKER_DEFINITION.keys


@pytest.mark.process
def test_importing_the_config_loads_nothing_slow() -> None:
    code = "import sys; import ottla.core.config.config; print(*sys.modules)"
    # -S: without what other packages put into site-packages' start-up files.
    environment = {"PYTHONPATH": ottla.__path__[0].removesuffix("/ottla")}
    command = [sys.executable, "-S", "-c", code]
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    loaded = set(finished.stdout.split())
    assert "ottla.core.config.config" in loaded
    assert not {"dataclasses", "difflib", "inspect", "asyncio", "uuid", "json"} & loaded
