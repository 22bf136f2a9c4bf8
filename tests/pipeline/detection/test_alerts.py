"""Alerts as rows and as records of `ml_alert`: the same verdict, the same id."""

import json

from ottla.pipeline.detection.alerts import DeviceAlert, InviteAlert, alert_message, withdrawal_message
from ottla.pipeline.detection.evidence import Evidence, combined
from ottla.pipeline.tables import DEVICE_ALERT, INVITE_ALERT

DEVICE = DeviceAlert("d1", "many_accounts", "2025-09-01", ["a", "b", "c"], 4, 1_000, 3_601_000)
INVITE = InviteAlert(
    "u1",
    5_000,
    ["x", "y"],
    combined([Evidence("shared_device", "device", 0.8, True, "2 invitees", {"invitees": 2})], alert_score=0.5),
)


def test_rows_have_the_columns_of_their_tables() -> None:
    assert {*DEVICE.row(), "detected_ms"} == set(DEVICE_ALERT.column_names)
    assert {*INVITE.row(), "detected_ms"} == set(INVITE_ALERT.column_names)


def test_ids_tell_what_an_alert_is_about_and_nothing_else() -> None:
    assert DEVICE.alert_id == DEVICE._replace(accounts=["a"], switches=9, window_end_ms=7).alert_id
    others = [DEVICE._replace(device_id="d2"), DEVICE._replace(rule="ping_pong"), DEVICE._replace(day="2025-09-02")]
    assert len({DEVICE.alert_id, *(other.alert_id for other in others), INVITE.alert_id}) == 5


def test_a_record_is_keyed_by_its_subject_and_holds_the_evidence() -> None:
    key, value = alert_message("invite_fraud", INVITE.row() | {"detected_ms": 9})
    document = json.loads(value)
    assert key == "u1"
    assert document["rules"] == {"shared_device": {"weight": 0.8, "why": "2 invitees", "invitees": 2}}
    assert document["invitees"] == ["x", "y"]
    assert alert_message("device_switching", DEVICE.row() | {"detected_ms": 9})[0] == "d1"
    assert json.loads(withdrawal_message("invite_fraud", "id", "u1")[1])["withdrawn"] is True


def test_a_line_says_why() -> None:
    assert DEVICE.why == "device d1: many_accounts, 3 accounts in 60 min"
    assert INVITE.why == "inviter u1 scores 0.80: 2 invitees (0.8)"
