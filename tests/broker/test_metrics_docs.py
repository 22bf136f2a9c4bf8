"""The page of metrics is generated, and the Grafana board uses only metrics that there are."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.metrics.definitions import HISTOGRAM, METRICS, PROCESS_METRICS

ROOT = Path(__file__).resolve().parents[2]
_NAME = re.compile(r"\b(?:ottla|process|python)_[a-z_]+\b")


def exported_names() -> set[str]:
    names = set()
    for metric in (*METRICS, *PROCESS_METRICS):
        if metric.kind == HISTOGRAM:
            names |= {f"{metric.name}_{ending}" for ending in ("bucket", "count", "sum")}
        else:
            names.add(metric.sample_name)
    return names


def test_names_follow_the_rules_of_prometheus() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert re.fullmatch(r"ottla_[a-z][a-z_]*[a-z]", metric.name)
        assert not metric.name.endswith("_total")
        assert metric.doc.endswith(".")
        assert '"' not in metric.doc, "it would have to be escaped"
        assert metric.kind != HISTOGRAM or metric.name.endswith("_seconds")


def test_the_board_uses_only_metrics_that_there_are() -> None:
    board = json.loads((ROOT / "docs" / "grafana" / "ottla.json").read_text(encoding="utf-8"))
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    used = {name for panel in panels for target in panel["targets"] for name in _NAME.findall(target["expr"])}
    assert used
    assert used <= exported_names()
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels)
    assert [variable["name"] for variable in board["templating"]["list"]] == ["datasource", "instance"]
    rows = [panel["title"] for panel in board["panels"] if panel["type"] == "row"]
    assert rows == ["Traffic", "Latency", "Partitions", "Groups", "Process"]


def test_what_operators_are_told_to_watch_is_there() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    histograms = {metric.name for metric in METRICS if metric.kind == HISTOGRAM}
    assert set(_NAME.findall(page)) <= exported_names() | histograms


@pytest.mark.process
def test_the_page_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_metrics_docs.py"), "--check"]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
