"""The APIs of the protocol: their keys, since when each is flexible, and the classes of their messages.

Which of them a broker serves, and in which versions, is the broker's to say.
"""

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Final

from ottla.protocol.message import NEVER_FLEXIBLE, ApiMessage


class ApiKey(IntEnum):
    """All keys that Kafka has given out, by their official names."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


# By API key: the first version with compact lengths, tagged fields and the longer request header.
FLEXIBLE_SINCE: Final = (
    *(9, 12, 6, 9, 0, 0, 0, 0, 8, 6),  # Produce ... OffsetFetch; 4 to 7 have schemas of our own
    *(3, 6, 4, 4, 4, 5, 3, NEVER_FLEXIBLE, 3, 5),  # FindCoordinator ... CreateTopics
    *(4, 2, 2, 4, 3, 3, 3, 1, 3, 2),  # DeleteTopics ... DescribeAcls
    *(2, 2, 4, 2, 2, 2, 2, 2, 2, 2),  # CreateAcls ... RenewDelegationToken
    *(2, 2, 2, 2, 1, 0, 0, NEVER_FLEXIBLE, 1, 1),  # ExpireDelegationToken ... AlterClientQuotas
    *(0, 0, 0, 1, 1, 0, 0, 0, 0, 0),  # DescribeUserScramCredentials ... FetchSnapshot
    *(0,) * (max(ApiKey) + 1 - 60),  # the younger ones all from their start
)


def request_class(api_key: int) -> type[ApiMessage]:
    """The class of an API's request; its module is imported with the first use."""
    return _message_class(api_key, "Request")


def response_class(api_key: int) -> type[ApiMessage]:
    """The class of an API's response; its module is imported with the first use."""
    return _message_class(api_key, "Response")


@cache
def _message_class(api_key: int, suffix: str) -> type[ApiMessage]:
    name = ApiKey(api_key).name
    is_own = ApiKey.LEADER_AND_ISR <= api_key <= ApiKey.CONTROLLED_SHUTDOWN  # Kafka 4 has no schemas of them any more
    module = import_module("ottla.protocol.control_messages" if is_own else f"ottla.protocol.messages.{name.lower()}")
    message_class: type[ApiMessage] = getattr(module, name.replace("_", " ").title().replace(" ", "") + suffix)
    return message_class
