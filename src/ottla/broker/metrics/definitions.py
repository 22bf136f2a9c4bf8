"""Every metric that a broker gives: its name, its kind, what it says, its labels, and what Kafka calls the same thing.

The exporter takes names and texts from here, docs/metrics.md is made from it, and tests hold the Grafana board to it.
"""

from typing import Final, NamedTuple

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"


class Metric(NamedTuple):
    """One family. A counter's `name` is without `_total`, which its samples have; see `sample_name`."""

    name: str
    kind: str
    doc: str
    labels: tuple[str, ...] = ()
    jmx: str = ""  # the nearest thing that Kafka has over JMX; empty when there is none

    @property
    def sample_name(self) -> str:
        return f"{self.name}_total" if self.kind == COUNTER else self.name


_REQUEST = "kafka.network:type=RequestMetrics"
_SERVER = "kafka.server:type"
_TOPIC = "kafka.server:type=BrokerTopicMetrics"
_LOG = "kafka.log:type=Log"
_GROUP = "kafka.coordinator.group:type=GroupMetadataManager"
_SOCKET = "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*"

# Requests
REQUESTS = Metric(
    "ottla_requests",
    COUNTER,
    "Requests that were started, with any outcome.",
    ("api",),
    f"{_REQUEST},name=RequestsPerSec,request=*",
)
REQUEST_DURATION = Metric(
    "ottla_request_duration_seconds",
    HISTOGRAM,
    "Time from a request that is read to its answer, including waits: a fetch that waits for records "
    "counts with its wait.",
    ("api",),
    f"{_REQUEST},name=TotalTimeMs,request=*",
)
REQUESTS_IN_FLIGHT = Metric(
    "ottla_requests_in_flight",
    GAUGE,
    "Requests that wait for their answer now.",
    ("api",),
    "kafka.network:type=RequestChannel,name=RequestQueueSize",
)
REQUEST_ERRORS = Metric(
    "ottla_request_errors",
    COUNTER,
    "Error codes in answers, by the code's official name; an answer about several partitions can carry several.",
    ("api", "error"),
    f"{_REQUEST},name=ErrorsPerSec,request=*,error=*",
)
REQUESTS_ABANDONED = Metric(
    "ottla_requests_abandoned", COUNTER, "Requests whose client disconnected before the answer.", ("api",)
)
REQUESTS_FAILED = Metric(
    "ottla_requests_failed",
    COUNTER,
    "Requests whose connection was closed instead of an answer: the client broke the protocol, or a handler failed.",
    ("api",),
    f"{_TOPIC},name=FailedProduceRequestsPerSec and name=FailedFetchRequestsPerSec",
)
FETCH_SESSIONS = Metric(
    "ottla_fetch_sessions",
    GAUGE,
    "Incremental fetch sessions that are kept.",
    (),
    "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
)
FETCH_SESSION_PARTITIONS = Metric(
    "ottla_fetch_session_partitions",
    GAUGE,
    "Partitions in incremental fetch sessions, over all of them.",
    (),
    "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
)
FETCH_SESSION_EVICTIONS = Metric(
    "ottla_fetch_session_evictions",
    COUNTER,
    "Incremental fetch sessions that had to make room for others.",
    (),
    "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
)
PURGATORY = Metric(
    "ottla_purgatory_operations",
    GAUGE,
    "Operations that wait for an event or their timeout, by purgatory.",
    ("purgatory",),
    f"{_SERVER}=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=*",
)
TIMERS = Metric("ottla_timers", GAUGE, "Tasks in the timing wheel.")

# Network
BYTES_RECEIVED = Metric(
    "ottla_network_received_bytes", COUNTER, "Bytes read from clients.", (), f"{_SOCKET} incoming-byte-total"
)
BYTES_SENT = Metric("ottla_network_sent_bytes", COUNTER, "Bytes sent to clients.", (), f"{_SOCKET} outgoing-byte-total")
CONNECTIONS = Metric("ottla_connections", GAUGE, "Open connections.", (), f"{_SOCKET} connection-count")
CONNECTIONS_ACCEPTED = Metric(
    "ottla_connections_accepted", COUNTER, "Connections that were accepted.", (), f"{_SOCKET} connection-creation-total"
)
CONNECTIONS_CLOSED = Metric(
    "ottla_connections_closed",
    COUNTER,
    "Connections that were closed, by the reason.",
    ("reason",),
    f"{_SOCKET} connection-close-total",
)
CONNECTIONS_REFUSED = Metric(
    "ottla_connections_refused",
    COUNTER,
    "Times that a new connection was refused or had to wait, by the limit that was reached.",
    ("limit",),
)
REQUEST_MEMORY = Metric(
    "ottla_request_memory_bytes",
    GAUGE,
    "Memory held by requests that are being read or wait to be started.",
    (),
    "kafka.network:type=SocketServer,name=MemoryPoolUsed",
)
REQUEST_MEMORY_LIMIT = Metric(
    "ottla_request_memory_limit_bytes",
    GAUGE,
    "The bound on it (`queued.max.request.bytes`).",
    (),
    "kafka.network:type=SocketServer,name=MemoryPoolAvailable",
)
MEMORY_WAITERS = Metric(
    "ottla_connections_waiting_for_memory", GAUGE, "Connections whose next request waits for that memory."
)
RETAINED_BUFFERS = Metric("ottla_retained_buffer_bytes", GAUGE, "Memory kept for requests to come.")
COLD_READS = Metric("ottla_cold_reads", COUNTER, "Reads of records that were not in the page cache, done on a thread.")

# Topics and partitions
TOPICS = Metric("ottla_topics", GAUGE, "Topics.", (), "kafka.controller:type=KafkaController,name=GlobalTopicCount")
TOPIC_MESSAGES_IN = Metric(
    "ottla_topic_messages_in",
    COUNTER,
    "Messages appended since the start.",
    ("topic",),
    f"{_TOPIC},name=MessagesInPerSec,topic=*",
)
TOPIC_BYTES_IN = Metric(
    "ottla_topic_bytes_in",
    COUNTER,
    "Bytes of batches appended since the start, as they lie in the log.",
    ("topic",),
    f"{_TOPIC},name=BytesInPerSec,topic=*",
)
TOPIC_BYTES_OUT = Metric(
    "ottla_topic_bytes_out",
    COUNTER,
    "Bytes of batches that fetches were answered with since the start.",
    ("topic",),
    f"{_TOPIC},name=BytesOutPerSec,topic=*",
)
TOPIC_PARTITIONS = Metric("ottla_topic_partitions", GAUGE, "Partitions of the topic on this broker.", ("topic",))
TOPIC_SIZE = Metric("ottla_topic_size_bytes", GAUGE, "Size of the topic's logs on this broker.", ("topic",))
PARTITION_END = Metric(
    "ottla_partition_log_end_offset",
    GAUGE,
    "The offset that the next message gets.",
    ("topic", "partition"),
    f"{_LOG},name=LogEndOffset,topic=*,partition=*",
)
PARTITION_START = Metric(
    "ottla_partition_log_start_offset",
    GAUGE,
    "The first offset that can be read.",
    ("topic", "partition"),
    f"{_LOG},name=LogStartOffset,topic=*,partition=*",
)
PARTITION_HIGH_WATERMARK = Metric(
    "ottla_partition_high_watermark",
    GAUGE,
    "The end of what consumers may read.",
    ("topic", "partition"),
)
PARTITION_SIZE = Metric(
    "ottla_partition_size_bytes",
    GAUGE,
    "Size of the log.",
    ("topic", "partition"),
    f"{_LOG},name=Size,topic=*,partition=*",
)
PARTITIONS = Metric(
    "ottla_partitions",
    GAUGE,
    "Partitions with a replica on this broker.",
    (),
    f"{_SERVER}=ReplicaManager,name=PartitionCount",
)
LEADER_PARTITIONS = Metric(
    "ottla_leader_partitions",
    GAUGE,
    "Those of them that this broker leads.",
    (),
    f"{_SERVER}=ReplicaManager,name=LeaderCount",
)
OFFLINE_PARTITIONS = Metric(
    "ottla_offline_partitions",
    GAUGE,
    "Those whose log directory failed: answered with a storage error.",
    (),
    f"{_SERVER}=ReplicaManager,name=OfflineReplicaCount",
)
UNDER_REPLICATED = Metric(
    "ottla_under_replicated_partitions",
    GAUGE,
    "Led here, with fewer replicas in sync than there are.",
    (),
    f"{_SERVER}=ReplicaManager,name=UnderReplicatedPartitions",
)
UNDER_MIN_ISR = Metric(
    "ottla_under_min_isr_partitions",
    GAUGE,
    "Led here, with fewer replicas in sync than `min.insync.replicas`: acks=all is refused.",
    (),
    f"{_SERVER}=ReplicaManager,name=UnderMinIsrPartitionCount",
)

# Log directories
LOG_DIRECTORIES = Metric(
    "ottla_log_directories",
    GAUGE,
    "Log directories, by state (online, offline).",
    ("state",),
    "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
)
LOG_DIRECTORY_SIZE = Metric(
    "ottla_log_directory_size_bytes", GAUGE, "Size of the logs in a directory that works.", ("directory",)
)
LOG_DIRECTORY_PARTITIONS = Metric(
    "ottla_log_directory_partitions", GAUGE, "Logs in a directory that works.", ("directory",)
)
LOG_SEGMENTS = Metric(
    "ottla_log_segments", GAUGE, "Segments of all logs.", (), f"{_LOG},name=NumLogSegments,topic=*,partition=*"
)
LOG_FLUSH_DURATION = Metric(
    "ottla_log_flush_duration_seconds",
    HISTOGRAM,
    "Time of a log's fsync on its thread.",
    (),
    "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
)
LOG_FLUSH_FAILURES = Metric(
    "ottla_log_flush_failures", COUNTER, "Fsyncs that failed; the log directory goes offline with the first."
)

# Groups
GROUPS = Metric("ottla_groups", GAUGE, "Groups by state.", ("state",), f"{_GROUP},name=NumGroups*")
GROUP_OFFSETS = Metric(
    "ottla_group_offsets", GAUGE, "Committed offsets that are kept.", (), f"{_GROUP},name=NumOffsets"
)
GROUP_REBALANCES = Metric(
    "ottla_group_rebalances",
    COUNTER,
    "Rebalances that were completed.",
    (),
    "kafka.server:type=group-coordinator-metrics group-completed-rebalance-count",
)

# The broker and its process
BROKER_STATE = Metric(
    "ottla_broker_state",
    GAUGE,
    "0 not running, 1 starting, 2 recovering, 3 running, 4 running as controller, 7 shutting down.",
    (),
    f"{_SERVER}=KafkaServer,name=BrokerState",
)
BROKER_INFO = Metric(
    "ottla_broker_info",
    GAUGE,
    "Always 1; its labels say who this is.",
    ("broker_id", "cluster_id"),
    f"{_SERVER}=KafkaServer,name=ClusterId",
)
BUILD_INFO = Metric(
    "ottla_build_info",
    GAUGE,
    "Always 1; its labels say what runs here.",
    ("version", "python"),
    "kafka.server:type=app-info",
)
UPTIME = Metric("ottla_uptime_seconds", GAUGE, "Time since the start began.")
ACTIVE_CONTROLLER = Metric(
    "ottla_active_controller",
    GAUGE,
    "1 on the controller of the cluster, else 0.",
    (),
    "kafka.controller:type=KafkaController,name=ActiveControllerCount",
)
LOOP_LAG = Metric(
    "ottla_event_loop_lag_seconds",
    HISTOGRAM,
    "How much later than planned a timer of the event loop ran, looked at once a second: how long a request had to "
    "wait before anything was done for it.",
    (),
    f"{_SERVER}=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
)
SCRAPE_LOOP_WAIT = Metric(
    "ottla_scrape_loop_wait_seconds", GAUGE, "How long this very scrape waited until the event loop took it up."
)
SCRAPE_LOOP_TIME = Metric(
    "ottla_scrape_loop_seconds", GAUGE, "Time that this very scrape took from the event loop, in small pieces."
)
STORE_OPERATIONS = Metric(
    "ottla_store_operations",
    COUNTER,
    "Answers of the coordination store, by operation and result.",
    ("operation", "result"),
)
STORE_DURATION = Metric(
    "ottla_store_operation_duration_seconds",
    HISTOGRAM,
    "Time from an operation on the coordination store to its answer.",
    ("operation",),
    "kafka.server:type=ZooKeeperClientMetrics,name=ZooKeeperRequestLatencyMs",
)

SECTIONS: Final = (
    (
        "Requests",
        (
            *(REQUESTS, REQUEST_DURATION, REQUESTS_IN_FLIGHT, REQUEST_ERRORS, REQUESTS_ABANDONED, REQUESTS_FAILED),
            *(FETCH_SESSIONS, FETCH_SESSION_PARTITIONS, FETCH_SESSION_EVICTIONS, PURGATORY, TIMERS),
        ),
    ),
    (
        "Network",
        (
            *(BYTES_RECEIVED, BYTES_SENT, CONNECTIONS, CONNECTIONS_ACCEPTED, CONNECTIONS_CLOSED, CONNECTIONS_REFUSED),
            *(REQUEST_MEMORY, REQUEST_MEMORY_LIMIT, MEMORY_WAITERS, RETAINED_BUFFERS, COLD_READS),
        ),
    ),
    (
        "Topics",
        (TOPICS, TOPIC_MESSAGES_IN, TOPIC_BYTES_IN, TOPIC_BYTES_OUT, TOPIC_PARTITIONS, TOPIC_SIZE),
    ),
    (
        "Partitions",
        (
            *(PARTITION_END, PARTITION_START, PARTITION_HIGH_WATERMARK, PARTITION_SIZE),
            *(PARTITIONS, LEADER_PARTITIONS, OFFLINE_PARTITIONS, UNDER_REPLICATED, UNDER_MIN_ISR),
        ),
    ),
    (
        "Log directories",
        (
            *(LOG_DIRECTORIES, LOG_DIRECTORY_SIZE, LOG_DIRECTORY_PARTITIONS, LOG_SEGMENTS),
            *(LOG_FLUSH_DURATION, LOG_FLUSH_FAILURES),
        ),
    ),
    ("Groups", (GROUPS, GROUP_OFFSETS, GROUP_REBALANCES)),
    (
        "Broker",
        (
            *(BROKER_STATE, BROKER_INFO, BUILD_INFO, UPTIME, ACTIVE_CONTROLLER),
            *(LOOP_LAG, SCRAPE_LOOP_WAIT, SCRAPE_LOOP_TIME, STORE_OPERATIONS, STORE_DURATION),
        ),
    ),
)

METRICS: Final = tuple(metric for _, metrics in SECTIONS for metric in metrics)

# What the prometheus-client package itself reports about a process and its interpreter, under the names that every
# Python service has.
PROCESS_METRICS: Final = (
    Metric("process_virtual_memory_bytes", GAUGE, "Virtual memory size."),
    Metric("process_resident_memory_bytes", GAUGE, "Resident memory size.", (), "java.lang:type=Memory (heap only)"),
    Metric("process_start_time_seconds", GAUGE, "Start of the process since the epoch."),
    Metric(
        "process_cpu_seconds", COUNTER, "User and system CPU time.", (), "java.lang:type=OperatingSystem ProcessCpuTime"
    ),
    Metric("process_open_fds", GAUGE, "Open files.", (), "java.lang:type=OperatingSystem OpenFileDescriptorCount"),
    Metric(
        "process_max_fds",
        GAUGE,
        "The limit of open files.",
        (),
        "java.lang:type=OperatingSystem MaxFileDescriptorCount",
    ),
    Metric("python_gc_objects_collected", COUNTER, "Objects that the garbage collector freed.", ("generation",)),
    Metric("python_gc_objects_uncollectable", COUNTER, "Objects that it could not free.", ("generation",)),
    Metric(
        "python_gc_collections",
        COUNTER,
        "Its runs.",
        ("generation",),
        "java.lang:type=GarbageCollector CollectionCount",
    ),
)
