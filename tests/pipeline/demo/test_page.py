"""The live view at every size: whole lines, whole figures, and the newest alerts."""

import pytest

from ottla.pipeline.demo.page import View, page
from ottla.pipeline.screen.terminal import ASCII, UNICODE, Size
from tests.pipeline.demo.figures_of_a_run import alerts, figures, job

HINT = ".venv/bin/ottla consume -b 127.0.0.1:46269 -t ml_login_log -o beginning"
SIZES = [(20, 5), (40, 15), (60, 24), (80, 24), (100, 30), (200, 50), (200, 8), (30, 60)]


def view(alert_count: int = 100, *messages: str, **changes: object) -> View:
    return View(figures(**changes), figures(at_s=5.0, sent=70_000), alerts(alert_count), messages, HINT)


def lines_of(columns: int, rows: int, shown: View | None = None) -> list[str]:
    return [line.plain for line in page(shown or view(), Size(columns, rows), UNICODE)]


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_the_view_fits_with_the_newest_alert_in_it(columns: int, rows: int) -> None:
    for shown in (view(), view(0), view(3, "a job failed " * 30), view(share=None), view(doing="stopping " * 9)):
        lines = lines_of(columns, rows, shown)
        assert len(lines) <= rows
        assert max(len(line) for line in lines) < columns
    assert len([line for line in lines_of(columns, rows) if "inviter" in line or "2025" in line or "Sep" in line]) >= 1
    text = "\n".join(lines_of(columns, rows))
    assert "alerts  41" in text


@pytest.mark.parametrize(("columns", "rows"), SIZES[1:])
def test_the_newest_alerts_are_the_ones_that_are_shown(columns: int, rows: int) -> None:
    shown = [line for line in lines_of(columns, rows) if "inviter" in line]
    assert len(shown) >= 3
    assert "u99" in shown[0]
    assert "u98" in shown[1]


def test_80_by_24_shows_every_job_and_every_kind_of_figure() -> None:
    lines = lines_of(80, 24)
    text = "\n".join(lines)
    for words in ("131,328 events, 12,266/s, 36.3 MB, acks p50", "broker 23 MB", "Spark 2,192 MB", "8,928 entries"):
        assert words in text
    for name in ("collect", "income_and_tasks", "device_switching", "invite_fraud", "phone_region"):
        assert name in text
    assert "109,123" in text
    assert len(lines) == 24
    assert lines[-1] == f"try  {HINT}"


def test_a_wide_terminal_has_more_columns_more_alerts_and_longer_reasons() -> None:
    small, large = lines_of(80, 24), lines_of(200, 50)
    assert sum("inviter" in line for line in large) > 2 * sum("inviter" in line for line in small)
    assert max(len(line) for line in large) > 150
    assert "mean ms" in "\n".join(large)
    assert "mean ms" not in "\n".join(small)


def test_while_alerts_come_the_lines_below_them_stay() -> None:
    for count in (0, 1, 5, 100):
        assert lines_of(80, 24, view(count))[23] == f"try  {HINT}"


def test_the_bar_is_as_long_as_the_share_that_is_sent() -> None:
    assert "━" * 10 + "─" * 10 not in lines_of(60, 24, view(share=1.0))[1]
    line = page(view(share=0.5), Size(80, 24), ASCII)[1].plain
    assert line.count("=") == line.count("-") > 3
    assert line.endswith("sending, 10 s left")


def test_once_all_is_sent_a_job_is_caught_up_or_it_is_not() -> None:
    jobs = [job("collect", lag=0), job("invite_fraud", lag=7), job("phone_region", state="ended", lag=7)]
    sending = "\n".join(lines_of(80, 24, view(jobs=jobs)))
    assert "caught up" not in sending
    text = "\n".join(lines_of(80, 24, view(jobs=jobs, doing="all sent, jobs catch up")))
    assert [text.count(words) for words in ("caught up", "catching up", "ended")] == [1, 1, 1]


def test_what_happened_is_shown_with_the_latest_last() -> None:
    text = "\n".join(lines_of(80, 24, view(5, "first", "second", "third", "fourth")))
    assert "first" not in text
    assert text.index("second") < text.index("fourth")
