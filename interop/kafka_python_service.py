"""Stands in for `test/service.py`, which kafka-python's source package lacks: its fixtures import two names from it.

Copied beside the unpacked tests. The broker under test runs already and belongs to who started it: nothing is started,
stopped or read here.
"""


class ExternalService:
    """A broker that runs elsewhere; the fixtures keep it only to ask for its address."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Nothing to open: it runs."""

    def close(self) -> None:
        """Nothing to close: who started it stops it."""

    def dump_logs(self) -> None:
        """Its output is where it was started, not here."""


class SpawnedService:
    """What starts a Kafka of its own; none of the tests that are run here may do that."""

    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError("a test wants to start a Kafka of its own: it needs no KAFKA_URI, deselect it with a reason")
