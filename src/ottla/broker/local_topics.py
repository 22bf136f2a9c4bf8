"""Carries out the controller's decisions about topics on this broker: logs, partitions, what clients see.

They come as control requests (LeaderAndIsr, StopReplica, UpdateMetadata), over a connection or from the controller in
this process, and are carried out one after the other. It decides nothing. What clients see, in the metadata cache,
follows UpdateMetadata; a broker alone begins with what it has loaded.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from ottla.broker.control_fence import ControlFence
from ottla.broker.local_logs import LocalLogs, WantedLog
from ottla.broker.local_replicas import Errors, LocalReplicas
from ottla.broker.metadata_cache import MetadataCache
from ottla.core.clock import Clock
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.config.config import BrokerConfig
from ottla.core.control import ControlAnswer, ControlRequest, LeaderAndIsr, StopReplicas, UpdateMetadata
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, Offset, TopicPartition
from ottla.replication.replicas import Replicas
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager

OnAnswer = Callable[[ControlAnswer], None]


class LocalTopics:
    """This broker's side of the controller; event loop only."""

    def __init__(
        self,
        log_manager: LogManager,
        replicas: Replicas,
        cache: MetadataCache,
        config: BrokerConfig,
        *,
        broker_id: BrokerId,
        clock: Clock,
        forget_log: Callable[[Log, Callable[[], None]], None],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._logs = LocalLogs(log_manager, config, configs_of=self._configs_of, clock=clock, call_soon=call_soon)
        self._replicas = replicas
        self._cache = cache
        self._broker_id = broker_id
        self._images: dict[str, TopicImage] = {}  # each topic of ours, for its id and configs
        self._requests: deque[tuple[LeaderAndIsr | StopReplicas, OnAnswer]] = deque()
        self._is_busy = False  # with the request before these
        self.fence = ControlFence()
        self.local_replicas = LocalReplicas(
            self._logs, log_manager, replicas, cache, broker_id=broker_id, clock=clock, forget_log=forget_log
        )
        # Called with the name of each topic that is deleted, when clients no longer see it and before its files go.
        self.on_topic_deleted: list[Callable[[str], None]] = []
        # Called after each UpdateMetadata.
        self.on_metadata: list[Callable[[], object]] = []

    # Control requests

    def handle(self, request: ControlRequest, on_answer: OnAnswer) -> None:
        """Any request of the controller; calls `on_answer` once, perhaps before this returns."""
        if isinstance(request, UpdateMetadata):
            on_answer(self.update_metadata(request))
        elif isinstance(request, LeaderAndIsr):
            self.leader_and_isr(request, on_answer)
        else:
            self.stop_replicas(request, on_answer)

    def leader_and_isr(self, request: LeaderAndIsr, on_done: OnAnswer) -> None:
        """Lead and follow as the controller says; answered when nothing of it can be lost by a crash."""
        self._submit(request, on_done)

    def stop_replicas(self, request: StopReplicas, on_done: OnAnswer) -> None:
        """Stop replicas, with or without their logs; answered when those are gone durably."""
        self._submit(request, on_done)

    def update_metadata(self, request: UpdateMetadata) -> ControlAnswer:
        """What clients see from now on."""
        error_code = self.fence.check(request.stamp)
        if error_code:
            return ControlAnswer(error_code)
        topics = tuple([self._with_own_configs(image) for image in request.topics])
        for image in self._cache.update(request._replace(topics=topics)):
            ours = self._images.get(image.name)
            if ours is not None and ours.topic_id == image.topic_id:
                del self._images[image.name]
            for on_topic_deleted in self.on_topic_deleted:
                on_topic_deleted(image.name)
        self.local_replicas.on_brokers_changed()
        for on_metadata in self.on_metadata:
            on_metadata()
        return ControlAnswer()

    def _with_own_configs(self, image: TopicImage) -> TopicImage:
        """They may have changed here since the controller sent the topic."""
        ours = self._images.get(image.name)
        if ours is None or ours.topic_id != image.topic_id or ours.configs == image.configs:
            return image
        return image._replace(configs=ours.configs)

    def _submit(self, request: LeaderAndIsr | StopReplicas, on_answer: OnAnswer) -> None:
        self._requests.append((request, on_answer))
        if not self._is_busy:
            self._work_off()

    def _work_off(self) -> None:
        """Carry out requests until one has to wait for the disk."""
        while self._requests and not self._is_busy:
            request, on_answer = self._requests.popleft()
            error_code = self.fence.check(request.stamp)  # now: a newer controller may have spoken while it waited
            if error_code:
                on_answer(ControlAnswer(error_code))
                continue
            self._is_busy = True
            on_done = partial(self._on_carried_out, on_answer)
            if isinstance(request, LeaderAndIsr):
                self._note_configs(request)
                self.local_replicas.lead_and_follow(request, on_done)
            else:
                self.local_replicas.stop(request, on_done)

    def _on_carried_out(self, on_answer: OnAnswer, errors: Errors) -> None:
        self._is_busy = False
        try:
            on_answer(ControlAnswer(ErrorCode.NONE, errors))
        finally:
            self._work_off()

    def _note_configs(self, request: LeaderAndIsr) -> None:
        """Of topics that are new here; those that are known hear of changes by themselves (`use_topic_config`)."""
        for topic in request.topics:
            known = self._images.get(topic.name)
            if known is None or known.topic_id != topic.topic_id:
                self._images[topic.name] = TopicImage(topic.name, topic.topic_id, topic.configs, {})

    # Configs

    def use_config(self, config: BrokerConfig) -> None:
        """The broker's config has changed, and with it that of every topic that does not have its own."""
        self._logs.use_config(config, self._images.values())

    def use_topic_config(self, name: str, configs: dict[str, str]) -> None:
        """All that is set for a topic now: its logs use it, also those that are being made, and clients see it."""
        image = self._images.get(name)
        if image is not None:
            self._images[name] = image._replace(configs=configs)
            self._logs.use_topic_config(name, configs)
        seen = self._cache.topics.get(name)
        if seen is not None:
            self._cache.put_topic(seen._replace(configs=configs))

    def _configs_of(self, name: str) -> Mapping[str, str]:
        image = self._images.get(name)
        return {} if image is None else image.configs

    # The start of a broker alone

    def apply_loaded(self, image: TopicImage, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """A topic that was there before the start: its logs are loaded, a missing one is made."""
        self._images[image.name] = image
        mine = self._partitions_here(image.name, image.partitions)
        self._logs.make_missing([WantedLog(topic_partition, image.topic_id, False) for topic_partition in mine])
        self._serve(mine, image, high_watermarks)
        self._cache.put_topic(image)

    def _partitions_here(self, name: str, partitions: Mapping[int, PartitionState]) -> list[TopicPartition]:
        mine = (partition for partition, state in partitions.items() if self._broker_id in state.replicas)
        return [TopicPartition(name, partition) for partition in mine]

    def _serve(
        self, mine: list[TopicPartition], image: TopicImage, high_watermarks: Mapping[TopicPartition, Offset]
    ) -> None:
        for topic_partition in mine:
            log = self._logs.get(topic_partition)
            if log is None:
                self._replicas.add_unavailable(topic_partition)
            else:
                self._replicas.add(
                    topic_partition,
                    topic_id=image.topic_id,
                    log=log,
                    state=image.partitions[topic_partition.partition],
                    high_watermark=high_watermarks.get(topic_partition),
                )
