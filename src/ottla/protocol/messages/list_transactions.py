"""ListTransactions, API key 66.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class ListTransactionsRequest(ApiMessage):
    __slots__ = ("duration_filter", "producer_id_filters", "state_filters", "transactional_id_pattern")

    API_KEY = 66
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The transaction states to filter by: if empty, all transactions are returned; if non-empty, then only
        # transactions matching one of the filtered states will be returned.
        Field("state_filters", "[]string", (0, 2)),
        # The producerIds to filter by: if empty, all transactions will be returned; if non-empty, only
        # transactions which match one of the filtered producerIds will be returned.
        Field("producer_id_filters", "[]int64", (0, 2)),
        # Duration (in millis) to filter by: if < 0, all transactions will be returned; otherwise, only
        # transactions running longer than this duration will be returned.
        Field("duration_filter", "int64", (1, 2), default=-1),
        # The transactional ID regular expression pattern to filter by: if it is empty or null, all transactions
        # are returned; Otherwise then only the transactions matching the given regular expression will be
        # returned.
        Field("transactional_id_pattern", "string", (2, 2), nullable_versions=(2, 2)),
    )

    def __init__(
        self,
        *,
        state_filters: list[str] | None = None,
        producer_id_filters: list[int] | None = None,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = [] if state_filters is None else state_filters
        self.producer_id_filters = [] if producer_id_filters is None else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern


class TransactionState(Message):
    __slots__ = ("producer_id", "transaction_state", "transactional_id")

    FIELDS = (
        # The transactional id.
        Field("transactional_id", "string", (0, 2), default=""),
        # The producer id.
        Field("producer_id", "int64", (0, 2), default=0),
        # The current transaction state of the producer.
        Field("transaction_state", "string", (0, 2), default=""),
    )

    def __init__(self, *, transactional_id: str = "", producer_id: int = 0, transaction_state: str = "") -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state


class ListTransactionsResponse(ApiMessage):
    __slots__ = ("error_code", "throttle_time_ms", "transaction_states", "unknown_state_filters")

    API_KEY = 66
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 2), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 2), default=0),
        # Set of state filters provided in the request which were unknown to the transaction coordinator.
        Field("unknown_state_filters", "[]string", (0, 2)),
        # The current state of the transaction for the transactional id.
        Field("transaction_states", "[]struct", (0, 2), struct=TransactionState),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] | None = None,
        transaction_states: list[TransactionState] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = [] if unknown_state_filters is None else unknown_state_filters
        self.transaction_states = [] if transaction_states is None else transaction_states
