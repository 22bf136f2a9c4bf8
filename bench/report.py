"""Shows the rows of a run: a table on the terminal, a JSON file, a Markdown page. Ratio first, goals beside it."""

import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.model import EARLIER, OURS, THEIRS, Metric, Row

_COLUMNS = ("ratio", "goal", "", "case", "Ottla", "Kafka", "unit", "CPU Ottla", "CPU Kafka")
_EARLIER_COLUMNS = tuple(column.replace("Kafka", "earlier") for column in _COLUMNS)
_CLIENT_COLUMNS = ("ratio", "goal", "", "case", "Ottla", "other", "unit", "other client")

_PIPELINE_PICTURE = "benchmarks-pipeline.png"
_CONTROLLER_PICTURE = "benchmarks-controller.png"


def machine() -> dict[str, str]:
    processor = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": processor or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory_bytes / 1e9:.0f} GB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "fdatasync": f"{_fdatasync_ms():.2f} ms",
        "page cache": f"{_page_cache_megabytes_per_second():.0f} MB/s",
        "load average": f"{os.getloadavg()[0]:.1f}",
    }


def _fdatasync_ms() -> float:
    """Median cost of making 4 KB durable in the temporary folder: what the durable cases stand on."""
    costs = []
    with tempfile.TemporaryFile() as file:
        for _ in range(50):
            file.write(bytes(4096))
            file.flush()
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            costs.append(1000 * (time.perf_counter() - started))
    return statistics.median(costs)


def _page_cache_megabytes_per_second() -> float:
    """How fast one process writes 512 MB into a file: no broker takes records faster than that."""
    block = bytes(1024 * 1024)
    with tempfile.TemporaryFile(buffering=0) as file:
        started = time.perf_counter()
        for _ in range(512):
            file.write(block)
        return 512 * len(block) / 1e6 / (time.perf_counter() - started)


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def cells(row: Row) -> tuple[str, ...]:
    ratio = row.ratio()
    title = row.title if len(row.metric.name.split("/")) > 1 else f"{row.title}: {row.metric.name}"
    return (
        "-" if ratio is None else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}",
        row.metric.goal_text(),
        row.verdict(),
        title,
        _figure(row.median(OURS)),
        _figure(row.median(row.rival)),
        row.metric.unit,
        *((row.rival,) if row.is_of_clients else (_figure(row.cpu_cores.get(name)) for name in (OURS, row.rival))),
    )


def show(rows: Sequence[Row], notes: Sequence[str], console: Console) -> None:
    beside_kafka = [row for row in rows if row.rival == THEIRS]
    beside_earlier = [row for row in rows if row.rival == EARLIER]
    of_clients = [row for row in rows if row.is_of_clients]
    if beside_kafka:
        _show_table("Ottla beside Apache Kafka", _COLUMNS, beside_kafka, console)
    if beside_earlier:
        _show_table("Ottla beside an earlier checkout", _EARLIER_COLUMNS, beside_earlier, console)
    if of_clients:
        _show_table("Ottla's clients beside others, on one broker", _CLIENT_COLUMNS, of_clients, console)
    for note in [*notes, *dict.fromkeys(f"{row.case}: {row.note}" for row in rows if row.note)]:
        console.print(f"note: {note}", markup=False)


def _show_table(title: str, columns: Sequence[str], rows: Sequence[Row], console: Console) -> None:
    table = Table(title=f"{title}: ratio of medians (lower is better where the goal says ≤)")
    for column in columns:
        is_text = column in ("case", "unit", "", "other client")
        table.add_column(column, justify="left" if is_text else "right", no_wrap=True)
    for row in rows:
        table.add_row(*cells(row), style="red" if row.verdict() == "FAIL" else None)
    console.print(table)


def write_json(
    path: Path, rows: Sequence[Row], notes: Sequence[str], *, about: dict[str, str], settings: dict[str, object]
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    run = {
        "machine": about,
        "settings": settings,
        "notes": list(notes),
        "rows": [
            {
                "case": row.case,
                "title": row.title,
                "metric": row.metric.name,
                "unit": row.metric.unit,
                "rival": row.rival,
                "ratio": row.ratio(),
                "goal": row.metric.goal_text(),
                "verdict": row.verdict(),
                "medians": {name: row.median(name) for name in row.rounds},
                "rounds": {name: list(figures) for name, figures in row.rounds.items()},
                "cpu_cores": dict(row.cpu_cores),
                "note": row.note,
            }
            for row in rows
        ],
    }
    path.write_text(json.dumps(run, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    return [
        Row(
            row["case"],
            row["title"],
            _metric(row["metric"], row["unit"], row["goal"]),
            row["rounds"],
            row["cpu_cores"],
            row["note"],
            row["rival"],
        )
        for row in json.loads(path.read_text())["rows"]
    ]


def _metric(name: str, unit: str, goal_text: str) -> Metric:
    """From its words: `Metric.goal_text` the other way round."""
    if goal_text == "-":
        return Metric(name, unit)
    sign, figure, *of_unit = goal_text.split(" ", 2)
    goal = float(figure.replace(",", ""))
    return Metric(name, unit, higher_is_better=sign == "≥", goal=goal, absolute_goal=bool(of_unit))


def _markdown_table(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    return [
        "| " + " | ".join(column or "reached" for column in columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(cells(row)) + " |" for row in rows),
    ]


def write_markdown(
    path: Path, rows: Sequence[Row], notes: Sequence[str], *, about: dict[str, str], rounds: int
) -> None:
    lines = [
        "# Benchmarks",
        "",
        "Written by `python -m bench --markdown docs/benchmarks.md`. Both brokers run side by side on one machine and",
        f"take turns within each round; figures are medians of {rounds} rounds. Ratio = Ottla : Apache Kafka; where",
        "the goal says ≤, lower is better. CPU = cores kept busy by the broker under the load.",
        "Kafka is Apache Kafka 4.3.0, one KRaft node, heap 1 GB and G1 as in its own start script; both brokers are",
        "warmed up before anything is measured. confluent-kafka consumes with `fetch.queue.backoff.ms=1`: with its",
        "default of 1000 it pauses whenever a fast broker fills its queue. Groups settle with",
        "`group.initial.rebalance.delay.ms=0` at both. A topic counts as created when its partitions take requests;",
        "Kafka answers before that.",
        "",
        f"Machine: {about['processor']}, {about['cores']} cores, {about['memory']}, Linux {about['kernel']}, "
        f"Python {about['python']}, fdatasync of 4 KB {about['fdatasync']}, "
        f"writing to a file {about['page cache']}, load average before the run {about['load average']}.",
        "",
        *_markdown_table(_COLUMNS, [row for row in rows if not row.is_of_clients]),
    ]
    of_clients = [row for row in rows if row.is_of_clients]
    if of_clients:
        lines += [
            "",
            "## Clients",
            "",
            "Ottla's Python clients beside others, all on one Ottla broker in the same run: each in a process of its",
            "own, taking turns within each round, with the same records, one partition, `acks=1` and equal limits of",
            "batches and buffers. Whoever consumes record by record looks at every value. Without the kernel is what a",
            "machine has on which the C kernel could not be built. Ratio = Ottla : the other client.",
            "",
            *_markdown_table(_CLIENT_COLUMNS, of_clients),
        ]
    if (path.parent / _PIPELINE_PICTURE).exists():
        lines += [
            "",
            "## The pipeline",
            "",
            "How its cases are measured is told in [pipeline-speed.md](pipeline-speed.md); drawn with `--plots docs`:",
            "",
            f"![cost of an event against days and accounts, time to an alert, lag]({_PIPELINE_PICTURE})",
        ]
    if (path.parent / _CONTROLLER_PICTURE).exists():
        lines += [
            "",
            "## The controller",
            "",
            "CPU seconds of a controller alone, with brokers that only answer and the store in memory, as the cluster",
            "grows; in the take-over every partition is elected anew. Drawn with `--plots docs`:",
            "",
            f"![CPU of a take-over and of a fail-over against partitions and brokers]({_CONTROLLER_PICTURE})",
        ]
    all_notes = [*notes, *dict.fromkeys(f"{row.case}: {row.note}" for row in rows if row.note)]
    if all_notes:
        lines += ["", "Notes:", ""]
        lines += [f"- {' '.join(note.split())}" for note in all_notes]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
