"""The events of each topic as types: their fields, which are required, and the type of each.

Built from `topics.py`, once for each set of schema versions. Fields are in the order of their names, so that encoding
an event gives its canonical form; a default is never encoded, so absent and null are the same.
"""

from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from ottla.pipeline.topics import BY_NAME, INVITE, LOGIN, Topic
from ottla.pipeline.traffic.events import ENVELOPE

LONG_MIN: Final = -(1 << 63)
LONG_MAX: Final = (1 << 63) - 1

INTEGER_FIELDS: Final = frozenset(
    {"schema_version", "event_time", "credit", "duration_ms", "step", "steps_total", "reward"}
)
# A correction takes credit away; every other number counts something.
SIGNED_FIELDS: Final = frozenset({"credit"})
PHONE_FIELDS: Final = {"phone": "phone_hash", "invitee_phone": "invitee_phone_hash"}

_REQUIRED_OF_ALL: Final = ("event_id", "schema_version", "event_time", "account_id")
_REQUIRED: Final = {
    "ml_obtain_credit_log": ("credit",),
    "ml_ad_left_slide_log": ("ad_id",),
    "ml_ad_right_slide_log": ("ad_id",),
    "ml_ad_exposure_log": ("ad_id",),
    "ml_app_install_log": ("package",),
    "ml_login_log": ("device_id", "phone", "login_kind"),
    "ml_message_verify_log": ("phone", "outcome"),
    "ml_invite_log": ("inviter_id", "invitee_id"),
    "ml_task_log": ("task_id", "step", "steps_total", "reward"),
}

_TEXT: Final = Annotated[str, Meta(min_length=1)]
_SIGNED: Final = Annotated[int, Meta(ge=LONG_MIN, le=LONG_MAX)]
_UNSIGNED: Final = Annotated[int, Meta(ge=0, le=LONG_MAX)]


class EventType(NamedTuple):
    """The type of one topic's events; `struct` accepts only sound events without unknown fields."""

    topic: Topic
    struct: type[msgspec.Struct]
    fields: tuple[str, ...]
    required: tuple[str, ...]
    phone_fields: tuple[str, ...]
    schema_versions: frozenset[int]


def required_fields(topic: Topic) -> tuple[str, ...]:
    """An invite belongs to its inviter, so its account may be missing."""
    of_all = _REQUIRED_OF_ALL if topic is not INVITE else tuple(n for n in _REQUIRED_OF_ALL if n != "account_id")
    return of_all + _REQUIRED[topic.name]


@cache
def event_type(topic_name: str, schema_versions: tuple[int, ...]) -> EventType:
    """The type of a topic's events; KeyError for a topic that isn't the app's."""
    topic = BY_NAME[topic_name]
    required = required_fields(topic)
    fields = tuple(sorted({*ENVELOPE, *topic.payload}))
    declared: list[Any] = []
    for name in fields:
        kind = _kind(name, topic, schema_versions)
        if name == "event_type":
            declared.append((name, kind, topic.event_type))
        elif name in required:
            declared.append((name, kind))
        else:
            declared.append((name, kind | None, None))
    struct = msgspec.defstruct(
        "".join(part.title() for part in topic.event_type.split("_")),
        declared,
        kw_only=True,
        forbid_unknown_fields=True,
        omit_defaults=True,
        gc=False,
        module=__name__,
    )
    phones = tuple(name for name in fields if name in PHONE_FIELDS)
    return EventType(topic, struct, fields, required, phones, frozenset(schema_versions))


def _kind(name: str, topic: Topic, schema_versions: tuple[int, ...]) -> Any:
    if name == "event_type":
        return Literal[topic.event_type]
    if name == "schema_version":
        return Literal[schema_versions]
    if name in INTEGER_FIELDS:
        return _SIGNED if name in SIGNED_FIELDS else _UNSIGNED
    if name == "slot":
        return str | int
    return _TEXT if name in required_fields(topic) else str


assert set(_REQUIRED) == set(BY_NAME), "every topic says what its events must have"
assert "device_id" in required_fields(LOGIN), "logins are keyed by their device"
