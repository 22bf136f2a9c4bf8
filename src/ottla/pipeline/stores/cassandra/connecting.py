"""Sessions with a Cassandra cluster: its address, reads and writes, one session for a process. Knows no table."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, Semaphore
from typing import Any, Final, NamedTuple

from cassandra import ConsistencyLevel, DriverException, OperationTimedOut
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import RoundRobinPolicy, TokenAwarePolicy
from cassandra.query import BatchStatement, BatchType, BoundStatement, PreparedStatement, tuple_factory

from ottla.pipeline.stores.port import StoreError

IN_FLIGHT_MAX: Final = 128
_BATCH_STATEMENTS_MAX: Final = 10
_BATCH_BYTES_MAX: Final = 4096
_READS_AT_ONCE: Final = 128
_PROTOCOL_VERSION: Final = 5  # Cassandra 4 and newer
_REQUEST_SECONDS: Final = 60.0
_PROBLEMS: Final = (DriverException, NoHostAvailable, OperationTimedOut)


class Address(NamedTuple):
    """Pickled to the executors."""

    hosts: tuple[str, ...]
    port: int
    keyspace: str

    def __str__(self) -> str:
        return f"{','.join(self.hosts)}:{self.port}/{self.keyspace}"


def parse_address(text: str) -> Address:
    """`HOST[,HOST…]:PORT/KEYSPACE`; the port may be left out."""
    server, slash, keyspace = text.partition("/")
    hosts, colon, port = server.rpartition(":")
    if not colon:
        hosts, port = server, "9042"
    names = tuple(host.strip() for host in hosts.split(",") if host.strip())
    if not slash or not keyspace.isidentifier() or not names or not port.isdigit():
        raise ValueError(
            f"{text!r} is not the address of a Cassandra keyspace; expected HOST:PORT/KEYSPACE, such as "
            "127.0.0.1:9042/ottla"
        )
    return Address(names, int(port), keyspace)


class Connection:
    """A session and its prepared statements. One for a process, shared by its threads."""

    def __init__(self, address: Address) -> None:
        profile = ExecutionProfile(
            load_balancing_policy=TokenAwarePolicy(RoundRobinPolicy()),
            consistency_level=ConsistencyLevel.LOCAL_QUORUM,  # what one batch wrote the next one reads
            request_timeout=_REQUEST_SECONDS,
            row_factory=tuple_factory,
        )
        self._cluster = Cluster(
            list(address.hosts),
            address.port,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            protocol_version=_PROTOCOL_VERSION,
            compression=False,
        )
        self._prepared: dict[str, PreparedStatement] = {}
        with reported(f"connecting to Cassandra at {address}"):
            self.session: Session = self._cluster.connect()

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with reported(statement):
            return list(self.session.execute(self.prepared(statement), values) if values else self._plain(statement))

    def read(self, statement: str, values: Sequence[Any] = (), *, fetched_rows: int) -> Iterator[list[tuple[Any, ...]]]:
        """Page by page."""
        with reported(statement):
            prepared = self.prepared(statement)
            prepared.fetch_size = fetched_rows
            pages = self.session.execute(prepared, values)
            while True:
                if pages.current_rows:
                    yield pages.current_rows
                if not pages.has_more_pages:
                    return
                pages.fetch_next_page()

    def read_all(self, statement: str, keys: Sequence[Sequence[Any]]) -> list[list[tuple[Any, ...]]]:
        """The rows of each key, read in parallel."""
        with reported(statement):
            results = execute_concurrent_with_args(
                self.session, self.prepared(statement), keys, concurrency=_READS_AT_ONCE
            )
            return [list(rows) for _, rows in results]

    def write_all(self, statement: str, rows: Iterable[Sequence[Any]]) -> int:
        """Returns how many were written. A bounded number is in flight at once; all are done when this returns."""
        writer = Writer(self)
        with reported(statement):
            prepared = self.prepared(statement)
        for row in rows:
            writer.write(prepared, row)
        return writer.finish()

    def prepared(self, statement: str) -> PreparedStatement:
        prepared = self._prepared.get(statement)
        if prepared is None:
            prepared = self._prepared[statement] = self.session.prepare(statement)
        return prepared

    def close(self) -> None:
        self._cluster.shutdown()

    def _plain(self, statement: str) -> Iterable[tuple[Any, ...]]:
        rows: Iterable[tuple[Any, ...]] = self.session.execute(statement)
        return rows


class Writer:
    """Prepared statements, a bounded number of them in flight. `finish` raises the first failure.

    Statements for the same replicas go together in unlogged batches: that costs both sides a fraction of the work.
    Batches stay below the size at which Cassandra warns.
    """

    def __init__(self, connection: Connection) -> None:
        self._session = connection.session
        self._metadata = connection.session.cluster.metadata
        self._is_one_node = len(self._metadata.all_hosts()) == 1
        self._free = Semaphore(IN_FLIGHT_MAX)
        self._waiting: dict[tuple[Any, ...], _Waiting] = {}
        self._problem: Exception | None = None
        self._written = 0

    def write(self, statement: PreparedStatement, values: Sequence[Any]) -> None:
        bound = statement.bind(values)
        size_bytes = sum(len(value) for value in bound.values if isinstance(value, bytes))
        replicas = () if self._is_one_node else tuple(self._metadata.get_replicas(bound.keyspace, bound.routing_key))
        waiting = self._waiting.get(replicas)
        if waiting is not None and (
            len(waiting.statements) == _BATCH_STATEMENTS_MAX or waiting.size_bytes + size_bytes > _BATCH_BYTES_MAX
        ):
            self._send(self._waiting.pop(replicas).statements)
            waiting = None
        if waiting is None:
            waiting = self._waiting[replicas] = _Waiting()
        waiting.statements.append(bound)
        waiting.size_bytes += size_bytes
        self._written += 1

    def finish(self) -> int:
        for waiting in self._waiting.values():
            self._send(waiting.statements)
        self._waiting.clear()
        for _ in range(IN_FLIGHT_MAX):
            self._free.acquire()
        if self._problem is not None:
            with reported(f"one of {self._written} writes"):
                raise self._problem
        return self._written

    def _send(self, statements: list[BoundStatement]) -> None:
        if self._problem is not None:
            return
        self._free.acquire()
        request = statements[0]
        if len(statements) > 1:
            request = BatchStatement(BatchType.UNLOGGED)
            for statement in statements:
                request.add(statement)
        self._session.execute_async(request).add_callbacks(self._on_written, self._on_problem)

    def _on_written(self, _: object) -> None:
        self._free.release()

    def _on_problem(self, problem: Exception) -> None:
        self._problem = problem
        self._free.release()


class _Waiting:
    """Statements that will go in one batch."""

    __slots__ = ("size_bytes", "statements")

    def __init__(self) -> None:
        self.statements: list[BoundStatement] = []
        self.size_bytes = 0


@contextmanager
def reported(doing: str) -> Iterator[None]:
    """Turns what the driver raises into a StoreError that says what was being done."""
    try:
        yield
    except _PROBLEMS as problem:
        raise StoreError(
            f"Cassandra: {doing} failed: {problem}; what was written stays, and the batch can be run again"
        ) from problem


_connections: dict[tuple[tuple[str, ...], int], Connection] = {}
_connections_lock = Lock()


def worker_connection(address: Address) -> Connection:
    """An executor's connection, kept while its process lives: connecting costs more than many a batch."""
    with _connections_lock:
        key = (address.hosts, address.port)
        if key not in _connections:
            _connections[key] = Connection(address)
        return _connections[key]
