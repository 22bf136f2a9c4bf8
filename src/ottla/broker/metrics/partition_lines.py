"""The lines of topics, partitions and log directories: one pass over all partitions, of which there may be thousands.

Topic names are not escaped: no character that a topic name may have is special in the format.
"""

from collections.abc import Iterator
from time import sleep

from ottla.broker.metrics import definitions
from ottla.broker.metrics.lines import family, head
from ottla.broker.metrics.snapshot import PartitionReading, Snapshot

# The interpreter lets another thread in only every 5 ms unless this one gives way: the event loop must not wait that
# long, so nothing here goes on for much longer than half a millisecond.
_ITEMS_PER_PIECE = 500
_GIVE_WAY_S = 0.00005

_END = definitions.PARTITION_END.sample_name
_START = definitions.PARTITION_START.sample_name
_HIGH_WATERMARK = definitions.PARTITION_HIGH_WATERMARK.sample_name
_SIZE = definitions.PARTITION_SIZE.sample_name

# Positions in the sums of a topic.
_BYTES_OUT = 2
_TOPIC_FAMILIES = (
    definitions.TOPIC_MESSAGES_IN,
    definitions.TOPIC_BYTES_IN,
    definitions.TOPIC_BYTES_OUT,
    definitions.TOPIC_PARTITIONS,
    definitions.TOPIC_SIZE,
)


class PartitionLines:
    """Text of everything that is summed over partitions, and of the partitions themselves. Made for one scrape."""

    def __init__(self, snapshot: Snapshot, *, is_openmetrics: bool) -> None:
        self._snapshot = snapshot
        self._is_openmetrics = is_openmetrics
        self._topics: dict[str, list[int]] = {}  # in the order of _TOPIC_FAMILIES
        self._directories = {path: [0, 0, 0] for path in snapshot.online_directories}  # bytes, logs, segments
        self._offline = snapshot.unavailable_partitions

    def render(self, *, with_partitions: bool) -> Iterator[str]:
        """All of it, in pieces."""
        ends: list[str] = []
        starts: list[str] = []
        high_watermarks: list[str] = []
        sizes: list[str] = []
        for readings in _pieces(self._snapshot.partitions):
            self._sum_up(readings)
            if with_partitions:
                for (topic, index), high_watermark, _, _, (end, start, size_bytes, _, _, _) in readings:
                    labels = f'{{topic="{topic}",partition="{index}"}} '
                    ends.append(f"{_END}{labels}{end}\n")
                    starts.append(f"{_START}{labels}{start}\n")
                    high_watermarks.append(f"{_HIGH_WATERMARK}{labels}{high_watermark}\n")
                    sizes.append(f"{_SIZE}{labels}{size_bytes}\n")
        yield from self._sums()
        if with_partitions:
            for metric, lines in (
                (definitions.PARTITION_END, ends),
                (definitions.PARTITION_START, starts),
                (definitions.PARTITION_HIGH_WATERMARK, high_watermarks),
                (definitions.PARTITION_SIZE, sizes),
            ):
                yield head(metric, is_openmetrics=self._is_openmetrics)
                yield "".join(lines)

    def _sum_up(self, readings: list[PartitionReading]) -> None:
        topics = self._topics
        directories = self._directories
        for (topic, _), _, is_offline, path, (_, _, size_bytes, segments, messages_in, bytes_in) in readings:
            sums = topics.get(topic)
            if sums is None:
                sums = topics[topic] = [0, 0, 0, 0, 0]
            sums[0] += messages_in
            sums[1] += bytes_in
            sums[3] += 1
            if is_offline:
                self._offline += 1
                continue
            sums[4] += size_bytes
            directory = directories.get(path.rpartition("/")[0])
            if directory is not None:
                directory[0] += size_bytes
                directory[1] += 1
                directory[2] += segments

    def _sums(self) -> Iterator[str]:
        snapshot = self._snapshot
        is_openmetrics = self._is_openmetrics
        directories = self._directories
        for metric, value in (
            (definitions.PARTITIONS, len(snapshot.partitions) + snapshot.unavailable_partitions),
            (definitions.LEADER_PARTITIONS, snapshot.leader_partitions),
            (definitions.OFFLINE_PARTITIONS, self._offline),
            (definitions.UNDER_REPLICATED, snapshot.under_replicated),
            (definitions.UNDER_MIN_ISR, snapshot.under_min_isr),
            (definitions.LOG_SEGMENTS, sum(sums[2] for sums in directories.values())),
        ):
            yield family(metric, [((), value)], is_openmetrics=is_openmetrics)
        for position, metric in enumerate((definitions.LOG_DIRECTORY_SIZE, definitions.LOG_DIRECTORY_PARTITIONS)):
            samples = [((path,), sums[position]) for path, sums in directories.items()]
            yield family(metric, samples, is_openmetrics=is_openmetrics)
        topics = self._topics
        for topic, bytes_out in snapshot.bytes_out_by_topic.items():
            if topic in topics:
                topics[topic][_BYTES_OUT] = bytes_out
        for position, metric in enumerate(_TOPIC_FAMILIES):
            name = metric.sample_name
            sleep(_GIVE_WAY_S)
            yield head(metric, is_openmetrics=is_openmetrics)
            yield "".join([f'{name}{{topic="{topic}"}} {sums[position]}\n' for topic, sums in topics.items()])


def _pieces(readings: list[PartitionReading]) -> Iterator[list[PartitionReading]]:
    for start in range(0, len(readings), _ITEMS_PER_PIECE):
        sleep(_GIVE_WAY_S)
        yield readings[start : start + _ITEMS_PER_PIECE]
