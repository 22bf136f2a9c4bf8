"""The process's limit of open files: every connection and every open segment costs one."""

import resource

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
