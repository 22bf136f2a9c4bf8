"""What a user's own code raised inside the producer goes to the log `ottla.producer`: it can be raised to nobody."""


def report_exception(message: str, *arguments: object) -> None:
    """Call it where the exception is being handled."""
    from logging import getLogger  # milliseconds of import that only a failure pays for

    getLogger("ottla.producer").exception(message, *arguments)
