"""What is used where a call of Linux is missing, and on macOS."""

import ctypes
import errno
import fcntl
import os
import select
import socket
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from ottla.core import operating_system

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="states what Linux has")


def import_again() -> ModuleType:
    """As a process would that starts on the system as it is now."""
    spec = spec_from_file_location("operating_system_elsewhere", operating_system.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for module, names in {
        os: ("RWF_NOWAIT", "preadv", "posix_fadvise", "fdatasync"),
        select: ("epoll", "EPOLLIN"),
        socket: ("MSG_MORE",),
        fcntl: ("F_FULLFSYNC",),
    }.items():
        for name in names:
            monkeypatch.delattr(module, name, raising=False)
    return import_again()


@needs_linux
def test_linux_keeps_all_that_it_has() -> None:
    assert operating_system.CAN_PROBE_PAGE_CACHE
    assert operating_system.open_epoll is select.epoll
    assert operating_system.MSG_MORE == socket.MSG_MORE
    assert operating_system.sync_file is os.fsync
    assert operating_system.sync_data is os.fdatasync


def test_elsewhere_everything_counts_as_cached_and_the_loop_watches_by_itself(elsewhere: ModuleType) -> None:
    assert not elsewhere.CAN_PROBE_PAGE_CACHE
    assert elsewhere.open_epoll is None
    assert elsewhere.MSG_MORE == 0


def test_elsewhere_an_fsync_takes_the_place_of_fdatasync(elsewhere: ModuleType) -> None:
    assert elsewhere.sync_file is os.fsync
    assert elsewhere.sync_data is os.fsync


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_read_into_gives_what_the_file_has(request: pytest.FixtureRequest, tmp_path: Path, is_elsewhere: bool) -> None:
    chosen = request.getfixturevalue("elsewhere") if is_elsewhere else operating_system
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        chosen.advise_will_need(file.fileno(), 0, 10)
        buffer = bytearray(4)
        assert [chosen.read_into(file.fileno(), buffer, position) for position in (0, 8, 10)] == [4, 2, 0]
        assert buffer == b"8923"


class FullFsync:
    """`fcntl.fcntl` of macOS, and of its file systems that don't know the command."""

    def __init__(self, refused_with: int | None = None) -> None:
        self.refused_with = refused_with
        self.fds: list[int] = []

    def __call__(self, fd: int, command: int) -> int:
        self.fds.append(fd)
        if self.refused_with is not None:
            raise OSError(self.refused_with, os.strerror(self.refused_with))
        return 0


def on_macos(monkeypatch: pytest.MonkeyPatch, full_fsync: FullFsync) -> tuple[ModuleType, list[int]]:
    """The module as macOS has it, and the descriptors that a plain fsync was asked for."""
    fsynced: list[int] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", full_fsync)
    monkeypatch.setattr(os, "fsync", fsynced.append)
    return import_again(), fsynced


def test_on_macos_an_fsync_waits_for_the_medium(monkeypatch: pytest.MonkeyPatch) -> None:
    full_fsync = FullFsync()
    module, fsynced = on_macos(monkeypatch, full_fsync)
    module.sync_file(7)
    module.sync_data(8)
    assert (full_fsync.fds, fsynced) == ([7, 8], [])


def test_on_macos_a_file_system_that_can_not_is_fsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    module, fsynced = on_macos(monkeypatch, FullFsync(errno.ENOTSUP))
    module.sync_data(7)
    assert fsynced == [7]


def test_on_macos_a_disk_that_fails_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module, fsynced = on_macos(monkeypatch, FullFsync(errno.EIO))
    with pytest.raises(OSError) as failed:
        module.sync_data(7)
    assert failed.value.errno == errno.EIO
    assert fsynced == []


class LibcOfMacos:
    """Its one call, done by Linux's."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def renamex_np(self, one: bytes, other: bytes, flags: int) -> int:
        assert flags == 2
        result: int = self._libc.renameat2(-100, one, -100, other, flags)
        return result


class LibcWithoutExchange:
    pass


@pytest.fixture(params=[None, pytest.param(LibcOfMacos, marks=needs_linux)])
def exchanging_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param is not None:
        libc = request.param()
        monkeypatch.setattr(ctypes, "CDLL", lambda name, use_errno: libc)


@pytest.mark.usefixtures("exchanging_system")
def test_two_folders_change_places(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    assert operating_system.exchange_names(str(tmp_path / "one"), str(tmp_path / "other"))
    assert [(tmp_path / name / "file").read_text() for name in ("one", "other")] == ["other", "one"]


@pytest.mark.usefixtures("exchanging_system")
def test_a_name_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        operating_system.exchange_names(str(tmp_path / "one"), str(tmp_path / "other"))


def test_a_system_that_can_not_exchange_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name, use_errno: LibcWithoutExchange())
    assert not operating_system.exchange_names(str(tmp_path / "one"), str(tmp_path / "other"))
