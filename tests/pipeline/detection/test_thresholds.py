"""Thresholds: all of them have a reason, and an error names every problem of a file."""

from pathlib import Path

import pytest

from ottla.pipeline.detection.thresholds import (
    DeviceThresholds,
    InviteThresholds,
    ThresholdError,
    default_thresholds,
    load_thresholds,
    reasons,
)


def test_every_threshold_has_a_reason() -> None:
    names = {f"device_switching.{name}" for name in DeviceThresholds._fields}
    names |= {f"invite_fraud.{name}" for name in InviteThresholds._fields}
    assert reasons().keys() == names
    assert all(len(reason) > 10 for reason in reasons().values())


def test_the_limits_are_those_of_the_rules_in_words() -> None:
    device, invite = default_thresholds()
    assert device == DeviceThresholds(3, 86_400_000, 4, 600_000)
    assert (invite.burst_invites, invite.burst_span_ms) == (5, 300_000)
    assert (invite.group_invitees, invite.idle_share, invite.idle_span_ms) == (5, 0.8, 86_400_000)
    assert (invite.neighbours, invite.neighbour_distance) == (3, 20)
    assert (invite.region_share, invite.ring_accounts) == (0.8, 4)


def test_a_file_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[device_switching.many_accounts]\nvalue = 5\n")
    mine = load_thresholds(path)
    assert mine.device_switching == default_thresholds().device_switching._replace(many_accounts=5)
    assert mine.invite_fraud == default_thresholds().invite_fraud


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(
        "[device_switching.many_account]\nvalue = 5\n[invite_fraud.burst_invites]\nvalue = 'x'\n"
        "[invite_fraud.idle_share]\nvalue = 80\n[invite_frauds.a]\nvalue = 1\n"
        "[invite_fraud.neighbour_distance]\nvalue = 99\n"
    )
    with pytest.raises(ThresholdError) as raised:
        load_thresholds(path)
    text = str(raised.value)
    for part in (
        "did you mean many_accounts?",
        "whole number",
        "from 0 to 1",
        "did you mean invite_fraud?",
        "31 at most",
    ):
        assert part in text


def test_speed_alone_can_not_be_made_enough(tmp_path: Path) -> None:
    path = tmp_path / "speed.toml"
    path.write_text("[invite_fraud.speed_weight]\nvalue = 0.6\n")
    with pytest.raises(ThresholdError, match="speed alone"):
        load_thresholds(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ThresholdError, match=r"none\.toml"):
        load_thresholds(tmp_path / "none.toml")
