"""What an event is, once more and in the plainest way: the judge of `event_decoding` and `parsing`.

Slow and simple on purpose; written from PIPELINE's words and not from the code it judges.
"""

import hashlib
import hmac
import json
from typing import Any

from ottla.pipeline.settings import DEVELOPMENT_HASH_KEY
from ottla.pipeline.topics import BY_NAME

ENVELOPE = ("event_id", "event_type", "schema_version", "event_time", "account_id", "device_id", "fingerprint")
ENVELOPE += ("ip", "app_version")
NUMBERS = ("schema_version", "event_time", "credit", "duration_ms", "step", "steps_total", "reward")
REQUIRED = {
    "ml_obtain_credit_log": "account_id credit",
    "ml_ad_left_slide_log": "account_id ad_id",
    "ml_ad_right_slide_log": "account_id ad_id",
    "ml_ad_exposure_log": "account_id ad_id",
    "ml_app_install_log": "account_id package",
    "ml_login_log": "account_id device_id phone login_kind",
    "ml_message_verify_log": "account_id phone outcome",
    "ml_invite_log": "inviter_id invitee_id",
    "ml_task_log": "account_id task_id step steps_total reward",
}
DAY_MS = 24 * 3_600_000


def phone_hash(phone: str) -> str:
    """Of a number that is written with a plus and its calling code."""
    return hmac.new(DEVELOPMENT_HASH_KEY.encode(), phone.encode(), hashlib.sha256).hexdigest()


def judge(topic: str, value: bytes | None, *, written_ms: int) -> tuple[str, dict[str, Any] | None]:
    """The error class, or "" and the event's fields as a table has them; unknown ones under `extra`."""
    try:
        found = json.loads((value or b"").decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return "not_json", None
    if not isinstance(found, dict):
        return "wrong_type", None
    error = _error(topic, found, written_ms=written_ms)
    return (error, None) if error else ("", fields_of(topic, found))


def fields_of(topic: str, found: dict[str, Any]) -> dict[str, Any]:
    """A sound event's row."""
    known = (*ENVELOPE, *BY_NAME[topic].payload)
    row: dict[str, Any] = {name: found.get(name) for name in known}
    row["event_type"] = BY_NAME[topic].event_type
    if topic == "ml_invite_log":
        row["account_id"] = row["account_id"] or row["inviter_id"]
    if isinstance(row.get("slot"), int):
        row["slot"] = str(row["slot"])
    for name in ("phone", "invitee_phone"):
        if name in row:
            number = row.pop(name)
            row[f"{name}_hash"] = None if number is None else phone_hash(number)
    extra = {name: each for name, each in found.items() if name not in known}
    row["extra"] = extra or None
    return row


def _error(topic: str, found: dict[str, Any], *, written_ms: int) -> str:
    version = found.get("schema_version")
    if version is None:
        return "missing_field"
    if type(version) is not int:
        return "wrong_type"
    if version != 1:
        return "unknown_schema_version"
    for name in ["event_id", "event_time", *REQUIRED[topic].split()]:
        if found.get(name) in (None, ""):
            return "missing_field"
    for name in sorted((*ENVELOPE, *BY_NAME[topic].payload)):
        value = found.get(name)
        if value is None:
            continue
        if name in NUMBERS:
            if type(value) is not int or not -(2**63) <= value < 2**63:
                return "wrong_type"
            if value < 0 and name != "credit":
                return "negative"
        elif type(value) is not str and not (name == "slot" and type(value) is int):
            return "wrong_type"
        if name == "event_type" and value != BY_NAME[topic].event_type:
            return "wrong_type"
    return "future" if found["event_time"] > written_ms + DAY_MS else ""


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
