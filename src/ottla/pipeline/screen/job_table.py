"""The jobs of a run as a table, for `make run` and `ottla pipeline run`."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.text import Text

from ottla.pipeline.screen.columns import Column, table_lines
from ottla.pipeline.screen.terminal import Glyphs

_GOOD_STATES: Final = ("running", "caught up")
_COUNT_WIDTH: Final = len("999,999")
_STATE_WIDTH: Final = len("catching up")


class JobRow(NamedTuple):
    """One job, since the start of the run."""

    job: str
    events_per_s: float
    rows_read: int
    rows_written: int
    lag: int | None  # None: not known
    last_batch_ms: int | None
    batches: int
    busy_ms: int
    duplicates: int
    late: int
    dead: int
    restarts: int
    state: str


def job_lines(rows: Sequence[JobRow], *, width: int, glyphs: Glyphs) -> list[Text]:
    """A line of titles and one for each job, none longer than `width`."""

    def figures(title: str, values: Sequence[float | None], rank: int, short: str = "", width_min: int = 0) -> Column:
        cells = ["-" if value is None else f"{value:,.0f}" for value in values]
        return Column(title, cells, rank, short, width_min=width_min)

    columns = [
        Column("job", [row.job for row in rows], 0, is_text=True, styles=["cyan"] * len(rows)),
        figures("events/s", [row.events_per_s for row in rows], 2, "ev/s", len("99,999")),
        figures("read", [row.rows_read for row in rows], 1, width_min=_COUNT_WIDTH),
        figures("written", [row.rows_written for row in rows], 4, width_min=_COUNT_WIDTH),
        figures("lag", [row.lag for row in rows], 0, width_min=_COUNT_WIDTH),
        figures("batch ms", [row.last_batch_ms for row in rows], 3, "ms", len("9,999")),
        figures("batches", [row.batches for row in rows], 8),
        figures("mean ms", [row.busy_ms // max(row.batches, 1) for row in rows], 9),
        figures("duplicates", [row.duplicates for row in rows], 6, "dup."),
        figures("late", [row.late for row in rows], 7),
        figures("dead", [row.dead for row in rows], 5),
        figures("restarts", [row.restarts for row in rows], 10),
        Column(
            "state",
            [row.state for row in rows],
            1,
            is_text=True,
            width_min=_STATE_WIDTH,
            styles=["green" if row.state in _GOOD_STATES else "yellow" for row in rows],
        ),
    ]
    return table_lines(columns, width=width, glyphs=glyphs)
