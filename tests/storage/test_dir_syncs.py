"""Fsyncs of directories that several callers share."""

from collections.abc import Callable

from ottla.storage.dir_syncs import DirSyncs


class HandSyncs:
    """Fsyncs that end when the test says so."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self._running: dict[str, Callable[[], None]] = {}
        self.names = DirSyncs(self._sync)
        self.done: list[str] = []

    def _sync(self, directory: str, on_done: Callable[[], None]) -> None:
        self.started.append(directory)
        self._running[directory] = on_done

    def finish(self, directory: str) -> None:
        self._running.pop(directory)()

    def change(self, *directories: str) -> None:
        for directory in directories:
            self.names.note_change(directory)

    def wait(self, name: str) -> None:
        self.names.when_synced(lambda: self.done.append(name))


def test_nothing_changed_is_durable_at_once() -> None:
    syncs = HandSyncs()
    syncs.wait("a")
    assert syncs.done == ["a"]
    assert not syncs.started


def test_changes_during_a_sync_share_the_next_one() -> None:
    syncs = HandSyncs()
    for name in "abc":
        syncs.change("/1")
        syncs.wait(name)
    assert syncs.started == ["/1"]
    syncs.finish("/1")
    assert syncs.done == ["a"]
    assert syncs.started == ["/1", "/1"]
    syncs.finish("/1")
    assert syncs.done == ["a", "b", "c"]
    syncs.wait("d")
    assert syncs.done == ["a", "b", "c", "d"]
    assert syncs.started == ["/1", "/1"]


def test_caller_without_changes_waits_for_the_sync_under_way() -> None:
    syncs = HandSyncs()
    syncs.change("/1")
    syncs.wait("a")
    syncs.wait("b")
    assert not syncs.done
    syncs.finish("/1")
    assert syncs.done == ["a", "b"]
    assert syncs.started == ["/1"]


def test_every_directory_counts() -> None:
    syncs = HandSyncs()
    syncs.change("/1", "/2")
    syncs.wait("a")
    assert sorted(syncs.started) == ["/1", "/2"]
    syncs.finish("/1")
    assert not syncs.done
    syncs.finish("/2")
    assert syncs.done == ["a"]


def test_sync_that_ends_at_once_calls_back_once() -> None:
    done: list[str] = []
    names = DirSyncs(lambda _, on_done: on_done())
    names.note_change("/1")
    names.note_change("/2")
    names.when_synced(lambda: done.append("a"))
    assert done == ["a"]
