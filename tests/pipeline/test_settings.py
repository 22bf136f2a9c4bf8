"""The settings file: everything wrong with it at once, in words; the environment's key."""

from pathlib import Path

import pytest

from ottla.core.config.definition import ConfigError
from ottla.pipeline.settings import DEFINITION, HASH_KEY_VARIABLE, Settings, load_settings


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "pipeline.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_all_is_as_declared() -> None:
    settings = load_settings(None, {})
    assert {name: settings[name] for name in DEFINITION.keys} == {k.name: k.default for k in DEFINITION.keys.values()}
    assert settings.has_development_hash_key


def test_sections_and_dotted_names_are_the_same(tmp_path: Path) -> None:
    text = "batches.max_events = 5\n[events]\nlateness_allowed_ms = 60000\nschema_versions = [1, 2]\n[phones]\n"
    settings = load_settings(file(tmp_path, text + 'calling_code = "49"\n'), {})
    assert settings.get_int("batches.max_events") == 5
    assert settings.get_int("events.lateness_allowed_ms") == 60000
    assert settings.get_list("events.schema_versions") == ("1", "2")
    assert settings.get_text("phones.calling_code") == "49"


def test_every_problem_is_told_and_unknown_keys_with_the_nearest(tmp_path: Path) -> None:
    path = file(
        tmp_path, '[events]\nlatenes_allowed_ms = 5\n[restarts]\nmax = "two"\nbackoff_ms = 0\n[phones]\nhash_key = "x"'
    )
    with pytest.raises(ConfigError) as caught:
        load_settings(path, {})
    text = str(caught.value)
    assert str(path) in text
    assert "unknown pipeline key events.latenes_allowed_ms; the nearest known one is events.lateness_allowed_ms" in text
    assert "restarts.max = 'two': expected a whole number" in text
    assert "restarts.backoff_ms = 0: expected at least 1" in text
    assert "phones.hash_key = (hidden): expected 16 characters or more" in text


@pytest.mark.parametrize("text", ["[events", "a = ", "events = 5"])
def test_what_is_no_settings_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = file(tmp_path, text)
    with pytest.raises(ConfigError, match=r"pipeline\.toml"):
        load_settings(path, {})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml can't be read"):
        load_settings(tmp_path / "nowhere.toml", {})


def test_the_environment_has_the_last_word_on_the_hash_key(tmp_path: Path) -> None:
    path = file(tmp_path, 'phones.hash_key = "sixteen characters"')
    assert load_settings(path, {}).get_text("phones.hash_key") == "sixteen characters"
    settings = load_settings(path, {HASH_KEY_VARIABLE: "another secret of mine"})
    assert settings.get_text("phones.hash_key") == "another secret of mine"
    assert not settings.has_development_hash_key


def test_a_truth_is_no_number() -> None:
    with pytest.raises(ConfigError, match="whole number"):
        Settings({"restarts.max": True})


def test_files_that_settings_name_lie_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text('[detection]\nthresholds = "limits.toml"\naddress_table = "/etc/addresses.json"\n')
    settings = load_settings(path, {})

    assert settings.get_text("detection.thresholds") == str(tmp_path / "limits.toml")
    assert settings.get_text("detection.address_table") == "/etc/addresses.json"
    assert load_settings(None, {}).get_text("detection.thresholds") == ""
