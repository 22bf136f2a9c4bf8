"""Runs bench/loader.c, the raw load generator. One run = one measurement of one broker."""

import json
import subprocess
from pathlib import Path
from typing import NamedTuple

from bench.compiling import compiled
from bench.requests import PackedRequest


class LoadError(RuntimeError):
    """The broker closed a connection, answered nonsense, or answered with errors."""


class Load(NamedTuple):
    """How the requests are sent."""

    connections: int
    inflight: int
    partitions: int = 1
    seconds: float = 4.0
    warmup_seconds: float = 1.0
    max_bytes: int = 0
    requests_per_second: float = 0
    offset_end: int = 0


class LoadResult(NamedTuple):
    requests: int
    seconds: float
    requests_per_second: float
    megabytes_per_second: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


def loader_command(port: int, request: PackedRequest, load: Load, *, topic: str, scratch_dir: Path) -> list[str]:
    request_file = scratch_dir / f"{topic}.request"
    request_file.write_bytes(request.frame)
    settings: dict[str, object] = {
        "port": port,
        "request_file": request_file,
        "requests": request.requests,
        "head_bytes": request.head_bytes,
        "error_at": request.error_at,
        "partition_at": request.partition_at,
        "offset_at": request.offset_at,
        "topic_bytes": len(topic.encode()),
        "partitions": load.partitions,
        "connections": load.connections,
        "inflight": load.inflight,
        "seconds": load.seconds,
        "warmup_seconds": load.warmup_seconds,
        "max_bytes": load.max_bytes,
        "rate": load.requests_per_second,
        "payload_bytes": request.payload_bytes,
        "offset_step": request.offset_step,
        "offset_end": load.offset_end,
    }
    return [str(compiled("loader")), *(f"{key}={value}" for key, value in settings.items())]


def run_loader(port: int, request: PackedRequest, load: Load, *, topic: str, scratch_dir: Path) -> LoadResult:
    command = loader_command(port, request, load, topic=topic, scratch_dir=scratch_dir)
    timeout_seconds = load.seconds + load.warmup_seconds + 60
    finished = subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False)
    if finished.returncode != 0:
        raise LoadError(finished.stderr.removeprefix("connected").strip())
    return parse_result(finished.stdout)


def parse_result(printed: str) -> LoadResult:
    figures = json.loads(printed)
    if figures["errors"] or figures["short_answers"] or not figures["requests"]:
        raise LoadError(f"answers with errors, or short, or none: {printed.strip()}")
    return LoadResult(**{name: figures[name] for name in LoadResult._fields})
