"""The response that refuses a whole request: with the error at the top, or at everything that the request names.

Which of the two depends on the API and its version. Topics, partitions and groups in the response come from the
request, so no broker is needed.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ottla.core.errors import ErrorCode
from ottla.protocol.apis import ApiKey, request_class, response_class
from ottla.protocol.codec import decode, encode_response
from ottla.protocol.frames import RequestHeader
from ottla.protocol.message import ApiMessage, Message
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from ottla.protocol.primitives import Reader

# These are at the top of a Fetch response; all others at the partitions.
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
_FIRST_SESSION_VERSION: Final = 7
_NEW_SESSION_EPOCHS: Final = (0, -1)


class BrokerIdentity(NamedTuple):
    """The broker in a Metadata response, besides the error."""

    broker_id: int
    cluster_id: str
    host: str
    port: int


class _Items(NamedTuple):
    """How an array of a request comes back in its response.

    `same` are the fields that identify an item: equal names, or `asked>answered`; `>answered` for items that are plain
    values. `asked` may be an array within an array (`dirs.topics`). The innermost items carry the error.
    """

    asked: str
    answered: str
    same: tuple[str, ...]
    inside: "_Items | None" = None
    error_field: str = "error_code"
    unknown: tuple[tuple[str, object], ...] = ()  # for errors that need more than their code


_TOPIC: Final = ("name", "topic_id")
_RESOURCE: Final = ("resource_type", "resource_name")
_PARTITIONS: Final = _Items("partitions", "partitions", ("partition_index",))
_NUMBERS: Final = _Items("partition_indexes", "partitions", (">partition_index",))
_UNREAD: Final = (("high_watermark", -1), ("records", b""))

# By API: everything that can't carry an error at its top in some version.
_ITEMS: Final[dict[ApiKey, tuple[_Items, ...]]] = {
    ApiKey.PRODUCE: (
        _Items(
            "topic_data",
            "responses",
            _TOPIC,
            _Items("partition_data", "partition_responses", ("index",), unknown=(("base_offset", -1),)),
        ),
    ),
    ApiKey.FETCH: (
        _Items(
            "topics",
            "responses",
            ("topic", "topic_id"),
            _Items("partitions", "partitions", ("partition>partition_index",), unknown=_UNREAD),
        ),
    ),
    ApiKey.LIST_OFFSETS: (_Items("topics", "topics", _TOPIC, _PARTITIONS),),
    ApiKey.METADATA: (_Items("topics", "topics", _TOPIC),),
    ApiKey.OFFSET_COMMIT: (_Items("topics", "topics", _TOPIC, _PARTITIONS),),
    ApiKey.OFFSET_FETCH: (
        _Items("groups", "groups", ("group_id",)),
        _Items("topics", "topics", _TOPIC, _NUMBERS),
    ),
    ApiKey.FIND_COORDINATOR: (
        _Items("coordinator_keys", "coordinators", (">key",), unknown=(("node_id", -1), ("port", -1))),
    ),
    ApiKey.DESCRIBE_GROUPS: (_Items("groups", "groups", (">group_id",)),),
    ApiKey.CREATE_TOPICS: (_Items("topics", "topics", ("name",)),),
    ApiKey.DELETE_TOPICS: (
        _Items("topics", "responses", _TOPIC),
        _Items("topic_names", "responses", (">name",)),
    ),
    ApiKey.DELETE_RECORDS: (_Items("topics", "topics", _TOPIC, _PARTITIONS),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        _Items("topics", "topics", ("topic",), _Items("partitions", "partitions", ("partition",))),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _Items(
            "v3_and_below_topics",
            "results_by_topic_v3_and_below",
            ("name",),
            _Items("partitions", "results_by_partition", (">partition_index",), error_field="partition_error_code"),
        ),
    ),
    ApiKey.WRITE_TXN_MARKERS: (
        _Items("markers", "markers", ("producer_id",), _Items("topics", "topics", ("name",), _NUMBERS)),
    ),
    ApiKey.TXN_OFFSET_COMMIT: (_Items("topics", "topics", _TOPIC, _PARTITIONS),),
    ApiKey.CREATE_ACLS: (_Items("creations", "results", ()),),
    ApiKey.DELETE_ACLS: (_Items("filters", "filter_results", ()),),
    ApiKey.DESCRIBE_CONFIGS: (_Items("resources", "results", _RESOURCE),),
    ApiKey.ALTER_CONFIGS: (_Items("resources", "responses", _RESOURCE),),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (
        _Items(
            "dirs.topics",
            "results",
            ("name>topic_name",),
            _Items("partitions", "partitions", (">partition_index",)),
        ),
    ),
    ApiKey.CREATE_PARTITIONS: (_Items("topics", "results", ("name",)),),
    ApiKey.DELETE_GROUPS: (_Items("groups_names", "results", (">group_id",)),),
    ApiKey.ELECT_LEADERS: (
        _Items(
            "topic_partitions",
            "replica_election_results",
            ("topic",),
            _Items("partitions", "partition_result", (">partition_id",)),
        ),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (_Items("resources", "responses", _RESOURCE),),
    ApiKey.ALTER_CLIENT_QUOTAS: (_Items("entries", "entries", ()),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
        _Items("deletions", "results", ("name>user",)),
        _Items("upsertions", "results", ("name>user",)),
    ),
    ApiKey.DESCRIBE_PRODUCERS: (_Items("topics", "topics", ("name",), _NUMBERS),),
    ApiKey.DESCRIBE_TRANSACTIONS: (_Items("transactional_ids", "transaction_states", (">transactional_id",)),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (_Items("group_ids", "groups", (">group_id",)),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_Items("topics", "topics", ("name",)),),
}
# Here the top is for something else, so the items come first.
_ITEMS_FIRST: Final = frozenset({ApiKey.FETCH, ApiKey.METADATA})
_UNKNOWN_AT_THE_TOP: Final[dict[ApiKey, tuple[tuple[str, object], ...]]] = {
    ApiKey.FIND_COORDINATOR: (("node_id", -1), ("port", -1)),
    ApiKey.JOIN_GROUP: (("generation_id", -1),),
}


def read_request(header: RequestHeader, frame: memoryview) -> ApiMessage:
    """The request of a frame without its size; ProtocolViolation if we don't know it."""
    message_class = request_class(header.api_key)
    return decode(message_class, header.api_version, Reader(frame, header.body_position))


def continues_fetch_session(request: ApiMessage, version: int) -> bool:
    """A Fetch that leaves out the partitions it has named before: the response can't have an error for each."""
    if request.API_KEY != ApiKey.FETCH or version < _FIRST_SESSION_VERSION:
        return False
    epoch: int = request.session_epoch  # type: ignore[attr-defined]  # a Fetch has it
    return epoch not in _NEW_SESSION_EPOCHS


def error_answer(
    request: ApiMessage, header: RequestHeader, error: ErrorCode, identity: BrokerIdentity
) -> bytes | None:
    """A whole frame; None if the response to this request has no field for an error, as when it names no topic."""
    response = build_error_response(request, header.api_version, error, identity)
    return None if response is None else encode_response(response, header.api_version, header.correlation_id)


def build_error_response(
    request: ApiMessage, version: int, error: ErrorCode, identity: BrokerIdentity
) -> ApiMessage | None:
    api_key = ApiKey(request.API_KEY)
    response = response_class(api_key)()
    has_top = any(field.name == "error_code" and field.is_in(version) for field in response.FIELDS)
    if isinstance(response, MetadataResponse):
        response.brokers = [MetadataResponseBroker(node_id=identity.broker_id, host=identity.host, port=identity.port)]
        response.cluster_id = identity.cluster_id
        response.controller_id = identity.broker_id
    if has_top and api_key not in _ITEMS_FIRST:
        return _at_the_top(api_key, response, error)
    if api_key == ApiKey.FETCH and has_top and error in _SESSION_ERRORS:
        return _at_the_top(api_key, response, error)
    has_error = [_mirror(items, request, response, version, error) for items in _ITEMS.get(api_key, ())]
    if any(has_error):
        return response
    if has_top:
        return _at_the_top(api_key, response, error)
    return None


def _at_the_top(api_key: ApiKey, response: ApiMessage, error: ErrorCode) -> ApiMessage:
    response.error_code = error.value  # type: ignore[attr-defined]  # the caller has seen that it is there
    _fill(response, _UNKNOWN_AT_THE_TOP.get(api_key, ()))
    return response


def _mirror(items: _Items, request: Message, response: Message, version: int, error: ErrorCode) -> bool:
    """Add to the response what the request names; returns whether it has an error."""
    outer, _, inner = items.asked.partition(".")
    asked_field = next((field for field in request.FIELDS if field.name == outer), None)
    answer_field = next(field for field in response.FIELDS if field.name == items.answered)
    if asked_field is None or not asked_field.is_in(version) or not answer_field.is_in(version):
        return False
    assert answer_field.struct is not None
    asked: Iterable[Any] = getattr(request, outer) or ()
    if inner:
        asked = [item for group in asked for item in getattr(group, inner)]
    answered: list[Message] = getattr(response, items.answered)
    was_told = False
    for item in asked:
        answer = answer_field.struct()
        for names in items.same:
            source, _, target = names.rpartition(">")
            is_plain = names.startswith(">")
            if is_plain or hasattr(item, source or target):
                setattr(answer, target, item if is_plain else getattr(item, source or target))
        if items.inside is not None:
            was_told |= _mirror(items.inside, item, answer, version, error)
        else:
            setattr(answer, items.error_field, error.value)
            _fill(answer, items.unknown)
            was_told = True
        answered.append(answer)
    return was_told


def _fill(answer: Message, values: Iterable[tuple[str, object]]) -> None:
    for name, value in values:
        setattr(answer, name, value)
