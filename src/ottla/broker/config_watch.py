"""Configs that another broker has changed: the notes below /config/changes say which, and each broker reads them.

A note has no values, only whose they are, so reading too often does no harm.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.controller.state import StoredBrokerConfigs
from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Code, Result, SessionState, Store, WatchEvent
from ottla.core.types import BrokerId

_LOG = logging.getLogger("ottla.configs")

_RETRY_MS: Final = 1_000


class ConfigWatch:
    """Call `begin` before configs are read at the start, and `go_on` when changes can be applied. Event loop only."""

    def __init__(
        self,
        store: Store,
        broker_id: BrokerId,
        *,
        on_topic: Callable[[str, dict[str, str]], None],
        on_broker: Callable[[StoredBrokerConfigs], None],
        call_later: Callable[[int, Callable[[], None]], object],
    ) -> None:
        """`on_topic` gets all that is set for a topic now, `on_broker` what is set for this broker and for all."""
        self._store = store
        self._on_topic = on_topic
        self._on_broker = on_broker
        self._call_later = call_later
        self._own_paths = (
            paths.config_path("brokers", str(broker_id)),
            paths.config_path("brokers", paths.DEFAULT_ENTITY),
        )
        self._seen: dict[str, None] = {}  # notes that are there and were read, or were there at the start
        self._is_stopped = False

    def begin(self, on_done: Callable[[], None]) -> None:
        """Notes that are there now are of changes that the start reads anyway."""

        def on_listed(result: Result) -> None:
            self._seen = dict.fromkeys(result.children)
            on_done()

        self._store.children(paths.CONFIG_CHANGES, on_listed)

    def go_on(self) -> None:
        """Apply what was changed since `begin`, and every change from now on."""
        self._store.add_session_listener(self._on_session)
        self._look()

    def stop(self) -> None:
        self._is_stopped = True

    def _on_session(self, state: SessionState) -> None:
        if state == SessionState.CONNECTED:  # perhaps a new session, which has no watches
            self._look()

    def _on_change(self, _: WatchEvent) -> None:
        self._look()

    def _look(self) -> None:
        if not self._is_stopped:
            self._store.children(paths.CONFIG_CHANGES, self._on_listed, watch=self._on_change)

    def _on_listed(self, result: Result) -> None:
        if not result.is_ok:
            self._retry(self._look)
            return
        new = [name for name in result.children if name not in self._seen]
        self._seen = dict.fromkeys(result.children)
        for name in new:
            self._read_note(f"{paths.CONFIG_CHANGES}/{name}")

    def _read_note(self, path: str) -> None:
        self._store.get(path, self._on_note)

    def _on_note(self, result: Result) -> None:
        if result.code == Code.NO_NODE:  # an old one, removed meanwhile
            return
        if not result.is_ok:
            self._retry(partial(self._read_note, result.path))
            return
        try:
            entity_type, _, name = paths.decode_config_change(result.path, result.value).partition("/")
        except MalformedNodeError as error:
            _LOG.error("%s", error)
            return
        if entity_type == "topics":
            self._read_topic(name)
        elif entity_type == "brokers" and paths.config_path("brokers", name) in self._own_paths:
            self._read_broker()

    def _read_topic(self, name: str) -> None:
        def on_read(result: Result) -> None:
            if _is_lost(result):
                self._retry(partial(self._read_topic, name))
                return
            configs = _configs_in(result)
            if configs is not None:
                self._on_topic(name, configs)

        self._store.get(paths.config_path("topics", name), on_read)

    def _read_broker(self) -> None:
        results: list[Result] = []

        def on_read(result: Result) -> None:
            results.append(result)
            if len(results) < len(self._own_paths):
                return
            if any(_is_lost(one) for one in results):
                self._retry(self._read_broker)
                return
            per_broker, cluster_wide = map(_configs_in, results)
            if per_broker is not None and cluster_wide is not None:
                self._on_broker(StoredBrokerConfigs(per_broker=per_broker, cluster_wide=cluster_wide))

        for path in self._own_paths:
            self._store.get(path, on_read)

    def _retry(self, again: Callable[[], None]) -> None:
        if not self._is_stopped:
            self._call_later(_RETRY_MS, again)


def _is_lost(result: Result) -> bool:
    return not result.is_ok and result.code != Code.NO_NODE


def _configs_in(result: Result) -> dict[str, str] | None:
    """None: the node makes no sense, and what holds goes on."""
    try:
        return paths.decode_config(result.path, result.value)
    except MalformedNodeError as error:
        _LOG.error("%s", error)
        return None
