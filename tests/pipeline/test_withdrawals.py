"""Alerts of an earlier run that no longer hold after later events: gone from the store, withdrawn on the topic.

For each detector that can: a login between two that made a return, an invitee who comes alive after all, and an
invitation that joins two campaigns to one.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.pipeline.detection.alerts import ALERT_TOPIC
from ottla.pipeline.topics import EXPOSURE, INVITE, LOGIN, VERIFY
from ottla.pipeline.traffic.events import Event
from tests.pipeline.running.rig import Pipeline, Row
from tests.processes import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.slow]

START_MS = 1_756_684_800_000  # midnight of 2025-09-01, UTC
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
DAY_MS = 24 * HOUR_MS


class Story:
    """One broker and one store; `step` sends events and runs the detectors on them."""

    def __init__(self, pipeline: Pipeline, spark: "SparkSession") -> None:
        self.pipeline = pipeline
        self._spark = spark
        self._sent = 0
        self._reported = 0

    def step(self, job: str, *events: tuple[str, int, Row]) -> tuple[list[Row], list[tuple[str, Row]]]:
        """The alerts that stand after it, and what was sent meanwhile: key and value."""
        sent = []
        for topic, time_ms, fields in events:
            self._sent += 1
            value = {"event_id": f"e{self._sent}", "schema_version": 1, "event_time": time_ms, **fields}
            sent.append(Event(topic, str(fields.get("device_id", fields["account_id"])), value, time_ms))
        self.pipeline.send(sent)
        assert self.pipeline.run(self._spark, jobs=job), self.pipeline.reported
        reported = self.pipeline.records(ALERT_TOPIC)
        new, self._reported = reported[self._reported :], len(reported)
        table = "device_alert" if job == "device_switching" else "invite_alert"
        return self.pipeline.rows(table), [
            ((each.key or b"").decode(), json.loads(each.value or b"null")) for each in new
        ]

    def figure(self, job: str, name: str) -> int:
        return self.pipeline.progress[job].figures[name]


@pytest.fixture
def story(start_broker: Callable[..., BrokerProcess], tmp_path: Path, spark: "SparkSession") -> Story:
    pipeline = Pipeline(start_broker().address, tmp_path)
    pipeline.make_topics(partitions=1)
    return Story(pipeline, spark)


def login(minute: float, account: str, device: str = "d1", **more: Any) -> tuple[str, int, Row]:
    fields = {"account_id": account, "device_id": device, "phone": "+8613900000001", "login_kind": "switch"}
    return LOGIN.name, START_MS + int(minute * MINUTE_MS), fields | more


def invite(minute: float, invitee: str, number: int = 0) -> tuple[str, int, Row]:
    fields = {"account_id": "host", "inviter_id": "host", "invitee_id": invitee}
    return INVITE.name, START_MS + int(minute * MINUTE_MS), fields | {"invitee_phone": f"+861390{number:07d}"}


def use(minute: float, account: str) -> tuple[str, int, Row]:
    return EXPOSURE.name, START_MS + int(minute * MINUTE_MS), {"account_id": account, "ad_id": "a"}


def withdrawal(detector: str, alert: Row) -> Row:
    return {"detector": detector, "alert_id": alert["alert_id"], "withdrawn": True}


def test_a_login_that_comes_late_withdraws_returns_that_were_none(story: Story) -> None:
    job = "device_switching"
    (alert,), reported = story.step(job, *(login(minute, "ab"[minute % 2]) for minute in range(6)))
    assert alert["rule"] == "ping_pong"
    assert [(key, each["alert_id"]) for key, each in reported] == [("d1", alert["alert_id"])]

    # One more account in between: what looked like a return was none. All of it is within ten minutes, far from late.
    left, reported = story.step(job, login(1.5, "c"), login(2.5, "c"), login(3.5, "c"))
    assert alert["alert_id"] not in {row["alert_id"] for row in left}
    assert {row["rule"] for row in left} == {"many_accounts"}
    withdrawn = [(key, each) for key, each in reported if each.get("withdrawn")]
    assert withdrawn == [("d1", withdrawal(job, alert))]
    assert story.figure(job, "withdrawn") == 1

    # Nothing is sent twice, and what was withdrawn can come again, under the same id.
    again, reported = story.step(job, login(6, "a"), login(600, "z", device="d2"))
    assert alert["alert_id"] not in {row["alert_id"] for row in again}
    assert reported == []
    back, reported = story.step(job, *(login(20 + minute, "ab"[minute % 2]) for minute in range(6)))
    assert alert["alert_id"] in {row["alert_id"] for row in back}
    assert ("d1", alert["alert_id"]) in {(key, each["alert_id"]) for key, each in reported if "withdrawn" not in each}


def test_an_invitee_who_comes_alive_after_all_withdraws_the_alert(story: Story) -> None:
    job = "invite_fraud"
    # On the inviter's own phone, and no sign of use within the hour: paid to himself, as it seems.
    (alert,), reported = story.step(
        job, login(0, "host"), invite(5, "guest"), login(6, "guest"), login(6 + 70, "other", device="d9")
    )
    assert alert["score"] == 0.8
    assert list(json.loads(alert["rules"])) == ["shared_device"]
    assert [(key, each["alert_id"], each["score"]) for key, each in reported] == [("host", alert["alert_id"], 0.8)]

    # Two signs of use on the first day, the first of which was made before the alert fell: a child or a spouse.
    left, reported = story.step(job, use(30, "guest"), use(300, "guest"))
    assert left == []
    assert reported == [("host", withdrawal(job, alert))]
    assert story.figure(job, "withdrawn") == 1
    assert story.step(job, use(400, "guest")) == ([], [])


def test_an_invitation_that_joins_two_campaigns_withdraws_the_later_one(story: Story) -> None:
    job = "invite_fraud"
    gap = 4 * 24 * 60  # campaigns end after three days
    near = [invite(minute, f"first{minute}", number=minute) for minute in range(3)]
    far = [invite(gap + minute, f"second{minute}", number=1_000_000 + minute) for minute in range(3)]
    verified = (VERIFY.name, START_MS, {"account_id": "host", "phone": "+8613900000001", "outcome": "ok"})
    alerts, reported = story.step(job, verified, *near, *far)
    assert {len(json.loads(row["invitees"])) for row in alerts} == {3}
    first, second = sorted(alerts, key=lambda row: row["first_event_ms"])
    assert {each["alert_id"] for _, each in reported} == {first["alert_id"], second["alert_id"]}

    (joined,), reported = story.step(job, invite(gap / 2, "between", number=5_000_000))
    assert joined["alert_id"] == first["alert_id"]
    assert len(json.loads(joined["invitees"])) == 7
    assert ("host", withdrawal(job, second)) in reported
    (changed,) = [each for _, each in reported if "withdrawn" not in each]
    assert (changed["alert_id"], len(changed["invitees"])) == (first["alert_id"], 7)
