"""How far a producer is: what it has delivered and given up since it was made."""

from typing import NamedTuple


class ProducerCounts(NamedTuple):
    """Bytes are uncompressed, with the headers of their batches. With acks=0 stored means sent."""

    stored_records: int
    stored_bytes: int
    failed_records: int
    first_failure: Exception | None
