"""The process's limit of open files: every connection and every open segment costs one, and neither may take all."""

import resource
from typing import NamedTuple

# For the store, listeners, the loop, checkpoints, files that are open for a moment.
_OTHER_FILES = 64
_FILES_MIN = 96
_CACHED_FILES_MIN = 16


class DescriptorShares(NamedTuple):
    """How the descriptors are divided."""

    connections_max: int
    cached_files_max: int


def raise_open_file_limit() -> int:
    """Raise the soft limit to the hard one and return the limit that now holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        # Some systems report a hard limit that they don't grant (an unlimited one, most often); the old one holds.
        return soft
    return hard


def share_descriptors(limit: int, *, cached_files_max: int) -> DescriptorShares | None:
    """Connections get all but what the files need: enough for `cached_files_max` segments, a quarter where that is
    less. None when there is no limit.
    """
    if limit == resource.RLIM_INFINITY:
        return None
    files = min(cached_files_max + _OTHER_FILES, max(limit // 4, _FILES_MIN), limit // 2)
    return DescriptorShares(limit - files, min(cached_files_max, max(files - _OTHER_FILES, _CACHED_FILES_MIN)))
