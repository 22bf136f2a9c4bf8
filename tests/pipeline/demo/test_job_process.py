"""What the demo makes of the files that a run of jobs keeps."""

import json
from pathlib import Path

from ottla.pipeline.demo.job_process import JobProcess
from ottla.pipeline.running.progress import JobProgress, MetricsFile

NOISE = """\
phone numbers are hashed with the key for development, known to everyone; set phones.hash_key
collect failed and starts again in 0.5 s: no answer
----------------------------------------
Exception occurred during processing of request from ('127.0.0.1', 36570)
Traceback (most recent call last):
  File "accumulators.py", line 333, in handle
    poll(accum_updates)
EOFError
py4j.protocol.Py4JNetworkError: Answer from Java side is empty
Spark's process has ended, with it the run
"""


def job_process(run_dir: Path) -> JobProcess:
    return JobProcess(run_dir, "127.0.0.1:1", trigger_ms=1_000, settings_file=run_dir / "pipeline.toml")


def test_figures_are_those_that_the_run_writes(tmp_path: Path) -> None:
    jobs = job_process(tmp_path)
    assert jobs.figures() == []
    progress = JobProgress("collect", "some-group")
    progress.rows_read = 7
    MetricsFile(tmp_path / "metrics.json", [progress]).write()
    (figures,) = jobs.figures()
    assert (figures.job, figures.group, figures.state, figures.rows_read) == ("collect", "some-group", "starting", 7)
    assert json.loads((tmp_path / "metrics.json").read_text())["jobs"].keys() == {"collect"}


def test_messages_are_told_once_without_the_tracebacks_of_libraries(tmp_path: Path) -> None:
    jobs = job_process(tmp_path)
    assert list(jobs.new_messages()) == []
    (tmp_path / "jobs.log").write_text(NOISE)
    reported = ["collect failed and starts again in 0.5 s: no answer", "Spark's process has ended, with it the run"]
    assert list(jobs.new_messages()) == reported
    assert list(jobs.new_messages()) == []
    assert jobs.last_words().splitlines()[1:] == reported


def test_the_error_that_ended_the_jobs_is_all_that_is_said_of_their_end(tmp_path: Path) -> None:
    jobs = job_process(tmp_path)
    (tmp_path / "jobs.log").write_text(NOISE + "collect failed: 0 events read\nError: Spark can't start python\n")
    assert jobs.last_words().splitlines() == [
        "Spark can't start python",
        f"the whole log: {tmp_path / 'jobs.log'}",
    ]
