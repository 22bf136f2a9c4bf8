"""Scores: what counts as right, wrong and missed; pages and plots that stand alone."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from ottla.cli.pipeline import pipeline
from ottla.pipeline.scoring.page import page
from ottla.pipeline.scoring.plots import plots
from ottla.pipeline.scoring.score import Counts, Credits, Score, pooled, score_alerts
from ottla.pipeline.scoring.words import duration

TRUTH: dict[str, Any] = {
    "settings": {"seed": 1, "hardness": "medium"},
    "devices": [
        {"device_id": "d1", "kind": "farm", "rules": {"many_accounts": 1_000}},
        {"device_id": "d2", "kind": "farm", "rules": {"many_accounts": 1_000, "ping_pong": 2_000}},
    ],
    "inviters": [
        {
            "account_id": "c1",
            "kind": "burst",
            "rules": {"burst": 5_000},
            "decidable_ms": 5_000,
            "credits_wrongly_paid": 700,
        },
        {"account_id": "c2", "kind": "idle", "rules": {}, "decidable_ms": 9_000, "credits_wrongly_paid": 300},
    ],
    "decoys": [
        {"kind": "super_inviter", "devices": [], "inviter_id": "h1"},
        {"kind": "family_phone", "devices": ["d9"], "inviter_id": None},
    ],
    "accounts": {"c1": {}, "c2": {}, "h1": {"invite_bonus": 1_200}, "h2": {}},
}
DEVICE_ALERTS = [
    {"device_id": "d1", "rule": "many_accounts", "detected_ms": 1_500},
    {"device_id": "d1", "rule": "many_accounts", "detected_ms": 90_000},
]
INVITE_ALERTS = [
    {"inviter_id": "c1", "rules": json.dumps({"burst": {}}), "invitees": '["x"]', "detected_ms": 4_000},
    {"inviter_id": "h1", "rules": json.dumps({"burst": {}, "idle_invitees": {}}), "invitees": "[]", "detected_ms": 1},
]


def scored() -> Score:
    return score_alerts(TRUTH, DEVICE_ALERTS, INVITE_ALERTS)


def test_subjects_count_once_and_by_detector() -> None:
    devices, inviters, together = scored().detectors
    assert devices.counts == Counts(right=1, wrong=0, missed=1)
    assert inviters.counts == Counts(right=1, wrong=1, missed=1)
    assert together.counts == Counts(2, 1, 2)
    assert (together.counts.precision, together.counts.recall, together.counts.f1) == (2 / 3, 0.5, 4 / 7)
    assert scored().alerts_per_1000_accounts == 1000


def test_rules_are_judged_by_the_alerts_that_name_them() -> None:
    rules = {line.name: line.counts for line in scored().rules}
    assert rules["many_accounts"] == Counts(1, 0, 1)
    assert rules["ping_pong"] == Counts(0, 0, 1)
    assert rules["burst"] == Counts(1, 1, 0)
    assert rules["idle_invitees"] == Counts(0, 1, 0)
    assert rules["ring_cycle"].precision is rules["ring_cycle"].recall is None


def test_delay_is_that_of_the_first_alert_and_may_be_negative() -> None:
    devices, inviters, _ = scored().detectors
    assert devices.delays_ms == [500]
    assert inviters.delays_ms == [-1_000]


def test_credits_and_decoys() -> None:
    assert scored().credits == Credits(wrongly_paid=300, rightly_withheld=700, wrongly_withheld=1_200)
    assert scored().decoys == {"family_phone": (0, 1), "super_inviter": (1, 1)}


def test_pooled_scores_add_up() -> None:
    both = pooled([scored(), scored()])
    assert both.detectors[0].counts == Counts(2, 0, 2)
    assert both.credits.wrongly_paid == 600
    assert both.accounts == 8
    assert both.alerts_per_1000_accounts == 1000


def test_durations_in_words() -> None:
    assert [duration(each) for each in (0, -5_000, 600_000, 36_000_000)] == ["0 s", "-5 s", "10 min", "10.0 h"]


def test_the_page_needs_no_other_file_and_plots_are_the_same_each_time() -> None:
    images = plots({"medium": scored()})
    assert images == plots({"medium": scored()})
    assert all(content.startswith(b"\x89PNG") for content in images.values())
    document = page({"<medium>": scored()}, images)
    assert document.count("data:image/png;base64,") == 3
    assert "&lt;medium&gt;" in document
    assert "http" not in document.replace("https", "http").split("<body>")[0]
    assert 'src="http' not in document


def test_the_command_prints_the_table_and_writes_page_and_plots(tmp_path: Path) -> None:
    truth, alerts, html, folder = (tmp_path / name for name in ("truth.json", "alerts.json", "page.html", "plots"))
    truth.write_text(json.dumps(TRUTH))
    alerts.write_text(json.dumps({"device_alert": DEVICE_ALERTS, "invite_alert": INVITE_ALERTS}))
    files = ["--truth", str(truth), "--alerts", str(alerts)]
    done = CliRunner().invoke(pipeline, ["score", *files, "--html", str(html), "--plots", str(folder)])
    assert done.exit_code == 0, done.output
    assert "invite_fraud" in done.output
    assert "1,200 wrongly withheld" in done.output
    assert html.stat().st_size > 10_000
    assert len(list(folder.glob("*.png"))) == 3
    as_json = CliRunner().invoke(pipeline, ["score", *files, "--json"])
    assert json.loads(as_json.output)["medium, seed 1, 4 accounts"]["detectors"][0]["right"] == 1


def test_wrong_usage_of_score_is_told(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[]")
    for arguments, words in (
        ([], "say what to judge"),
        (["--seeds", "9-3"], "expected a seed"),
        (["--truth", str(wrong), "--alerts", str(wrong)], "expected an object"),
    ):
        done = CliRunner().invoke(pipeline, ["score", *arguments])
        assert done.exit_code != 0
        assert words in done.output


def test_the_region_command_tells_a_place_and_never_a_number() -> None:
    done = CliRunner().invoke(pipeline, ["region", "+8613000401234", "--json"])
    assert json.loads(done.output) == {"country": "CN", "province": "Guangdong", "city": "Guangzhou"}
    assert "1300040" not in done.output
    without = CliRunner().invoke(pipeline, ["region", "u123"])
    assert "--store-path" in without.output
