"""`meta.properties` of a log directory: which broker of which cluster its data belongs to.

Kafka's version 0 (`broker.id`, `cluster.id`). A directory of another broker or cluster is refused, because serving it
would hand one cluster's records to another's clients.
"""

from typing import NamedTuple

from ottla.core.disk import Disk
from ottla.core.types import BrokerId

META_PROPERTIES_FILE = "meta.properties"


class ForeignLogDir(Exception):
    """The directory holds the data of another broker or cluster, or can't say whose; the broker must not start."""


class MetaProperties(NamedTuple):
    """What the file says."""

    broker_id: BrokerId
    cluster_id: str


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """The file's contents; None when the directory is new."""
    path = f"{directory}/{META_PROPERTIES_FILE}"
    if not disk.exists(path):
        return None
    properties = _parse(disk.read(path), path)
    version = properties.get("version")
    if version != "0":
        raise ForeignLogDir(
            f"{path}: version {version or 'missing'}, expected 0; the directory was not written by this kind of broker"
        )
    broker_id = properties.get("broker.id", "")
    cluster_id = properties.get("cluster.id", "")
    if not (broker_id.isascii() and broker_id.isdigit()) or not cluster_id:
        raise ForeignLogDir(
            f"{path}: broker.id {broker_id!r} and cluster.id {cluster_id!r} can't be used;"
            " restore the file, or remove it if the directory is empty"
        )
    return MetaProperties(int(broker_id), cluster_id)


def write_meta_properties(disk: Disk, directory: str, properties: MetaProperties) -> None:
    text = f"#\nversion=0\nbroker.id={properties.broker_id}\ncluster.id={properties.cluster_id}\n"
    disk.write_atomically(f"{directory}/{META_PROPERTIES_FILE}", text.encode())


def ignores_case(disk: Disk, directory: str) -> bool:
    """Does the file system take `A` and `a` for one name, as macOS's does? Of a directory that is claimed."""
    return disk.exists(f"{directory}/{META_PROPERTIES_FILE.upper()}")


def claim_log_dir(disk: Disk, directory: str, expected: MetaProperties) -> None:
    """Check that the directory is ours, and mark it as ours when it is new."""
    found = read_meta_properties(disk, directory)
    if found is None:
        write_meta_properties(disk, directory, expected)
    elif found.cluster_id != expected.cluster_id:
        raise ForeignLogDir(
            f"{directory}: belongs to cluster {found.cluster_id}, this broker is in cluster {expected.cluster_id};"
            " point log.dirs at this cluster's directory or the broker at that directory's cluster"
        )
    elif found.broker_id != expected.broker_id:
        raise ForeignLogDir(
            f"{directory}: belongs to broker {found.broker_id}, this broker is {expected.broker_id};"
            " correct broker.id or log.dirs"
        )


def _parse(data: bytes, path: str) -> dict[str, str]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ForeignLogDir(f"{path}: not text at byte {error.start}; restore the file") from None
    properties = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            key, _, value = line.partition("=")
            properties[key.strip()] = value.strip()
    return properties
