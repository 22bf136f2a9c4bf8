"""Records that were to be read and are gone: named, and an error unless `failOnDataLoss` is false."""

import logging
from typing import Final

logger: Final = logging.getLogger("ottla.spark")

_ADVICE: Final = (
    "records may have aged out before they were read, or the topic was deleted or made anew; "
    "to go on with what is there, set failOnDataLoss to false"
)


class DataLoss(RuntimeError):
    """Records that a query was to read are not there any more."""


def report_loss(what: str, *, fails: bool) -> None:
    """Raise, or warn in the log of Spark's workers and go on."""
    if fails:
        raise DataLoss(f"{what}; {_ADVICE}")
    logger.warning("%s; going on, as failOnDataLoss is false", what)
