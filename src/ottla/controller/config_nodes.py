"""The nodes below /config: each change is read, decided, and written together with the note that tells other brokers.

It decides nothing itself and applies nothing. Two changes of one node at a time both succeed: the second finds another
version than it read, and is decided again on what the first one left.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.controller.config_edits import ConfigFault
from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import ANY_VERSION, Check, Code, Create, Result, SetValue, Store, Write
from ottla.core.clock import Clock
from ottla.core.errors import ErrorCode
from ottla.core.types import TimestampMs

# As long as Kafka keeps them: a broker that was away for longer reads everything at its start anyway.
NOTES_KEPT_MS = 15 * 60 * 1000

Entries = dict[str, str]
Decide = Callable[[Mapping[str, str]], Entries | ConfigFault]
OnChanged = Callable[[Entries | ConfigFault], None]


class ConfigNode(NamedTuple):
    """Whose config: `kind` is "topics" or "brokers". `owner_path` is a node without which it makes no sense."""

    kind: str
    name: str
    owner_path: str | None = None

    @property
    def path(self) -> str:
        return paths.config_path(self.kind, self.name)


class ConfigNodes:
    """Owned by the controller's `Configs`; event loop only."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._notes: deque[tuple[TimestampMs, str]] = deque()  # by age: when it was made, path

    def change(self, node: ConfigNode, decide: Decide, on_done: OnChanged) -> None:
        """Write what `decide` makes of the entries; `on_done` has them, or why nothing was written."""

        def on_read(result: Result) -> None:
            if not result.is_ok and result.code != Code.NO_NODE:
                on_done(_fault_of_store(result))
                return
            try:
                entries = paths.decode_config(node.path, result.value)
            except MalformedNodeError as error:
                on_done(ConfigFault(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
                return
            decided = decide(entries)
            if isinstance(decided, ConfigFault) or (decided == entries and result.is_ok):
                on_done(decided)
                return
            version = None if result.stat is None else result.stat.version
            self._write(node, decided, version=version, on_written=lambda written: on_written(decided, written))

        def on_written(decided: Entries, result: Result) -> None:
            if result.is_ok:
                self._notes.append((self._clock(), result.results[-1].path))
                self.remove_old_notes()
                on_done(decided)
            elif result.code in (Code.BAD_VERSION, Code.NODE_EXISTS):
                self._store.get(node.path, on_read)  # somebody else was faster: decide again
            elif result.code == Code.NO_NODE:
                on_done(ConfigFault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{node.kind}/{node.name} is gone"))
            elif result.code == Code.CONNECTION_LOST:
                self._store.get(node.path, lambda found: on_done(_settled(decided, result, found)))
            else:
                on_done(_fault_of_store(result))

        self._store.get(node.path, on_read)

    def load_notes(self, on_done: Callable[[], None]) -> None:
        """Find out how old the notes of earlier runs are; the old ones go."""

        def on_listed(result: Result) -> None:
            found: list[tuple[TimestampMs, str]] = []
            left = len(result.children)

            def on_stat(stat_of: Result) -> None:
                nonlocal left
                left -= 1
                if stat_of.stat is not None:
                    found.append((stat_of.stat.ctime_ms, stat_of.path))
                if left == 0:
                    self._notes.extend(sorted(found))
                    self.remove_old_notes()
                    on_done()

            for name in result.children:
                self._store.exists(f"{paths.CONFIG_CHANGES}/{name}", on_stat)
            if not left:
                on_done()

        self._store.children(paths.CONFIG_CHANGES, on_listed)

    def remove_old_notes(self) -> None:
        kept_since_ms = self._clock() - NOTES_KEPT_MS
        while self._notes and self._notes[0][0] < kept_since_ms:
            _, path = self._notes.popleft()
            # Gone already, or not to be removed now: the next start looks again.
            self._store.delete(path, lambda _: None, version=ANY_VERSION)

    def _write(
        self, node: ConfigNode, entries: Entries, *, version: int | None, on_written: Callable[[Result], None]
    ) -> None:
        value = paths.encode_config(entries)
        writes: list[Write] = [] if node.owner_path is None else [Check(node.owner_path, ANY_VERSION)]
        writes.append(Create(node.path, value) if version is None else SetValue(node.path, value, version))
        note = paths.encode_config_change(f"{node.kind}/{node.name}")
        writes.append(Create(paths.CONFIG_CHANGE_PREFIX, note, sequential=True))
        self._store.multi(writes, on_written)


def _settled(decided: Entries, lost: Result, found: Result) -> Entries | ConfigFault:
    """What became of a write whose answer was lost, from what is there now."""
    if found.is_ok and found.value == paths.encode_config(decided):
        return decided
    return _fault_of_store(lost)


def _fault_of_store(result: Result) -> ConfigFault:
    return ConfigFault(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"the coordination store said {result.code.name} {result.detail} of {result.path or 'the change'}",
    )
