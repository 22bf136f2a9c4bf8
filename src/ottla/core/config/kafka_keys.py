"""Kafka's keys that have no effect here (yet): refused by name, some with a reason.

A key moves from here into `broker_keys.py` or `topic_keys.py` with the code that gives it its effect.
"""

_REASONS = {
    "num.io.threads": "one event loop serves all requests",
    "num.network.threads": "one event loop serves all connections",
    "queued.max.requests": "queued.max.request.bytes bounds what waits",
    "fetch.purgatory.purge.interval.requests": "completed operations leave at once",
    "producer.purgatory.purge.interval.requests": "completed operations leave at once",
    "delete.records.purgatory.purge.interval.requests": "completed operations leave at once",
    "process.roles": "every broker can be the controller",
    "controller.quorum.voters": "the coordination store elects the controller",
    "controller.quorum.bootstrap.servers": "the coordination store elects the controller",
    "controller.listener.names": "the controller talks on the inter-broker listener",
    "security.inter.broker.protocol": "set inter.broker.listener.name",
    "advertised.host.name": "set advertised.listeners",
    "advertised.port": "set advertised.listeners",
    "host.name": "set listeners",
    "port": "set listeners",
    "log.message.timestamp.difference.max.ms": "set log.message.timestamp.before.max.ms and .after.max.ms",
    "log.preallocate": "files grow as they are written",
    "log.cleaner.enable": "compaction is not served so far",
}

_CLUSTER = """
    broker.heartbeat.interval.ms broker.id.generation.enable broker.session.timeout.ms
    config.providers cordoned.log.dirs controller.quorum.auto.join.enable controller.quorum.fetch.max.bytes
    controller.quorum.fetch.snapshot.max.bytes follower.fetch.last.tiered.offset.enable
    control.plane.listener.name
    controller.quorum.append.linger.ms controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
    controller.quorum.retry.backoff.ms early.start.listeners
    initial.broker.registration.timeout.ms inter.broker.protocol.version
    log.dir.failure.timeout.ms metadata.log.dir
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes
    metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms
    num.replica.alter.log.dirs.threads num.replica.fetchers
    replica.selector.class replica.socket.receive.buffer.bytes request.timeout.ms
    reserved.broker.max.id server.max.startup.time.ms socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms zookeeper.connect
    zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests zookeeper.metadata.migration.enable
    zookeeper.session.timeout.ms zookeeper.set.acl
"""

_GROUPS_AND_TRANSACTIONS = """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms group.consumer.assignors
    group.consumer.assignment.interval.ms group.consumer.max.assignment.interval.ms
    group.consumer.min.assignment.interval.ms group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes group.consumer.heartbeat.interval.ms
    group.consumer.max.heartbeat.interval.ms
    group.consumer.max.session.timeout.ms group.consumer.max.size group.consumer.migration.policy
    group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms group.consumer.session.timeout.ms
    group.coordinator.append.linger.ms group.coordinator.rebalance.protocols group.coordinator.threads
    offsets.commit.required.acks share.fetch.purgatory.purge.interval.requests
    transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
    transaction.partition.verification.enable
    transaction.remove.expired.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size
    transaction.state.log.min.isr transaction.state.log.num.partitions transaction.state.log.replication.factor
    transaction.state.log.segment.bytes transaction.two.phase.commit.enable transactional.id.expiration.ms
"""

_LOG = """
    log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
    log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second
    log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms
    log.cleaner.threads log.local.retention.bytes log.local.retention.ms log.message.downconversion.enable
    log.message.format.version
"""

_SECURITY_AND_QUOTAS = """
    allow.everyone.if.no.acl.found alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds authorizer.class.name client.quota.callback.class
    connection.failed.authentication.delay.ms connections.max.reauth.ms controller.quota.window.num
    controller.quota.window.size.seconds create.topic.policy.class.name delegation.token.expiry.check.interval.ms
    delegation.token.expiry.time.ms delegation.token.master.key delegation.token.max.lifetime.ms
    delegation.token.secret.key principal.builder.class quota.window.num quota.window.size.seconds
    replication.quota.window.num replication.quota.window.size.seconds security.providers super.users
"""

_METRICS = """
    auto.include.jmx.reporter kafka.metrics.polling.interval.secs kafka.metrics.reporters metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms telemetry.max.bytes
"""

BROKER_KEYS_NOT_SERVED = {
    **dict.fromkeys((_CLUSTER + _GROUPS_AND_TRANSACTIONS + _LOG + _SECURITY_AND_QUOTAS + _METRICS).split(), ""),
    **_REASONS,
}

# Whole families; no key that is served begins like these.
BROKER_PREFIXES_NOT_SERVED = (
    "group.share.",
    "group.streams.",
    "listener.name.",
    "password.encoder.",
    "remote.",
    "rlmm.config.",
    "rsm.config.",
    "sasl.",
    "share.coordinator.",
    "ssl.",
    "zookeeper.ssl.",
)

_NO_COMPACTION = "compaction is not served so far"
_NO_TIERED_STORAGE = "there is no tiered storage"
_NO_REPLICATION = "one broker holds each partition so far"
_ONE_FORMAT = "records are stored and sent in format v2 only"

TOPIC_KEYS_NOT_SERVED = {
    "delete.retention.ms": _NO_COMPACTION,
    "follower.replication.throttled.replicas": _NO_REPLICATION,
    "leader.replication.throttled.replicas": _NO_REPLICATION,
    "local.retention.bytes": _NO_TIERED_STORAGE,
    "local.retention.ms": _NO_TIERED_STORAGE,
    "max.compaction.lag.ms": _NO_COMPACTION,
    "message.downconversion.enable": _ONE_FORMAT,
    "message.format.version": _ONE_FORMAT,
    "message.timestamp.difference.max.ms": "set message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    "min.cleanable.dirty.ratio": _NO_COMPACTION,
    "min.compaction.lag.ms": _NO_COMPACTION,
    "preallocate": "files grow as they are written",
    "remote.log.copy.disable": _NO_TIERED_STORAGE,
    "remote.log.delete.on.disable": _NO_TIERED_STORAGE,
    "remote.storage.enable": _NO_TIERED_STORAGE,
}
