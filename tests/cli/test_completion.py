"""What the tab key offers: scripts for the shells, names from the cluster, silence when there is none."""

import os
import subprocess
import sys

import pytest

from ottla.cli.main import main
from tests.cli.conftest import MakeTopic, Ottla

pytestmark = pytest.mark.process


def completed(words: str, bootstrap: str) -> list[str]:
    environment = {
        **os.environ,
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_OTTLA_COMPLETE": "bash_complete",
        "OTTLA_BOOTSTRAP_SERVER": bootstrap,
    }
    code = "import sys; from ottla.cli.main import main; sys.exit(main())"
    finished = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert finished.stderr == ""
    return [line.partition(",")[2] for line in finished.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert main(["completion", shell]) == 0
    assert f"_OTTLA_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_topics_and_groups_are_completed_from_the_cluster(ottla: Ottla, make_topic: MakeTopic, bootstrap: str) -> None:
    for name in ("tab-a", "tab-b", "other"):
        make_topic(name, records=1)
    assert ottla("groups", "reset-offsets", "tab-group", "--topic", "tab-a", "--to-latest", "--execute").code == 0
    assert completed("ottla topics describe tab", bootstrap) == ["tab-a", "tab-b"]
    assert completed("ottla topics describe tab-a tab", bootstrap) == ["tab-b"]
    assert completed(f"ottla configs describe -b {bootstrap} --topic ot", "127.0.0.1:1") == ["other"]
    assert completed("ottla groups describe tab", bootstrap) == ["tab-group"]


def test_a_cluster_that_is_away_completes_to_nothing_and_says_nothing() -> None:
    assert completed("ottla topics describe ", "127.0.0.1:1") == []


def test_keys_of_topics_are_completed_without_a_cluster() -> None:
    assert completed("ottla topics create x --config retention.", "127.0.0.1:1") == ["retention.bytes", "retention.ms"]
