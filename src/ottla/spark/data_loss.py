"""Records that a query should read and that are gone: an error, or a warning if `failOnDataLoss` is false."""

import logging
from typing import Final

logger: Final = logging.getLogger("ottla.spark")

_ADVICE: Final = (
    "records may have expired before they were read, or the topic was deleted or created again; "
    "to go on with the records that are left, set failOnDataLoss to false"
)


class DataLoss(RuntimeError):
    """Records that a query should read don't exist any more."""


def report_loss(what: str, *, fails: bool) -> None:
    """Raise, or warn in the log of Spark's workers and go on."""
    if fails:
        raise DataLoss(f"{what}; {_ADVICE}")
    logger.warning("%s; going on, as failOnDataLoss is false", what)
