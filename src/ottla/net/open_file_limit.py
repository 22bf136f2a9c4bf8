"""The process's limit of open files: every connection and every open segment costs one."""

import resource


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
