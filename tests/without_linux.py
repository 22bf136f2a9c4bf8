"""Takes away from Python what only Linux has, and makes the rest as it is on macOS; then runs a module as `-m` does.

    python -m tests.without_linux MODULE ARGUMENTS…

For tests on Linux of what a system without these calls would do; libraries written in C, uvloop among them, still have
them. What was called of macOS's own is written to the file named by WITHOUT_LINUX_REPORT at the end.
"""

import atexit
import ctypes
import errno
import fcntl
import importlib
import os
import resource
import runpy
import select
import selectors
import socket
import sys
from pathlib import Path
from typing import Any

# fmt: off
ONLY_LINUX = {
    os: [
        "RWF_NOWAIT", "RWF_HIPRI", "RWF_DSYNC", "RWF_SYNC", "RWF_APPEND", "posix_fadvise", "fdatasync",
        "preadv", "pwritev", "sched_getaffinity", "sched_setaffinity", "pidfd_open", "eventfd", "memfd_create",
        "copy_file_range", "splice", "O_DIRECT", "O_TMPFILE", "getrandom", "getxattr", "setxattr", "pipe2",
    ],
    select: [name for name in dir(select) if name.lower().startswith("epoll")],
    socket: [
        "MSG_MORE", "MSG_ERRQUEUE", "MSG_CMSG_CLOEXEC", "SOCK_NONBLOCK", "SOCK_CLOEXEC", "SO_INCOMING_CPU", "TCP_CORK",
        "TCP_QUICKACK", "TCP_USER_TIMEOUT", "AF_NETLINK", "AF_PACKET",
    ],
    resource: ["prlimit", "RLIMIT_NICE", "RLIMIT_SIGPENDING"],
}
# fmt: on
FULLFSYNC = 51  # its number on macOS
OPEN_FILES = 256  # what a shell gives there
OPEN_FILES_MAX = 10_240
used: set[str] = set()


def take_away() -> None:
    for module, names in ONLY_LINUX.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    importlib.reload(selectors)  # it chose when it was imported
    if hasattr(os, "process_cpu_count"):
        os.process_cpu_count = os.cpu_count  # which asks sched_getaffinity on Linux
    _hide_proc()
    _hide_prctl()
    os.sendfile = _sendfile_of_macos(os.sendfile)
    _give_fullfsync()
    _refuse_unlimited_files()


def _sendfile_of_macos(linux_sendfile: Any) -> Any:
    def sendfile(
        out_fd: int,
        in_fd: int,
        offset: int,
        count: int,
        headers: tuple[()] = (),
        trailers: tuple[()] = (),
        flags: int = 0,
    ) -> int:
        used.add("sendfile")
        assert (headers, trailers, flags) == ((), (), 0)
        if count == 0:
            count = os.fstat(in_fd).st_size - offset  # "until the end of the file"
        # Never more than a part, as with a socket whose buffer is small; at the end of the file 0.
        return linux_sendfile(out_fd, in_fd, offset, min(count, 100_000))

    return sendfile


def _give_fullfsync() -> None:
    real = fcntl.fcntl

    def full(fd: int, command: int, *arguments: Any) -> Any:
        if command != FULLFSYNC:
            return real(fd, command, *arguments)
        used.add("F_FULLFSYNC")
        return os.fsync(fd)

    fcntl.fcntl = full  # type: ignore[assignment]
    fcntl.F_FULLFSYNC = FULLFSYNC  # type: ignore[attr-defined]


def _refuse_unlimited_files() -> None:
    real_get, real_set = resource.getrlimit, resource.setrlimit
    unlimited = resource.RLIM_INFINITY
    real_set(resource.RLIMIT_NOFILE, (OPEN_FILES, real_get(resource.RLIMIT_NOFILE)[1]))

    def getrlimit(which: int) -> tuple[int, int]:
        soft, hard = real_get(which)
        return (soft, unlimited) if which == resource.RLIMIT_NOFILE else (soft, hard)

    def setrlimit(which: int, limits: tuple[int, int]) -> None:
        if which == resource.RLIMIT_NOFILE:
            if not 0 <= limits[0] <= OPEN_FILES_MAX:
                raise ValueError("current limit exceeds maximum limit")
            limits = (limits[0], real_get(which)[1])
            used.add(f"{limits[0]} open files")
        real_set(which, limits)

    resource.getrlimit, resource.setrlimit = getrlimit, setrlimit


def _hide_prctl() -> None:
    real = ctypes.CDLL

    class CDLL(real):  # type: ignore[misc,valid-type]
        def __getattr__(self, name: str) -> Any:
            if name in ("prctl", "renameat2", "epoll_create1", "pidfd_open"):
                raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
            return super().__getattr__(name)

    ctypes.CDLL = CDLL  # type: ignore[misc]


def _hide_proc() -> None:
    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | bytes):
            path = os.fsdecode(arguments[0])
            if path == "/proc" or path.startswith(("/proc/", "/sys/")):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    sys.addaudithook(refuse)


def main() -> None:
    report = os.environ.get("WITHOUT_LINUX_REPORT")
    if report is not None:
        atexit.register(lambda: Path(report).write_text("\n".join(sorted(used))))
    take_away()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
