"""No phone number is in anything that the pipeline makes, but on topics: every file and every line is searched.

Numbers are planted in many writings, in sound and in bad events; all jobs, every command, and a replay look at them.
"""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ottla.cli.main import main
from ottla.pipeline.detection.alerts import ALERT_TOPIC
from ottla.pipeline.events.event_decoding import ERROR_CLASSES
from ottla.pipeline.tables import TABLES
from ottla.pipeline.topics import INVITE, LOGIN, TOPIC_NAMES, VERIFY
from ottla.pipeline.traffic.generator import Settings, Traffic
from tests.pipeline.planted_numbers import WRITINGS, Planted, written
from tests.pipeline.running.driver_process import DriverProcess
from tests.pipeline.running.rig import Pipeline, Record, toml
from tests.processes import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.slow]

LETTERS = tuple(f"{topic}.dlq" for topic in TOPIC_NAMES)


class Story(NamedTuple):
    """`folder` holds all that was made but the broker's data: store, checkpoint, logs, exports, pages."""

    pipeline: Pipeline
    folder: Path
    planted: Planted
    said: dict[str, str]  # by command


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, spark: "SparkSession") -> Iterator[Story]:
    apart, folder = tmp_path_factory.mktemp("topics"), tmp_path_factory.mktemp("made")
    broker = BrokerProcess(apart / "data")
    broker.log_path = folder / "broker.log"
    broker.start()
    try:
        yield _story(broker, folder)
    finally:
        broker.close()


def _story(broker: BrokerProcess, folder: Path) -> Story:
    pipeline = Pipeline(broker.address, folder)
    planted = Planted()
    traffic = Traffic(Settings(seed=5, accounts=250, days=2))
    events = list(planted.rewritten(traffic.events()))
    bad = planted.bad(next(event for event in events if event.topic == LOGIN.name))
    pipeline.make_topics(partitions=1)
    pipeline.send([*events, *bad])
    (folder / "truth.json").write_text(json.dumps(traffic.truth()))
    config = folder / "pipeline.toml"
    config.write_text(toml(batches__max_events=6_000))

    # In a process of its own, so that Spark's and the driver's logs are those that a user would have.
    driver = DriverProcess(broker.address, folder, "--config", str(config), "--once")
    try:
        assert driver.wait() == 0, driver.log
    finally:
        driver.close()
    return Story(pipeline, folder, planted, dict(_said(pipeline, folder, planted, config)))


def _said(pipeline: Pipeline, folder: Path, planted: Planted, config: Path) -> Iterator[tuple[str, str]]:
    """Every command that reads the tables or the topics, and what it prints."""
    store = ("--store-path", str(folder / "store"))
    topics = ("-b", pipeline.bootstrap)
    settings = ("--config", str(config))
    alerts = pipeline.rows("device_alert") + pipeline.rows("invite_alert")
    accounts = [row["account_id"] for row in pipeline.rows("user_region")]
    commands: list[tuple[tuple[str, ...], int | None]] = [
        (("show", *store), 0),
        (("late", *store), 0),
        (("reconcile", *store), 0),
        (("expire", "--days", "1", *store), 0),
        (("redrive", *topics), 0),
        (("redrive", *topics, "--json"), 0),
        (("export", str(folder / "by-day"), *topics, *settings), 0),
        (("export", str(folder / "by-offsets"), *topics, *settings, "--by", "offsets", "--json"), 0),
        (("replay", *topics, *store, *settings, "--checkpoint", str(folder / "checkpoint")), 0),
        (("score", "--truth", str(folder / "truth.json"), *store, "--html", str(folder / "score.html")), 0),
        (("score", "--truth", str(folder / "truth.json"), *store, "--plots", str(folder / "plots"), "--json"), 0),
        (("region", accounts[0], *store), 0),
    ]
    commands += [(("show", table, "--limit", "0", *store), 0) for table in TABLES]
    commands += [(("show", table, "--limit", "0", "--json", *store), 0) for table in TABLES]
    commands += [(("explain", row["alert_id"], *store), 0) for row in alerts]
    commands += [(("explain", row.get("device_id") or row["inviter_id"], "--json", *store), 0) for row in alerts]
    commands += [(("explain", account_id, *store), None) for account_id in accounts[:20]]  # some did nothing
    # What is asked by a number is answered without it, in any writing, found or not.
    number = min(each for each in planted.numbers if each.startswith("1"))
    for way in range(len(WRITINGS)):
        commands.append((("region", written(number, way)), 0))
        commands.append((("region", written(number, way), "--json", *store), 0))
        commands.append((("explain", written(number, way), *store), 1))
    for index, (arguments, code) in enumerate(commands):
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            ended = main(["pipeline", *arguments])
        assert code in (None, ended), (arguments, said.getvalue())
        yield f"{index}: {' '.join(arguments)}", said.getvalue()


def test_the_search_finds_numbers_in_every_writing_and_they_are_on_the_topics(story: Story) -> None:
    planted = story.planted
    for way in range(len(WRITINGS)):
        for number in sorted(each for each in planted.numbers if each.startswith("1"))[:50]:
            assert planted.found_in(f'{{"phone":"{written(number, way)}","at":1756656000000}}') == {number}
    bodies = story.pipeline.records(LOGIN.name, VERIFY.name, INVITE.name)
    assert planted.found_in(_texts(record.value for record in bodies)) == planted.numbers
    letters = story.pipeline.records(*LETTERS)
    assert len(planted.found_in(_texts(record.value for record in letters))) > 10
    assert {letter.headers["error_class"] for letter in letters} >= set(ERROR_CLASSES)


def test_no_file_holds_a_number(story: Story) -> None:
    files = [path for path in story.folder.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"serving.sqlite", "spark.log", "driver.log", "broker.log", "metrics.json", "score.html"} <= names
    for folder, kind in (("store/logs", "parquet"), ("store/shadows", "parquet"), ("by-day", "parquet")):
        assert list((story.folder / folder).rglob(f"*.{kind}")), folder
    assert list((story.folder / "plots").glob("*.png"))
    leaks = {
        str(path.relative_to(story.folder)): found for path in files if (found := story.planted.found_in_file(path))
    }
    assert leaks == {}


def test_no_command_prints_a_number(story: Story) -> None:
    leaks = {command: found for command, text in story.said.items() if (found := story.planted.found_in(text))}
    assert leaks == {}
    assert sum(map(len, story.said.values())) > 1_000_000


def test_no_alert_and_no_header_of_a_dead_letter_holds_a_number(story: Story) -> None:
    alerts = story.pipeline.records(ALERT_TOPIC)
    assert len(alerts) > 10
    assert story.planted.found_in(_whole(alerts)) == set()
    letters = story.pipeline.records(*LETTERS)
    assert story.planted.found_in(_whole([letter._replace(value=None) for letter in letters])) == set()


def test_hashes_stand_where_numbers_stood(story: Story) -> None:
    logins = story.pipeline.rows("login_log")
    assert all(len(row["phone_hash"]) == 64 for row in logins)
    with_more = [json.loads(row["extra"]) for row in logins if row["extra"]]
    assert len(with_more) == 2
    for extra in with_more:
        assert set(_lengths(extra)) == {64}


def _lengths(value: object) -> Iterator[int]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _lengths(each)
    elif isinstance(value, list):
        for each in value:
            yield from _lengths(each)
    else:
        yield len(str(value))


def _texts(values: Iterator[bytes | None]) -> str:
    return "\n".join((value or b"").decode("latin-1") for value in values)


def _whole(records: list[Record]) -> str:
    return "\n".join(f"{record.key!r} {record.value!r} {record.headers}" for record in records)
