"""Everything of a broker but sockets, threads, signals and real files: starts the rooms in Kafka's order, wires them,
and stops them in the reverse order.

It reaches the world through its ports only, so it does the same again on the same ports: N cores live in one process
on a scheduler of the test's own. A step that was started puts its undoing on one stack: a failure on the way and a
clean stop both unwind it.
"""

import logging
from collections.abc import Collection
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.advertising import advertised_endpoints, derived_configs, registration_of
from ottla.broker.api import Dispatcher
from ottla.broker.cluster_join import ClusterJoin, StoreFailed
from ottla.broker.config_effects import ConfigEffects
from ottla.broker.controlling import DirectLink, make_controller
from ottla.broker.handlers.served import Handlers
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.local_topics import LocalTopics
from ottla.broker.log_settings import network_limits_of
from ottla.broker.log_start import load_logs
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.ports import BrokerPorts
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.registration import Registration
from ottla.broker.states import BrokerState
from ottla.broker.steps import Answer, Running, ask, on_thread
from ottla.broker.stored_configs import log_unusable_topic_configs, read_broker_configs, with_stored
from ottla.broker.timers import Timers
from ottla.broker.topic_creation import TopicCreation
from ottla.controller.ports import ControlLink
from ottla.controller.state import StoredBrokerConfigs
from ottla.controller.term import Alone
from ottla.controller.tree_loader import TreeError, TreeLoader
from ottla.core.clock import Background
from ottla.core.cluster import OFFSETS_TOPIC, BrokerInfo, TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.config.current import CurrentConfig
from ottla.core.config.listeners import Listener
from ottla.core.types import NO_BROKER_EPOCH, BrokerEpoch, ControllerEpoch, LeaderEpoch, Offset, TopicPartition
from ottla.purgatory.purgatory import Purgatory
from ottla.replication.ports import ALONE
from ottla.replication.replicas import Replicas, Waiting
from ottla.storage.flush import Flusher
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager
from ottla.storage.logs_by_dir import topic_partition_of
from ottla.storage.meta_properties import MetaProperties
from ottla.storage.start_note import StartNote

if TYPE_CHECKING:
    from ottla.broker.group_coordination import GroupCoordination
    from ottla.broker.membership import Membership
    from ottla.broker.metrics.snapshot import Sources

_LOG = logging.getLogger("ottla.broker")

_DRAIN_MS = 5_000
# Kafka's: a dead broker's session in the store ends after that, and with it the registration of its id.
_SESSION_TIMEOUT_MS = 18_000
_LOSS_OF_ONE = "the machine went down without a clean stop; what was not fsynced is lost, and the rest is led on"


class BrokerCore:
    """One broker. `start` once, `stop` once, also after a start that failed; both are run by `steps.Running`.

    Its rooms are public for those who look at a broker from outside: metrics, tests, a simulation.
    """

    def __init__(self, config: BrokerConfig, ports: BrokerPorts, metrics: "Sources | None" = None) -> None:
        self.config = config
        self._ports = ports
        self._metrics = metrics
        self._started = AsyncExitStack()
        self.broker_id = config.get_int("broker.id")
        self.cluster_id = ""
        self.address = ""
        self.state = BrokerState.NOT_RUNNING
        self.is_accepting = False
        self.fatal_reason: str | None = None  # why the broker can't go on; None while it can
        self._waiting: Waiting | None = None
        self._groups: GroupCoordination | None = None
        self._membership: Membership | None = None  # None: this broker is alone
        self._first_election: Answer[str | None] | None = None  # of a broker alone, while its start waits for it
        self._last_epoch: BrokerEpoch = NO_BROKER_EPOCH  # that of the last registration, in this life or before it

    async def start(self) -> None:
        """Clients are served when this returns."""
        self.state = BrokerState.STARTING
        self._start_timers()
        self._open_store()
        join = ClusterJoin(self._store, self._ports.random.randbytes)
        await join.make_persistent_nodes()
        self.cluster_id = await join.cluster_id()
        await self._load_dynamic_config()
        images = await self._load_tree()
        await self._open_logs(images.values())
        bound = self._bind()
        self._make_replicas()
        self._make_config_changeable()
        if self._membership is None:
            await self._serve_loaded(images.values())
            self._make_controller(DirectLink(self.local_topics))
        else:
            self._join_cluster(self._membership)
        self._maybe_start_groups()
        self._make_handlers()
        await self._register(bound)
        if self._membership is None:
            await self._control_alone(images.values())
        self._start_housekeeping()
        self._network.start_accepting()
        self.is_accepting = True
        if self._membership is not None:
            await self._take_part(self._membership)

    async def stop(self) -> None:
        """Answer what was started, make everything durable, leave the clean-shutdown marker."""
        if self._membership is not None and self.is_accepting:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            registration = self.registration
            registration.stop()  # who leaves does not come back: as a new broker it would be given leaders again
            await self._membership.leave(registration.epoch, lambda: not registration.is_lost)
        self.state = BrokerState.SHUTTING_DOWN
        self.is_accepting = False
        await self._started.aclose()
        self.state = BrokerState.NOT_RUNNING

    def _start_timers(self) -> None:
        self.timers = Timers(self._ports.loop)
        self._started.callback(self.timers.close)

    def _open_store(self) -> None:
        store = self._ports.open_store()
        self._store = store if self._metrics is None else self._metrics.measured_store(store)
        self._started.callback(self._store.close)
        if self._ports.joins_cluster:
            from ottla.broker.membership import Membership

            self._membership = Membership(self._store, self._ports, self.timers, broker_id=self.broker_id)

    async def _load_dynamic_config(self) -> None:
        """From here on the config has what was changed while brokers ran."""
        self._stored_configs = await read_broker_configs(self._store, self.broker_id)
        self.config = with_stored(self.config, self._stored_configs)
        self._ports.background.resize(self.config.get_int("background.threads"))

    async def _load_tree(self) -> dict[str, TopicImage]:
        images = await ask(lambda on_loaded: TreeLoader(self._store, on_loaded).start())
        if isinstance(images, TreeError):
            raise images
        assert isinstance(images, dict)
        return images

    async def _open_logs(self, images: Collection[TopicImage]) -> None:
        config, ports = self.config, self._ports
        self.state = BrokerState.RECOVERING
        self.log_manager = manager = LogManager(
            ports.disk,
            config.log_dirs,
            on_dir_failed=self._on_dir_failed,
            background=ports.background,
            call_soon=ports.loop.call_soon,
            random_bytes=ports.random.randbytes,
            producer_expiration_ms=config.get_int("producer.id.expiration.ms"),
            open_files_max=ports.open_files_max,
        )
        self._started.push_async_callback(self._close_logs)
        manager.open(MetaProperties(self.broker_id, self.cluster_id), with_locks=ports.locks_log_dirs)
        membership = self._membership
        if membership is not None:
            self._last_epoch = await membership.last_epoch()
        manager.judge_start(StartNote(ports.boot_id, self._last_epoch), is_alone=membership is None)
        log_unusable_topic_configs(images, config)
        load = partial(load_logs, manager, list(images), config, clock=ports.clock, background=ports.background)
        for note in await on_thread(ports.background.submit, load):
            _LOG.warning("%s", note)
        if membership is not None:
            membership.find_losses(manager, images)
        elif manager.lossy_directories:
            if manager.partitions():  # a new broker has nothing to lose
                _LOG.warning("%s: lossy start: %s", ", ".join(manager.lossy_directories), _LOSS_OF_ONE)
            manager.confirm_loss()
        background: Background = ports.background
        self.flusher = Flusher(
            background if self._metrics is None else self._metrics.measured_flushes(background),
            clock=ports.clock,
            call_soon=ports.loop.call_soon,
            on_flushed=self._on_flushed,
            on_failed=manager.fail_log,
        )
        self._started.callback(self.flusher.stop)

    async def _close_logs(self) -> None:
        """When nothing runs in the background any more, flush and close everything there."""
        ports = self._ports

        def close() -> None:
            self.log_manager.shutdown(ports.clock(), broker_epoch=self._last_epoch)

        await on_thread(ports.background.run_last, close)

    def _bind(self) -> tuple[Listener, ...]:
        ports, metrics = self._ports, self._metrics
        self.dispatcher = Dispatcher(ports.clock) if metrics is None else metrics.dispatcher(ports.clock)
        self._network = ports.open_network(self.dispatcher, network_limits_of(self.config))
        self._started.push_async_callback(self._stop_network)
        bound = self._network.bind(self.config.listeners())
        self.address = f"{bound[0].host or '127.0.0.1'}:{bound[0].port}"
        self._endpoints = advertised_endpoints(self.config, bound, host_name=ports.host_name)
        self.config = self.config.with_derived(derived_configs(self.config, bound, self._endpoints))
        return bound

    async def _stop_network(self) -> None:
        if self._waiting is not None:  # not yet, when the start failed before there were any
            self._waiting.fetches.force_complete_all()  # a long poll would hold the stop for as long as it waits
        await ask(lambda on_done: self._network.stop(drain_ms=_DRAIN_MS, on_stopped=lambda: on_done(None)))

    def _make_replicas(self) -> None:
        timers, loop = self.timers, self._ports.loop
        wheel = timers.wheel
        fetches = Purgatory(wheel, on_mark=lambda: loop.call_soon(fetches.complete_marked))
        produces = Purgatory(wheel, on_mark=lambda: loop.call_soon(produces.complete_marked))
        deletions = Purgatory(wheel, on_mark=lambda: loop.call_soon(deletions.complete_marked))
        self._waiting = Waiting(
            produces=produces,
            fetches=fetches,
            deletions=deletions,
            topic_changes=Purgatory(wheel),
            now_ms=timers.now_ms,
            arm=timers.arm,
        )
        self.replicas = Replicas(
            self._waiting,
            broker_id=self.broker_id,
            request_flush=self.flusher.request,
            report_storage_error=self.log_manager.fail_log,
            truncate_log=lambda log, offset: self.log_manager.truncate_log(log, offset, self._ports.clock()),
            restart_log=lambda log, offset: self.log_manager.restart_log(log, offset, self._ports.clock()),
            cluster=ALONE if self._membership is None else self._membership.replication_ports(self.config),
        )
        self.cache = MetadataCache(self.cluster_id)
        self.local_topics = LocalTopics(
            self.log_manager,
            self.replicas,
            self.cache,
            self.config,
            broker_id=self.broker_id,
            clock=self._ports.clock,
            forget_log=self.flusher.forget,
            call_soon=loop.call_soon,
        )

    def _read_high_watermarks(self) -> dict[TopicPartition, Offset]:
        high_watermarks, notes = self.log_manager.read_high_watermarks()
        for note in notes:
            _LOG.warning("%s", note)
        return high_watermarks

    async def _serve_loaded(self, images: Collection[TopicImage]) -> None:
        """A broker alone leads all that the store has."""
        high_watermarks = self._read_high_watermarks()
        for image in images:
            self.local_topics.apply_loaded(image, high_watermarks)
        # Folders that had to be made anew: nothing may be acknowledged in them before.
        await ask(lambda on_done: self.log_manager.sync_dirs(lambda: on_done(None)))

    def _make_controller(self, link: ControlLink) -> None:
        self.controller = make_controller(
            self._store,
            self._ports,
            self.timers,
            link,
            self.cache,
            self.local_topics,
            self.current_config,
            broker_id=self.broker_id,
            ignores_case=self.log_manager.ignores_case,
            stored_configs=lambda: self._stored_configs,
            on_elected=self._on_elected,
            on_resigned=lambda: self._set_running(BrokerState.RUNNING),
            on_problem=self._give_election,
        )
        self._started.callback(self.controller.close)
        self.topics = self.controller.topics
        self.configs = self.controller.configs
        self.topic_creation = TopicCreation(
            self.topics,
            self._store,
            self.cache,
            self.current_config,
            is_controller=self._is_controller,
            random_bytes=self._ports.random.randbytes,
        )

    def _is_controller(self) -> bool:
        return self.controller.is_active and self.cache.controller_id == self.broker_id

    def _on_elected(self, _: ControllerEpoch) -> None:
        self._set_running(BrokerState.RUNNING_AS_CONTROLLER)
        self._give_election(None)

    def _give_election(self, problem: str | None) -> None:
        """To a start that waits for it."""
        election, self._first_election = self._first_election, None
        if election is not None:
            election.give(problem)

    async def _control_alone(self, images: Collection[TopicImage]) -> None:
        """A broker alone is its own controller before it serves anybody. What it has loaded is served already."""
        election: Answer[str | None] = Answer()
        self._first_election = election
        self.controller.start(Alone(self._own_info(), images))
        problem = await election
        if problem is not None:
            raise StoreFailed(problem)
        self.controller.notes.load()

    async def _control_alone_again(self) -> None:
        """In a new session, of what the store has now."""
        self._stored_configs = await read_broker_configs(self._store, self.broker_id)
        images = await self._load_tree()
        self.controller.start(Alone(self._own_info(), images.values()))

    def _own_info(self) -> BrokerInfo:
        rack = self.config.get_optional_str("broker.rack")
        return BrokerInfo(self.broker_id, self._endpoints, rack, self.registration.epoch)

    def _join_cluster(self, membership: "Membership") -> None:
        """Everything is ready for the controller's first request; nothing is led before it."""
        self.local_topics.local_replicas.high_watermarks = self._read_high_watermarks()
        membership.join(self.replicas, self.cache, self.local_topics, self.log_manager, self.config)
        self._make_controller(membership.control_links)
        membership.controller = self.controller
        membership.watch_configs(self._on_stored_configs)
        self._started.callback(membership.stop)

    async def _take_part(self, membership: "Membership") -> None:
        self.controller.start()
        await membership.first_picture()

    def _set_running(self, state: BrokerState) -> None:
        if self.state in (BrokerState.RUNNING, BrokerState.RUNNING_AS_CONTROLLER):
            self.state = state

    def _on_stored_configs(self, stored: StoredBrokerConfigs) -> None:
        """Another broker has changed this one's config, or that of all."""
        self._stored_configs = stored
        self.controller.broker_configs_changed(stored)
        changed, _ = self.current_config.value.with_dynamic(
            per_broker=stored.per_broker, cluster_wide=stored.cluster_wide
        )
        self.current_config.replace(changed)

    def _make_config_changeable(self) -> None:
        self.current_config = CurrentConfig(self.config)
        effects = ConfigEffects(
            self.local_topics,
            self.log_manager,
            resize_threads=self._ports.background.resize,
            update_connection_limits=self._network.update_connection_limits,
        )
        self.current_config.add_listener(effects.apply)

    def _maybe_start_groups(self) -> None:
        """A broker that never had a group starts without; the first request of one calls `start_groups`."""
        if OFFSETS_TOPIC in self.cache.topics:
            self.start_groups()
        else:
            self.local_topics.local_replicas.on_leading.append(self._on_leading)

    def _on_leading(self, topic_partition: TopicPartition, _: LeaderEpoch) -> None:
        if topic_partition.topic == OFFSETS_TOPIC and self._groups is None:
            self.start_groups()

    def start_groups(self) -> "GroupCoordination":
        """Load the groups in the background; until a partition is loaded, requests for its groups get error 14."""
        if self._groups is not None:
            return self._groups
        from ottla.broker.group_coordination import make_group_coordination

        ports = self._ports
        groups = self._groups = make_group_coordination(
            self.config,
            replicas=self.replicas,
            log_manager=self.log_manager,
            flusher=self.flusher,
            cache=self.cache,
            creation=self.topic_creation,
            background=ports.background,
            clock=ports.clock,
            timers=self.timers,
            call_soon=ports.loop.call_soon,
            random_bytes=ports.random.randbytes,
            is_alone=self._membership is None,
        )
        # Answers the requests that wait for a group, before the server waits until its answers are sent.
        self._started.callback(groups.coordinator.stop)
        self.local_topics.on_topic_deleted.append(groups.offsets_topic.on_topic_deleted)
        self.local_topics.on_metadata.append(groups.offsets_topic.maybe_start)
        groups.offsets_topic.follow(self.local_topics.local_replicas)
        groups.offsets_topic.maybe_start()
        expiry_interval_ms = self.config.get_int("offsets.retention.check.interval.ms")
        self._started.callback(self.timers.every(expiry_interval_ms, groups.coordinator.expire).stop)
        return groups

    def _make_handlers(self) -> None:
        if self._metrics is not None:  # from here on a scrape finds every room
            self._metrics.show(
                logs=self.log_manager,
                replicas=self.replicas,
                cache=self.cache,
                wheel=self.timers.wheel,
                coordinator=self.start_groups().coordinator,
            )
        self.handlers = Handlers(
            self.dispatcher,
            config=self.config,
            replicas=self.replicas,
            cache=self.cache,
            topics=self.topics,
            groups=self.start_groups,
            log_manager=self.log_manager,
            producer_ids=ProducerIds(self._store, self.broker_id),
            background=self._ports.background,
            clock=self._ports.clock,
            random=self._ports.random,
            metrics=self._metrics,
            configs=self.configs,
            current=self.current_config,
            local_topics=self.local_topics,
            creation=self.topic_creation,
            begin_shutdown=None if self._membership is None else self.controller.controlled_shutdown,
            elect_leaders_by=None if self._membership is None else self.controller.elect_leaders,
        )
        self.handlers.serve_clients()
        if self._membership is not None:
            self.handlers.serve_brokers()

    async def _register(self, bound: tuple[Listener, ...]) -> None:
        self.registration = Registration(
            self._store,
            self.broker_id,
            registration_of(self.config, bound, self._endpoints, self._ports.clock()),
            wait_ms=_SESSION_TIMEOUT_MS,
            now_ms=self.timers.now_ms,
            call_later=self.timers.call_later,
            on_registered=self._on_registered,
            on_failed=self._fail,
        )
        self._started.callback(self.registration.stop)
        if self._membership is not None:
            await self._membership.leave_lossy(self.log_manager, self.registration)
        await self.registration.register()
        self.state = BrokerState.RUNNING

    def _on_registered(self, epoch: BrokerEpoch) -> None:
        self._last_epoch = epoch
        self.local_topics.fence.broker_epoch = epoch
        if self._membership is not None:
            if self.is_accepting:  # in a new session: at the start, that comes when everything is ready
                self.controller.start()
            return
        self.cache.put_broker(self._own_info())
        if self.is_accepting:
            Running(self._control_alone_again(), lambda _, error: None if error is None else self._fail(str(error)))

    def _start_housekeeping(self) -> None:
        self.housekeeping = Housekeeping(
            self.timers,
            self.log_manager,
            self.flusher,
            self.replicas,
            self.config,
            disk=self._ports.disk,
            background=self._ports.background,
            clock=self._ports.clock,
        )
        self.housekeeping.start()
        self._started.callback(self.housekeeping.stop)

    def _on_flushed(self, log: Log) -> None:
        topic_partition = topic_partition_of(log)
        self.replicas.on_flushed(topic_partition)
        if self._membership is not None:
            self._membership.on_flushed(topic_partition)

    def _on_dir_failed(self, directory: str, partitions: list[TopicPartition], reason: str) -> None:
        _LOG.error("log directory %s is offline with %d partitions: %s", directory, len(partitions), reason)
        if self._waiting is not None:  # before there are replicas, none is served from that directory
            self.replicas.take_offline(partitions)
            if self._membership is not None:
                self._membership.on_dir_failed(partitions)
        if self._groups is not None:
            # Not at once: it may be one of their own appends that failed, and they are in the middle of it.
            self._ports.loop.call_soon(partial(self._groups.take_offline, partitions))
        if not self.log_manager.online_directories:
            self._fail("no log directory is left")

    def _fail(self, reason: str) -> None:
        _LOG.critical("%s; the broker stops", reason)
        self.fatal_reason = reason
        self._ports.on_failed()
