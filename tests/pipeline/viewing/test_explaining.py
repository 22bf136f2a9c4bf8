"""`pipeline explain` and `pipeline region` on tables that the detectors have filled."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from ottla.cli.main import main
from ottla.pipeline.scoring.offline import OfflineAlerts, OfflineDetectors
from ottla.pipeline.stores.embedded.store import EmbeddedStore
from ottla.pipeline.stores.port import Batch
from ottla.pipeline.traffic.generator import Settings, generate
from ottla.pipeline.viewing.explaining import explain
from tests.pipeline.detection.store_tables import StoreTables


class Detected(NamedTuple):
    store: EmbeddedStore
    alerts: OfflineAlerts
    accounts: list[str]

    def call(self, *arguments: str) -> int:
        return main(["pipeline", *arguments, "--store-path", str(self.store.folder)])


@pytest.fixture(scope="module")
def detected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Detected]:
    store = EmbeddedStore(tmp_path_factory.mktemp("detected") / "store")
    store.initialise()
    events = [(event.topic, event.value) for event in generate(Settings(5, 250, 2)) if isinstance(event.value, dict)]
    detectors = OfflineDetectors(store=StoreTables(store))
    detectors.feed(events)
    alerts = detectors.finish()
    region = {"account_id": "u1", "country": "CN", "province": "Jiangsu", "city": "Suzhou", "phone_hash": "0" * 64}
    store.upsert("user_region", pa.Table.from_pylist([region | {"updated_ms": 1}]), Batch("phone_region", "run", 0))
    yield Detected(store, alerts, sorted({value["account_id"] for _, value in events}))
    store.close()


def test_an_invite_alert_is_told_by_its_weights_and_each_invitation(detected: Detected) -> None:
    for row in detected.alerts.invite_alerts:
        (reported,) = explain(detected.store, row["alert_id"])
        assert min(1.0, sum(each.weight for each in reported.weights)) == pytest.approx(row["score"])
        assert {each.rule for each in reported.weights} == json.loads(row["rules"]).keys()
        invited = {each.what.split()[1].rstrip(",") for each in reported.timeline if each.what.startswith("invited")}
        assert invited == set(json.loads(row["invitees"]))
        assert list(reported.timeline) == sorted(reported.timeline)


def test_a_device_alert_is_told_by_the_logins_of_its_window(detected: Detected) -> None:
    for row in detected.alerts.device_alerts:
        (reported,) = explain(detected.store, row["alert_id"])
        assert reported.timeline[0].time_ms == row["window_start_ms"]
        assert reported.timeline[-1].time_ms == row["window_end_ms"]
        firsts = sum(each.what.endswith("for the first time") for each in reported.timeline)
        assert firsts == len(json.loads(row["accounts"]))


def test_subjects_are_told_with_their_alerts_and_accounts_that_others_name_with_those(detected: Detected) -> None:
    device = detected.alerts.device_alerts[0]
    invite = detected.alerts.invite_alerts[0]
    of_device = {row["alert_id"] for row in detected.alerts.device_alerts if row["device_id"] == device["device_id"]}
    assert {each.alert_id for each in explain(detected.store, device["device_id"])} == of_device
    assert invite["alert_id"] in {each.alert_id for each in explain(detected.store, invite["inviter_id"])}
    named = json.loads(device["accounts"])[0]
    assert explain(detected.store, named)


def test_an_account_without_alerts_is_told_by_what_is_known(detected: Detected) -> None:
    reported = [each for account_id in detected.accounts for each in explain(detected.store, account_id)]
    assert any(each.alert_id == "" and each.timeline for each in reported)
    assert explain(detected.store, "nobody") == []


def test_commands_print_verdicts_and_regions(detected: Detected, capsys: pytest.CaptureFixture[str]) -> None:
    alert = detected.alerts.invite_alerts[0]
    assert detected.call("explain", alert["alert_id"]) == 0
    shown = capsys.readouterr().out
    assert alert["inviter_id"] in shown
    assert "weight" in shown
    assert detected.call("explain", alert["alert_id"], "--json") == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert document["alert_id"] == alert["alert_id"]
    assert {each["rule"] for each in document["weights"]} == json.loads(alert["rules"]).keys()
    assert detected.call("region", "u1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["city"] == "Suzhou"
    assert detected.call("explain", "nobody") == 1
    assert "no alert, account or device" in capsys.readouterr().err


def test_a_folder_without_tables_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "explain", "u1", "--store-path", str(tmp_path / "none")]) == 1
    assert "init-store" in capsys.readouterr().err
