"""The pytest plugin: fixtures that give a test its own broker, and a report of that broker for a failed test.

Loaded at every start of pytest, so it imports nothing heavy; a test without a broker pays nothing.
"""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

try:
    import pytest
except ModuleNotFoundError:
    from ottla.core.extras import needs_extra

    with needs_extra("ottla.testing.plugin", "pytest"):
        raise

if TYPE_CHECKING:
    from ottla.testing.broker import OttlaBroker

_MARKER: Final = "ottla"
_SCOPE_OPTION: Final = "ottla_scope"
_SCOPES: Final = ("function", "session")
_BROKER_OPTIONS: Final = ("config", "direct", "metrics", "log_level")
_MARKER_OPTIONS: Final = (*_BROKER_OPTIONS, "partitions", "topic_config", "scope")
_brokers_of_item: Final = pytest.StashKey["list[OttlaBroker]"]()

BrokerFactory: TypeAlias = "Callable[..., OttlaBroker]"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        _SCOPE_OPTION,
        "who gets an ottla_broker of its own: every test (function), or all tests of a process together (session)",
        default="function",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(config={{}}, direct=False, metrics=False, log_level='INFO', scope='function', partitions=1,"
        " topic_config={}): what kind of ottla_broker and ottla_topic the test gets",
    )
    scope = config.getini(_SCOPE_OPTION)
    if scope not in _SCOPES:
        raise pytest.UsageError(f"{_SCOPE_OPTION} = {scope}: expected one of {', '.join(_SCOPES)}")


@pytest.fixture
def ottla_broker_factory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerFactory]:
    """Call it with `config=`, `direct=`, `metrics=`, `log_level=`, `data_dir=`, once for each broker."""
    made: list[OttlaBroker] = []

    def make(**options: Any) -> "OttlaBroker":
        from ottla.testing.broker import OttlaBroker

        data_dir = options.pop("data_dir", None) or tmp_path_factory.mktemp("ottla") / "data"
        broker = OttlaBroker(Path(data_dir), **options)
        made.append(broker)
        _describe_on_failure(request, broker)
        return broker

    yield make
    _end(made)


@pytest.fixture(scope="session")
def ottla_session_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator["OttlaBroker"]:
    """One broker for all tests of this process (under pytest-xdist: of this worker). Use unique topic names."""
    from ottla.testing.broker import OttlaBroker

    broker = OttlaBroker(tmp_path_factory.mktemp("ottla") / "data")
    yield broker
    _end([broker])


@pytest.fixture
def ottla_broker(request: pytest.FixtureRequest) -> Iterator["OttlaBroker"]:
    """A broker of the test's own, as its `ottla` markers say; with scope "session" the shared one.

    A shared one comes without faults, and running.
    """
    options = _marked(request)
    own_options = {name: value for name, value in options.items() if name in _BROKER_OPTIONS}
    scope = options.get("scope") or ("function" if own_options else request.config.getini(_SCOPE_OPTION))
    if scope == "function":
        yield request.getfixturevalue("ottla_broker_factory")(**own_options)
        return
    if own_options:
        raise pytest.UsageError(
            f"@pytest.mark.{_MARKER}: {', '.join(own_options)} can't be had from a shared broker; leave scope out"
        )
    broker: OttlaBroker = request.getfixturevalue("ottla_session_broker")
    _describe_on_failure(request, broker)
    yield broker
    try:
        broker.check_alive()
    finally:
        broker.heal()


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest, ottla_broker: "OttlaBroker") -> str:
    """The unique name of a new topic of `ottla_broker`; `partitions` and `topic_config` by marker."""
    from ottla.testing.broker import unique_topic_name

    options = _marked(request)
    return ottla_broker.create_topic(
        unique_topic_name(request.node.name),
        partitions=options.get("partitions", 1),
        config=options.get("topic_config"),
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for broker in item.stash.get(_brokers_of_item, []):
            report.sections.append(("Ottla broker", broker.describe()))
    return report


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The options of a test's markers, of which the nearest wins; merges the configs of all of them."""
    options: dict[str, Any] = {}
    config: dict[str, object] = {}
    for marker in reversed(list(request.node.iter_markers(_MARKER))):
        wrong = [name for name in marker.kwargs if name not in _MARKER_OPTIONS]
        if marker.args or wrong:
            named = ", ".join(map(repr, [*marker.args, *wrong]))
            raise pytest.UsageError(f"@pytest.mark.{_MARKER}: {named} unknown; it takes {', '.join(_MARKER_OPTIONS)}")
        options |= marker.kwargs
        config |= marker.kwargs.get("config") or {}
    if config:
        options["config"] = config
    if options.get("scope", "function") not in _SCOPES:
        raise pytest.UsageError(f"@pytest.mark.{_MARKER}(scope={options['scope']!r}): expected one of {_SCOPES}")
    return options


def _describe_on_failure(request: pytest.FixtureRequest, broker: "OttlaBroker") -> None:
    request.node.stash.setdefault(_brokers_of_item, []).append(broker)


def _end(brokers: "list[OttlaBroker]") -> None:
    """Closes all of them, even if one of them has died."""
    try:
        for broker in brokers:
            broker.check_alive()
    finally:
        for broker in brokers:
            broker.close()
