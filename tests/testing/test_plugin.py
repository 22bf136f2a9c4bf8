"""The plugin as its users have it: small test files of theirs, run by pytest."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ("pytester",)


@pytest.mark.process
def test_every_test_has_a_broker_and_a_topic_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        seen = []

        @pytest.mark.parametrize("name", ["first/test", "second"])
        @pytest.mark.ottla(partitions=3, topic_config={"retention.ms": 3_600_000})
        def test_own(ottla_broker, ottla_topic, name):
            assert ottla_broker.topics() == [ottla_topic]
            ottla_broker.produce(ottla_topic, ["a"], partition=2)
            assert [record.partition for record in ottla_broker.records(ottla_topic)] == [2]
            seen.append((ottla_broker.data_dir, ottla_topic, ottla_broker))

        def test_nothing_is_shared_or_left():
            (first_dir, first_topic, first), (second_dir, second_topic, second) = seen
            assert first_dir != second_dir
            assert first_topic.startswith("test_own-first-test-")
            assert first_topic != second_topic
            assert not first.is_running and not second.is_running
        """
    )
    pytester.runpytest_inprocess("--strict-markers").assert_outcomes(passed=3)


@pytest.mark.process
def test_markers_and_the_factory_configure_a_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.ottla(config={"log.segment.bytes": 1_048_576, "num.partitions": 2})

        @pytest.mark.ottla(config={"num.partitions": 5})
        def test_the_nearest_marker_wins_key_by_key(ottla_broker):
            assert ottla_broker.config["log.segment.bytes"] == "1048576"
            assert ottla_broker.config["num.partitions"] == "5"

        def test_two_brokers(ottla_broker_factory, tmp_path):
            first = ottla_broker_factory(config={"auto.create.topics.enable": False}, data_dir=tmp_path / "mine")
            second = ottla_broker_factory(direct=True)
            assert first.data_dir == tmp_path / "mine"
            assert first.port != second.port
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=2)


@pytest.mark.process
def test_a_shared_broker_is_handed_on_healed(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nottla_scope = session")
    pytester.makepyfile(
        """
        import pytest

        brokers = []

        def test_that_leaves_a_mess(ottla_broker, ottla_session_broker):
            assert ottla_broker is ottla_session_broker
            brokers.append(ottla_broker)
            ottla_broker.fail_next("metadata", 100)
            ottla_broker.kill()

        def test_that_finds_none(ottla_broker, ottla_topic):
            assert ottla_broker is brokers[0]
            assert ottla_broker.is_running
            assert ottla_broker.topics() == [ottla_topic]

        @pytest.mark.ottla(config={"num.partitions": 2})
        def test_that_wants_its_own(ottla_broker):
            assert ottla_broker is not brokers[0]
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=3)


@pytest.mark.process
def test_a_failure_shows_what_the_broker_saw_and_a_dead_broker_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os
        import socket

        def test_fails(ottla_broker):
            ottla_broker.delay(1, api="produce")
            with socket.create_connection(("127.0.0.1", ottla_broker.port)) as stranger:
                stranger.sendall(bytes.fromhex("0000000c 0012 0000 00000001 0002 6d65"))  # ApiVersions of "me"
                assert stranger.recv(1)
            assert ottla_broker.topics() == ["a"]

        def test_whose_broker_dies(ottla_broker):
            os.kill(ottla_broker.pid, 9)
            ottla_broker.wait_until(lambda: not ottla_broker.is_running)
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1, passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*Ottla broker*",
            "<OttlaBroker 127.0.0.1:* running>",
            "fault in force: Delay(PRODUCE), met by 0",
            "request: API_VERSIONS v0 of me",
        ]
    )
    result.stdout.fnmatch_lines(["*BrokerDied: the broker ended by itself with code -9*"])


@pytest.mark.process
def test_each_worker_of_xdist_has_its_own_session_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(2))
        @pytest.mark.ottla(scope="session")
        def test_shared(ottla_broker, ottla_topic, number):
            ottla_broker.produce(ottla_topic, [str(number)])
            assert len(ottla_broker.wait_for_records(ottla_topic, 1)) == 1
        """
    )
    pytester.runpytest_subprocess("-n", "2").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("partition=3", "*mark.ottla: 'partition' unknown; it takes config,*partitions*"),
        ("{'num.partitions': 3}", "*mark.ottla: {'num.partitions': 3} unknown*"),
        ("scope='module'", "*mark.ottla(scope='module'): expected one of*"),
        ("scope='session', metrics=True", "*mark.ottla: metrics can't be had from a shared broker*"),
    ],
)
def test_a_wrong_marker_is_explained(pytester: pytest.Pytester, marker: str, message: str) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.ottla({marker})
        def test_never_runs(ottla_broker):
            pass
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])


def test_a_wrong_scope_in_the_config_file_is_explained(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nottla_scope = module")
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*ottla_scope = module: expected one of function, session*"])


def test_a_test_without_a_broker_pays_for_nothing() -> None:
    script = (
        "import pytest, sys; before = set(sys.modules); import ottla.testing.plugin;"
        " print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split()
    assert [name for name in loaded if name.startswith("ottla")] == ["ottla", "ottla.testing", "ottla.testing.plugin"]
    assert not {"asyncio", "click", "uvloop", "subprocess"} & set(loaded)


def test_every_name_of_the_package_can_be_imported() -> None:
    import ottla.testing

    for name in ottla.testing._HOMES:
        assert getattr(ottla.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Broker'"):
        ottla.testing.Broker  # noqa: B018


EXAMPLES = Path(__file__).parents[2] / "examples" / "testing"


@pytest.mark.process
@pytest.mark.parametrize(
    "folder", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name[0] != "_")
)
def test_the_examples_of_the_documentation_pass(folder: str, tmp_path: Path) -> None:
    """As a user runs them: with pytest's defaults, none of this project's settings."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(tmp_path / "pytest.ini"), "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(EXAMPLES / folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
