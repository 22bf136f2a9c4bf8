"""The verdict is that all holds only when rows, ledger and score hold."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipeline.demo.verdict import TopicRows, poor_scores
from ottla.pipeline.scoring.score import Counts, Credits, Line, Score


def score_of(counts: Counts) -> Score:
    line = Line("device_switching", "all", "devices", counts, [], counts.right + counts.wrong)
    return Score({}, 10, [line], [], [], {}, 0.0, Credits(0, 0, 0))


def test_what_was_sent_is_collected_dead_or_repeated() -> None:
    rows = TopicRows("ml_login_log", sent=100, collected=95, dead=2, expected=95)
    assert rows.duplicates == 3
    assert rows.is_right
    assert not rows._replace(expected=96).is_right


def test_a_run_that_was_stopped_early_is_not_held_against_the_truth() -> None:
    assert TopicRows("ml_login_log", sent=100, collected=95, dead=2, expected=None).is_right


def test_a_score_is_a_problem_only_when_something_must_be_broken() -> None:
    assert poor_scores(score_of(Counts(9, 1, 1))) == []
    assert poor_scores(score_of(Counts(0, 0, 0))) == []
    assert len(poor_scores(score_of(Counts(9, 9, 0)))) == 1
    assert len(poor_scores(score_of(Counts(0, 0, 5)))) == 1


WRITE_SCORE = """
import sys
from pathlib import Path
from ottla.pipeline.demo.verdict import write_score
from tests.pipeline.demo.shown_run import verdict
write_score(verdict().score, Path(sys.argv[1]))
"""


@pytest.mark.process
@pytest.mark.slow
def test_plots_are_drawn_without_a_word_where_there_is_no_home(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITE_SCORE, str(tmp_path)],
        env={"PATH": os.environ["PATH"], "HOME": os.devnull, "TMPDIR": str(tmp_path)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "score.html").stat().st_size > 0
