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


# Tried where the hard limit is not granted: macOS says that there is none, and grants what its kernel is set to.
_LESSER_LIMITS = (1024 * 1024, 128 * 1024, 64 * 1024, 10_240)


def raise_open_file_limit() -> int:
    """Raise the soft limit to the hard one, or as near to it as the system grants; return the limit that now holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    is_unlimited = hard == resource.RLIM_INFINITY
    for limit in (hard, *(each for each in _LESSER_LIMITS if soft < each and (is_unlimited or each < hard))):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        except (OSError, ValueError):
            continue
        return limit
    return soft


def share_descriptors(limit: int, *, cached_files_max: int) -> DescriptorShares | None:
    """Connections get all but what the files need: enough for `cached_files_max` segments, a quarter where that is
    less. None when there is no limit.
    """
    if limit == resource.RLIM_INFINITY:
        return None
    files = min(cached_files_max + _OTHER_FILES, max(limit // 4, _FILES_MIN), limit // 2)
    return DescriptorShares(limit - files, min(cached_files_max, max(files - _OTHER_FILES, _CACHED_FILES_MIN)))
