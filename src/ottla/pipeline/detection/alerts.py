"""Alerts: their ids, their rows, and what goes to the topic `ml_alert`. The same verdict always has the same id."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from ottla.pipeline.detection.evidence import Evidence, Verdict

ALERT_TOPIC: Final = "ml_alert"
DEVICE_RULES: Final = ("many_accounts", "ping_pong")
_ID_HEX_DIGITS: Final = 32


class DeviceAlert(NamedTuple):
    """One rule that a device met on one UTC day, by the end of its window."""

    device_id: str
    rule: str
    day: str
    accounts: Sequence[str]
    switches: int
    window_start_ms: int
    window_end_ms: int

    @property
    def alert_id(self) -> str:
        return device_alert_id(self.device_id, self.rule, self.day)

    def row(self) -> dict[str, Any]:
        """Columns of `device_alert`, all but when it was detected."""
        return {
            "alert_id": self.alert_id,
            "device_id": self.device_id,
            "rule": self.rule,
            "accounts": json.dumps(self.accounts),
            "switches": self.switches,
            "window_start_ms": self.window_start_ms,
            "window_end_ms": self.window_end_ms,
        }

    @property
    def why(self) -> str:
        minutes = (self.window_end_ms - self.window_start_ms) / 60_000
        what = f"{len(self.accounts)} accounts" if self.rule == "many_accounts" else f"{self.switches} switches"
        return f"device {self.device_id}: {self.rule}, {what} in {minutes:,.0f} min"


class InviteAlert(NamedTuple):
    """One campaign of an inviter: his invitations that follow each other without a long pause."""

    inviter_id: str
    first_event_ms: int
    invitees: Sequence[str]
    verdict: Verdict

    @property
    def alert_id(self) -> str:
        return invite_alert_id(self.inviter_id, self.first_event_ms)

    def row(self) -> dict[str, Any]:
        """Columns of `invite_alert`, all but when it was detected."""
        return {
            "alert_id": self.alert_id,
            "inviter_id": self.inviter_id,
            "score": self.verdict.score,
            "rules": json.dumps({each.rule: _evidence_document(each) for each in self.verdict.evidence}),
            "invitees": json.dumps(self.invitees),
            "first_event_ms": self.first_event_ms,
        }

    @property
    def why(self) -> str:
        return f"inviter {self.inviter_id} scores {self.verdict.score:.2f}: {self.verdict.why}"


def device_alert_id(device_id: str, rule: str, day: str) -> str:
    return _hashed("device_switching", device_id, rule, day)


def invite_alert_id(inviter_id: str, first_event_ms: int) -> str:
    return _hashed("invite_fraud", inviter_id, str(first_event_ms))


def alert_message(detector: str, row: Mapping[str, Any]) -> tuple[str, bytes]:
    """Key and value of an alert's record: the row as it is stored, JSON columns as JSON."""
    value = {"detector": detector} | {
        name: json.loads(each) if name in ("accounts", "rules", "invitees") else each for name, each in row.items()
    }
    subject = row["device_id"] if "device_id" in row else row["inviter_id"]
    return subject, json.dumps(value, separators=(",", ":")).encode()


def withdrawal_message(detector: str, alert_id: str, subject: str) -> tuple[str, bytes]:
    """For an alert that no longer holds after late events."""
    value = {"detector": detector, "alert_id": alert_id, "withdrawn": True}
    return subject, json.dumps(value, separators=(",", ":")).encode()


def _evidence_document(evidence: Evidence) -> dict[str, Any]:
    return {"weight": evidence.weight, "why": evidence.why, **evidence.figures}


def _hashed(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:_ID_HEX_DIGITS]
