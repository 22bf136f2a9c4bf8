"""A broker's part in controlling the cluster: it wants to become the controller whenever there is none, controls for a
term when it wins, and gives up when its session ends, another broker takes its place, or it stops."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.controller.config_notes import ConfigNotes
from ottla.controller.configs import Configs
from ottla.controller.deltas import BrokerConfigsChanged, TopicConfigChanged
from ottla.controller.election import Election, ElectionResult
from ottla.controller.own_configs import OwnConfigs
from ottla.controller.ports import ControllerPorts
from ottla.controller.queue import EventQueue
from ottla.controller.state import ClusterState, StoredBrokerConfigs
from ottla.controller.surroundings import Surroundings
from ottla.controller.term import Alone, ControllerTerm
from ottla.controller.topic_faults import TopicFault, not_controller
from ottla.controller.topics import Topics
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION, Check, Code, Delete, Result, SessionState, Store, WatchEvent
from ottla.core.cluster import TopicImage
from ottla.core.config.current import CurrentConfig
from ottla.core.control import ControlledShutdown, ControlledShutdownAnswer
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from ottla.controller.leader_requests import ElectionOutcomes
    from ottla.controller.partition_decisions import Strategy

_LOG = logging.getLogger("ottla.controller")

_RETRY_MS = 1_000  # after a failure that the next try may not have


def _nothing(_: object) -> None:
    pass


class Controller:
    """One per broker, for all its life; event loop only.

    `topics` and `configs` stay the same objects: while this broker does not control, `topics` refuses with
    NOT_CONTROLLER, and `configs` are written by this broker itself.
    """

    def __init__(
        self,
        store: Store,
        ports: ControllerPorts,
        current: CurrentConfig,
        *,
        broker_id: BrokerId,
        stored_configs: Callable[[], StoredBrokerConfigs],
        ignores_case: Callable[[], bool] = lambda: False,
        seen_topic: Callable[[str], TopicImage | None] = lambda _: None,
        on_topic_configs: Callable[[str, dict[str, str]], None] = lambda _, __: None,
        on_elected: Callable[[int], None] = _nothing,
        on_resigned: Callable[[], None] = lambda: None,
        on_controller: Callable[[BrokerId], None] = _nothing,
        on_problem: Callable[[str], None] = _nothing,
    ) -> None:
        """`on_elected` gets the epoch when the take-over is done, `on_controller` the id of any controller (-1: none).

        `on_problem` is called with what kept an election or a take-over from its end; it is tried again.
        """
        self._store = store
        self._ports = ports
        self._broker_id = broker_id
        self._on_elected = on_elected
        self._on_resigned = on_resigned
        self._on_controller = on_controller
        self._on_problem = on_problem
        self._term: ControllerTerm | None = None
        self._is_active = False  # the take-over is done
        self._alone: Alone | None = None
        self._attempt = 0  # answers to an older one come too late
        self._closed_queue = self._make_closed_queue(current, stored_configs)
        self.topics = Topics(self._closed_queue)
        self.notes = ConfigNotes(store, ports.clock)
        self._own_configs = OwnConfigs(
            store,
            current,
            seen_topic=seen_topic,
            stored_configs=stored_configs,
            on_topic_configs=on_topic_configs,
            random_bytes=ports.random_bytes,
        )
        self.configs = Configs(self._own_configs.queue_for, self.notes, broker_id=broker_id)
        self._around = Surroundings(
            store, ports, current, broker_id, self.topics, stored_configs, ignores_case, on_topic_configs
        )
        store.add_session_listener(self._on_session)

    def _make_closed_queue(
        self, current: CurrentConfig, stored_configs: Callable[[], StoredBrokerConfigs]
    ) -> EventQueue:
        queue = EventQueue(
            self._store,
            ClusterState([], stored_configs()),
            _NoApplier(),
            current,
            random_bytes=self._ports.random_bytes,
            live_brokers=list,
            controller_epoch=lambda: 0,
        )
        queue.close()
        return queue

    @property
    def is_active(self) -> bool:
        """Whether this broker controls the cluster, and the take-over is done."""
        return self._is_active

    @property
    def epoch(self) -> int:
        """Of the term that this broker has; 0: none."""
        return 0 if self._term is None else self._term.epoch

    @property
    def term(self) -> ControllerTerm | None:
        return self._term

    def start(self, alone: Alone | None = None) -> None:
        """Take part in elections from now on: after this broker has registered, each time that it has.

        `alone`: the store is this broker's own, and what it has loaded from it is all there is.
        """
        self._alone = alone
        if self._term is None:
            self._elect()

    def resign(self) -> None:
        """Give the term up, so that another broker is elected, and take part no longer until `start`."""
        self._attempt += 1
        term = self._end_term()
        if term is not None:
            check = Check(paths.CONTROLLER_EPOCH, term.epoch_version)
            self._store.multi([check, Delete(paths.CONTROLLER, ANY_VERSION)], _nothing)

    def close(self) -> None:
        """The broker stops; its session takes the node with it."""
        self._attempt += 1
        self._end_term()

    def topic_config_changed(self, topic: str, configs: dict[str, str]) -> None:
        """The broker has read a topic's config again, because a note in the store named it."""
        if self._is_active and self.topics.state.find(topic) is not None:
            self.topics.state.apply(TopicConfigChanged(topic, configs))
            assert self._term is not None
            image = self.topics.state.topics[topic]
            self._term.parts.elections.want([TopicPartition(topic, partition) for partition in image.partitions])

    def broker_configs_changed(self, stored: StoredBrokerConfigs) -> None:
        """The broker has read its configs again."""
        if self._is_active:
            self.topics.state.apply(BrokerConfigsChanged(*stored))

    def controlled_shutdown(
        self, request: ControlledShutdown, on_answer: Callable[[ControlledShutdownAnswer], None]
    ) -> None:
        """A broker wants to stop; answered when its leaderships have moved as far as they can."""
        if self._term is None or not self._is_active:
            on_answer(ControlledShutdownAnswer(ErrorCode.NOT_CONTROLLER))
        else:
            self._term.controlled_shutdown(request, on_answer)

    def elect_leaders(
        self,
        strategy: "Strategy",
        partitions: list[TopicPartition] | None,
        on_done: "Callable[[ElectionOutcomes | TopicFault], None]",
    ) -> None:
        """Elect for these partitions, or for all: each ends with why not, or None. The fault is NOT_CONTROLLER."""
        if self._term is None or not self._is_active:
            on_done(not_controller())
        else:
            from ottla.controller.leader_requests import elect_leaders

            elect_leaders(self._term.state, self._term.parts.elections, strategy, partitions, on_done)

    def _elect(self) -> None:
        self._attempt += 1
        attempt = self._attempt
        election = Election(self._store, broker_id=self._broker_id, clock=self._ports.clock)

        def on_result(result: ElectionResult) -> None:
            if attempt == self._attempt:
                self._on_result(result)

        election.run(on_result)

    def _on_result(self, result: ElectionResult) -> None:
        if result.problem is not None:
            self._fail(result.problem)
            return
        self._on_controller(result.controller_id)
        self._watch_controller()
        if result.epoch:
            _LOG.info("broker %d is the controller, epoch %d", self._broker_id, result.epoch)
            assert self._term is None, "a term must be over before the next one begins"
            attempt = self._attempt

            def on_over(reason: str) -> None:
                if attempt == self._attempt:
                    self._on_over(reason)

            self._term = ControllerTerm(self._around, result, on_ready=self._on_ready, on_over=on_over)
            self._term.take_over(self._alone)

    def _on_ready(self, term: ControllerTerm) -> None:
        self._is_active = True
        self.configs.use(lambda _: term.queue)
        self._on_elected(term.epoch)

    def _on_over(self, reason: str) -> None:
        """The term can't go on. If the node is still this broker's own, it goes, so that somebody else may try."""
        _LOG.warning("broker %d does not control the cluster any more: %s", self._broker_id, reason)
        self.resign()
        self._fail(reason)

    def _fail(self, problem: str) -> None:
        self._on_problem(problem)
        attempt = self._attempt

        def again() -> None:
            if attempt == self._attempt:
                self._elect()

        self._ports.call_later(_RETRY_MS, again)

    def _watch_controller(self) -> None:
        attempt = self._attempt

        def on_change(event: WatchEvent) -> None:
            if attempt == self._attempt:
                self._on_controller_changed()

        def on_answer(result: Result) -> None:
            if attempt != self._attempt:
                return
            if result.code == Code.NO_NODE:
                self._on_controller_changed()
            elif result.code == Code.CONNECTION_LOST:
                self._ports.call_later(
                    _RETRY_MS, lambda: self._watch_controller() if attempt == self._attempt else None
                )

        self._store.get(paths.CONTROLLER, on_answer, watch=on_change)

    def _on_controller_changed(self) -> None:
        """The node is gone, or is another's: this broker is not what it was, and tries again."""
        self._end_term()
        self._on_controller(-1)
        self._elect()

    def _on_session(self, state: SessionState) -> None:
        if state == SessionState.EXPIRED:
            self._attempt += 1  # takes part again when it has registered again
            self._end_term()
            self._on_controller(-1)

    def _end_term(self) -> ControllerTerm | None:
        term, self._term = self._term, None
        if term is not None:
            was_active, self._is_active = self._is_active, False
            self.topics.use(self._closed_queue)
            self.configs.use(self._own_configs.queue_for)
            term.close()
            if was_active:
                self._on_resigned()
        return term


class _NoApplier:
    def apply(self, delta: object, on_applied: Callable[[], None]) -> None:
        raise AssertionError("a closed queue decides nothing")
