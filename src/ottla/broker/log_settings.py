"""From configuration to what other rooms take as plain values: a topic's log settings, the network's limits."""

from ottla.core.config.config import BrokerConfig, TopicConfig
from ottla.net.limits import NetworkLimits
from ottla.records.kernel import IS_COMPILED
from ottla.storage.log_config import LogConfig


def log_config_of(config: TopicConfig) -> LogConfig:
    """The settings of a topic's logs."""
    policies = config.get_list("cleanup.policy")
    return LogConfig(
        segment_bytes=config.get_int("segment.bytes"),
        segment_ms=config.get_int("segment.ms"),
        segment_jitter_ms=config.get_int("segment.jitter.ms"),
        segment_index_bytes=config.get_int("segment.index.bytes"),
        index_interval_bytes=config.get_int("index.interval.bytes"),
        retention_ms=config.get_int("retention.ms"),
        retention_bytes=config.get_int("retention.bytes"),
        max_message_bytes=config.get_int("max.message.bytes"),
        flush_messages=config.get_int("flush.messages"),
        flush_ms=config.get_int("flush.ms"),
        file_delete_delay_ms=config.get_int("file.delete.delay.ms"),
        message_timestamp_type=config.get_str("message.timestamp.type"),
        message_timestamp_before_max_ms=config.get_int("message.timestamp.before.max.ms"),
        message_timestamp_after_max_ms=config.get_int("message.timestamp.after.max.ms"),
        compact="compact" in policies,
        delete="delete" in policies,
        compression_type=config.get_str("compression.type"),
        compression_gzip_level=config.get_int("compression.gzip.level"),
        compression_lz4_level=config.get_int("compression.lz4.level"),
        compression_zstd_level=config.get_int("compression.zstd.level"),
        min_insync_replicas=config.get_int("min.insync.replicas"),
        walks_records=walks_records(config.broker),
    )


def walks_records(config: BrokerConfig) -> bool:
    """Whether every produced batch is walked through: with the C kernel that costs next to nothing."""
    mode = config.get_str("ottla.produce.validate.records")
    return IS_COMPILED if mode == "kernel" else mode == "always"


def network_limits_of(config: BrokerConfig) -> NetworkLimits:
    """The limits that the network enforces."""
    return NetworkLimits(
        socket_request_max_bytes=config.get_int("socket.request.max.bytes"),
        queued_max_request_bytes=config.get_int("queued.max.request.bytes"),
        max_connections=config.get_int("max.connections"),
        max_connections_per_ip=config.get_int("max.connections.per.ip"),
        max_connections_per_ip_overrides=config.connection_limit_by_address(),
        max_connection_creation_rate=config.get_int("max.connection.creation.rate"),
        connections_max_idle_ms=config.get_int("connections.max.idle.ms"),
        frame_deadline_ms=config.get_int("ottla.frame.deadline.ms"),
        socket_listen_backlog_size=config.get_int("socket.listen.backlog.size"),
        socket_send_buffer_bytes=config.get_int("socket.send.buffer.bytes"),
        socket_receive_buffer_bytes=config.get_int("socket.receive.buffer.bytes"),
    )
