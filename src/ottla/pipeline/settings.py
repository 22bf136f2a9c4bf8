"""The pipeline's settings: declared once with type, default, range and doc; read from a TOML file as a whole.

An error names every problem of a file, and for an unknown key the nearest known one. docs/pipeline-configuration.md is
generated from these declarations. Command-line options (cluster, store, jobs) are not here.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ottla.core.config.definition import ConfigError, ConfigKey, Definition
from ottla.core.config.values import ConfigType, ConfigValue
from ottla.pipeline.topics import TOPICS

HASH_KEY_VARIABLE: Final = "OTTLA_PHONE_HASH_KEY"
DEVELOPMENT_HASH_KEY: Final = "ottla-development-key-known-to-everyone"


def _check_versions(value: ConfigValue) -> str | None:
    is_right = isinstance(value, tuple) and value and all(item.isdecimal() for item in value)
    return None if is_right else "expected one whole number or more"


EVENT_KEYS: Final = (
    ConfigKey(
        "events.schema_versions",
        ConfigType.LIST,
        ("1",),
        "Versions of events that the jobs understand; events of other versions become dead letters, which you can "
        "redrive after an update.",
        check=_check_versions,
    ),
    ConfigKey(
        "events.future_allowed_ms",
        ConfigType.LONG,
        24 * 3_600_000,
        "An event whose time is more than this after its record's timestamp, or after now, becomes a dead letter.",
        at_least=0,
    ),
    ConfigKey(
        "events.lateness_allowed_ms",
        ConfigType.LONG,
        3_600_000,
        "An event is late if its time is more than this before the largest event time ahead of it in its partition. "
        "The pipeline counts and lists late events, and processes them like all others.",
        at_least=0,
    ),
)
PHONE_KEYS: Final = (
    ConfigKey(
        "phones.hash_key",
        ConfigType.PASSWORD,
        DEVELOPMENT_HASH_KEY,
        f"Secret of the keyed hash that replaces a phone number in every table; the environment variable "
        f"{HASH_KEY_VARIABLE} overrides it. The default is public and for development only. With another key the same "
        "number has another hash, and an event with a number that is read again counts as a conflict: after a change, "
        "fill the tables again.",
        check=lambda value: None if len(str(value)) >= 16 else "expected 16 characters or more",
    ),
    ConfigKey(
        "phones.calling_code",
        ConfigType.STRING,
        "86",
        "Country calling code of numbers that are written without one, so that both spellings have the same hash.",
        check=lambda value: None if str(value).isdecimal() and len(str(value)) <= 3 else "expected up to three digits",
    ),
    ConfigKey(
        "phones.region_language",
        ConfigType.STRING,
        "en",
        "Language of the names of provinces and cities, such as `zh`; a place without a name in it has its English "
        "name. The names in `detection.address_table` must be in the same language.",
        check=lambda value: None if str(value).isalpha() and len(str(value)) == 2 else "expected two letters",
    ),
)
DETECTION_KEYS: Final = (
    ConfigKey(
        "detection.thresholds",
        ConfigType.STRING,
        "",
        "A TOML file with limits and weights of the detectors, which replace Ottla's own; those that it does not name "
        "stay as they are. Empty: no file. The path is relative to this file.",
    ),
    ConfigKey(
        "detection.address_table",
        ConfigType.STRING,
        "",
        "A JSON file, network -> [country, province, city], that says where accounts appear. Empty: the detector "
        "compares phone numbers of invitees with the inviter's own. The path is relative to this file.",
    ),
    ConfigKey(
        "detection.alert_partitions",
        ConfigType.INT,
        1,
        "Partitions of the topic `ml_alert`, which the first alert creates.",
        at_least=1,
    ),
)
RUNNING_KEYS: Final = (
    ConfigKey(
        "batches.max_events",
        ConfigType.INT,
        200_000,
        "The most records that a micro-batch of a job takes from the topics; memory grows with it.",
        at_least=1,
    ),
    ConfigKey(
        "source.fails_on_data_loss",
        ConfigType.BOOLEAN,
        True,
        "Whether a job stops with an error when a topic has dropped records before the job has read them. With false "
        "it goes on with the records that are left.",
    ),
    ConfigKey(
        "restarts.max",
        ConfigType.INT,
        8,
        "The run ends when a query fails this many times in a row without finishing a batch in between.",
        at_least=0,
    ),
    ConfigKey(
        "restarts.backoff_ms", ConfigType.INT, 500, "Wait before the first restart; doubles each time.", at_least=1
    ),
    ConfigKey("restarts.backoff_max_ms", ConfigType.INT, 30_000, "The longest wait before a restart.", at_least=1),
    ConfigKey(
        "dead_letters.partitions",
        ConfigType.INT,
        1,
        "Partitions of the topics `<topic>.dlq`, each of which its first dead letter creates.",
        at_least=1,
    ),
    ConfigKey("spark.driver_memory", ConfigType.STRING, "1g", "Heap of Spark's driver, which on one machine is all."),
)
RETENTION_KEYS: Final = (
    ConfigKey(
        "retention.days",
        ConfigType.INT,
        0,
        "Days that a log table keeps, back from its newest; a run drops the others every ten minutes and at its end, "
        "`ottla pipeline expire --execute` at once. 0 keeps all. Only log tables have days.",
        at_least=0,
    ),
    ConfigKey(
        "retention.days_by_table",
        ConfigType.LIST,
        (),
        "Tables that keep another number of days, such as `exposure_log=7`.",
        check=lambda value: _complaint_about_days(value),
    ),
    ConfigKey(
        "retention.fact_days",
        ConfigType.INT,
        0,
        "Days that the detectors' facts about logins are kept, back from the newest; 0 keeps all. The rules' spans set "
        "a minimum. The verdict on a login that comes later than this uses the facts that are left.",
        at_least=0,
    ),
    ConfigKey(
        "retention.alert_days",
        ConfigType.INT,
        0,
        "Days of event time that alerts are kept after their window, or after the last invitation of their campaign; 0 "
        "keeps all. The time in which an alert may still change is a minimum. A dropped alert is not sent again.",
        at_least=0,
    ),
    ConfigKey(
        "retention.note_days",
        ConfigType.INT,
        90,
        "Days that the jobs' own notes are kept: `pipeline_metric`, `dead_event_count` and `late_event`; 0 keeps all.",
        at_least=0,
    ),
)
KEY_GROUPS: Final[tuple[tuple[str, tuple[ConfigKey, ...]], ...]] = (
    ("Events", EVENT_KEYS),
    ("Phone numbers", PHONE_KEYS),
    ("Detection", DETECTION_KEYS),
    ("Running", RUNNING_KEYS),
    ("Retention", RETENTION_KEYS),
)
DEFINITION: Final = Definition("pipeline", [key for _, keys in KEY_GROUPS for key in keys], not_served={})


def _complaint_about_days(value: ConfigValue) -> str | None:
    assert isinstance(value, tuple)
    tables = {topic.table for topic in TOPICS}
    for item in value:
        table, _, days = item.partition("=")
        if table not in tables or not days.isdecimal():
            return f"expected TABLE=DAYS with one of {', '.join(sorted(tables))}, not {item!r}"
    return None


class Settings:
    """Checked values by key; immutable."""

    __slots__ = ("_values",)

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        """From keys with their section before a dot, and TOML values; ConfigError names every problem."""
        values: dict[str, ConfigValue] = {name: key.default for name, key in DEFINITION.keys.items()}
        problems = []
        for name, raw in (given or {}).items():
            key = DEFINITION.keys.get(name)
            if key is None:
                problems.append(DEFINITION.refusal_of(name))
                continue
            try:
                values[name] = _checked(key, raw)
            except ValueError as error:
                shown = "(hidden)" if key.is_sensitive else repr(raw)
                problems.append(f"{name} = {shown}: {error}")
        if problems:
            raise ConfigError(problems)
        self._values = values

    def __getitem__(self, name: str) -> ConfigValue:
        return self._values[name]

    def get_int(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int), f"{name} is no whole number"
        return value

    def get_text(self, name: str) -> str:
        value = self._values[name]
        assert isinstance(value, str), f"{name} is no text"
        return value

    def get_list(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        assert isinstance(value, tuple), f"{name} is no list"
        return value

    def retention_days(self) -> dict[str, int]:
        """Log table -> days that it keeps; tables that keep all are left out."""
        days = dict.fromkeys((topic.table for topic in TOPICS), self.get_int("retention.days"))
        for item in self.get_list("retention.days_by_table"):
            table, _, number = item.partition("=")
            days[table] = int(number)
        return {table: number for table, number in days.items() if number > 0}

    @property
    def has_development_hash_key(self) -> bool:
        return self._values["phones.hash_key"] == DEVELOPMENT_HASH_KEY


def load_settings(path: str | os.PathLike[str] | None, environment: Mapping[str, str] | None = None) -> Settings:
    """From a TOML file, if one is given, and the environment. ConfigError names the file and every problem."""
    given: dict[str, Any] = {}
    if path is not None:
        try:
            given = _flat(tomllib.loads(Path(path).read_text(encoding="utf-8")))
            _resolve(given, Path(path).parent)
        except OSError as error:
            raise ConfigError([f"settings file {path} can't be read: {error.strerror}"]) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError([f"settings file {path} is not TOML: {error}"]) from error
    environment = os.environ if environment is None else environment
    if environment.get(HASH_KEY_VARIABLE):
        given["phones.hash_key"] = environment[HASH_KEY_VARIABLE]
    try:
        return Settings(given)
    except ConfigError as error:
        if path is None:
            raise
        raise ConfigError([f"settings file {path}:", *error.problems]) from error


def _resolve(given: dict[str, Any], folder: Path) -> None:
    """Paths in settings are relative to the settings file, wherever the command runs."""
    for name in ("detection.thresholds", "detection.address_table"):
        if isinstance(given.get(name), str) and given[name]:
            given[name] = str(folder / given[name])


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flattens TOML tables to names with dots."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def _checked(key: ConfigKey, raw: Any) -> ConfigValue:
    """The value, if it has the key's type and range; ValueError says what was expected."""
    is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
    value: ConfigValue = raw
    if key.type in (ConfigType.INT, ConfigType.LONG):
        if not isinstance(raw, int) or isinstance(raw, bool):
            raise ValueError("expected a whole number")
    elif key.type is ConfigType.DOUBLE:
        if not is_number:
            raise ValueError("expected a number")
    elif key.type is ConfigType.BOOLEAN:
        if not isinstance(raw, bool):
            raise ValueError("expected true or false")
    elif key.type is ConfigType.LIST:
        if not isinstance(raw, list) or not all(isinstance(item, int | str) for item in raw):
            raise ValueError("expected a list")
        value = tuple(str(item) for item in raw)
    elif not isinstance(raw, str):
        raise ValueError("expected text in quotes")
    complaint = key.problem_with(value)
    if complaint is not None:
        raise ValueError(complaint)
    return value
