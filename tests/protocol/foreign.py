"""kio's view of the protocol, as the judge of ours: sample entities, their bytes, and their plain content."""

import dataclasses
import datetime
import importlib
import io
import random
import types
import typing
import uuid
from collections.abc import Iterator
from functools import cache

from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer
from kio.static.constants import EntityType

from ottla.protocol.apis import ApiKey, request_class, response_class
from ottla.protocol.message import ZERO_UUID, Message, VersionedMessage
from ottla.protocol.messages import consumer_protocol_assignment, consumer_protocol_subscription

INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


@cache
def all_messages() -> list[tuple[type[VersionedMessage], int, type]]:
    """Every generated message in every version, with kio's class for it."""
    found: list[tuple[type[VersionedMessage], int, type]] = []
    for api_key, schema in api_key_map.items():
        for kind, find in ((EntityType.request, request_class), (EntityType.response, response_class)):
            try:
                ours = find(ApiKey(api_key))
            except ModuleNotFoundError:
                continue
            found += [(ours, version, kio_class(schema, version, kind)) for version in sorted(schema_name_map[schema])]
    data = {
        "consumer_protocol_subscription": consumer_protocol_subscription.ConsumerProtocolSubscription,
        "consumer_protocol_assignment": consumer_protocol_assignment.ConsumerProtocolAssignment,
    }
    for schema, ours_data in data.items():
        found += [
            (ours_data, version, kio_class(schema, version, EntityType.data)) for version in schema_name_map[schema]
        ]
    return found


@cache
def versions_by_message() -> dict[type[VersionedMessage], list[tuple[int, type]]]:
    """The same, by message: a test for each message instead of one for each version keeps pytest's own share small."""
    grouped: dict[type[VersionedMessage], list[tuple[int, type]]] = {}
    for ours, version, theirs in all_messages():
        grouped.setdefault(ours, []).append((version, theirs))
    return grouped


def kio_class(schema: str, version: int, kind: EntityType) -> type:
    module, name = schema_name_map[schema][version][kind].split(":")
    return getattr(importlib.import_module(module), name)


def samples(kio_type: type, count: int) -> Iterator[object]:
    """The emptiest entity, then ever other ones; always the same."""
    yield _sample_entity(kio_type, None)
    for seed in range(count):
        yield _sample_entity(kio_type, random.Random(f"{kio_type.__module__}.{kio_type.__name__}.{seed}"))


def encode(entity: object) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def _sample_entity(kio_type: type, rng: random.Random | None) -> object:
    return kio_type(**{field.name: _sample_field(field, rng) for field in dataclasses.fields(kio_type)})


def _sample_field(field: dataclasses.Field, rng: random.Random | None) -> object:
    annotation, is_nullable = _without_none(field.type)
    kafka_type = field.metadata.get("kafka_type")
    if rng is None or rng.random() < 0.15:
        if field.default is not dataclasses.MISSING:
            return field.default
        if is_nullable:
            return None
    if rng is not None and is_nullable and rng.random() < 0.25 and "tag" not in field.metadata:
        return None
    if typing.get_origin(annotation) is tuple:
        inner, _ = _without_none(typing.get_args(annotation)[0])
        return tuple(_sample_value(inner, kafka_type, rng) for _ in range(rng.randrange(4) if rng else 0))
    return _sample_value(annotation, kafka_type, rng)


def _sample_value(annotation: type, kafka_type: str | None, rng: random.Random | None) -> object:
    if kafka_type is None:
        return _sample_entity(annotation, rng)
    rng = rng or random.Random(0)
    if kafka_type in INT_BITS:
        bits = rng.randrange(1, INT_BITS[kafka_type])
        return annotation(rng.randrange(-(1 << bits), 1 << bits))
    if kafka_type == "error_code":
        return rng.choice(list(ErrorCode))
    if kafka_type.startswith("timedelta"):
        return annotation.parse(datetime.timedelta(milliseconds=rng.randrange(1 << 31)))
    if kafka_type == "datetime_i64":
        return datetime.datetime.fromtimestamp(rng.randrange(1 << 31), tz=datetime.UTC)
    if kafka_type == "uuid":
        return uuid.UUID(bytes=rng.randbytes(16))
    if kafka_type in ("bytes", "records"):
        return rng.randbytes(rng.choice([0, 1, 20, 200]))
    if kafka_type == "string":
        return "".join(rng.choice("aZ9-_.öß語😀") for _ in range(rng.choice([0, 1, 10, 60, 140])))
    return {"bool": rng.random() < 0.5, "uint16": rng.randrange(1 << 16), "float64": rng.random()}[kafka_type]


def assert_same_content(ours: Message, entity: object) -> None:
    """Every field of kio's entity is in ours with the same meaning, and ours has its defaults in all others."""
    seen = set()
    for field in dataclasses.fields(entity):
        kafka_type = field.metadata.get("kafka_type") or ""
        name = field.name + ("_ms" if kafka_type.startswith(("timedelta", "datetime")) else "")
        seen.add(name)
        _assert_same_value(getattr(ours, name), getattr(entity, field.name), kafka_type)
    fresh = type(ours)()
    for spec in ours.FIELDS:
        if spec.name not in seen:
            assert getattr(ours, spec.name) == getattr(fresh, spec.name)


def _assert_same_value(ours: object, theirs: object, kafka_type: str) -> None:
    if isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for our_item, their_item in zip(ours, theirs, strict=True):
            _assert_same_value(our_item, their_item, kafka_type)
    elif dataclasses.is_dataclass(theirs):
        assert_same_content(ours, theirs)
    else:
        assert ours == _plain(theirs, kafka_type)


def _plain(value: object, kafka_type: str) -> object:
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, ErrorCode):
        return value.value
    if value is None:
        return {"uuid": ZERO_UUID, "datetime_i64": -1}.get(kafka_type)
    return value


def _without_none(annotation: typing.Any) -> tuple[typing.Any, bool]:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return next(one for one in typing.get_args(annotation) if one is not type(None)), True
    return annotation, False
