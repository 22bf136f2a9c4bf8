"""The address of the new leader that newer Produce and Fetch responses have with "not the leader" (KIP-951)."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.protocol.primitives import (
    INT32,
    Reader,
    write_compact_count,
    write_compact_nullable_string,
    write_compact_string,
)


class LeaderAndEpoch(NamedTuple):
    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


def encode_node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytearray:
    """The value of the tagged field."""
    out = bytearray()
    write_compact_count(out, len(endpoints))
    for endpoint in endpoints:
        out += INT32.pack(endpoint.node_id)
        write_compact_string(out, endpoint.host)
        out += INT32.pack(endpoint.port)
        write_compact_nullable_string(out, endpoint.rack)
        out.append(0)
    return out


def read_node_endpoints(reader: Reader) -> list[NodeEndpoint]:
    endpoints = []
    for _ in range(reader.compact_count(11)):
        node_id, host = reader.int32(), reader.compact_string()
        port, rack = reader.int32(), reader.compact_nullable_string()
        reader.skip_tagged_fields()
        endpoints.append(NodeEndpoint(node_id, host, port, rack))
    return endpoints
