"""What `import ottla` gives, and what it leaves alone until it is used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
import ottla.aio


def test_every_public_name_is_there() -> None:
    for name in ottla.__all__:
        assert getattr(ottla, name) is not None
    for name in ottla.aio.__all__:
        assert getattr(ottla.aio, name) is not getattr(ottla, name)
    assert set(ottla.__all__) <= set(dir(ottla))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ottla' has no attribute 'Streams'"):
        ottla.Streams  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.process
def test_clients_are_imported_without_asyncio_numpy_and_pyarrow() -> None:
    heavy = ("asyncio", "numpy", "pyarrow", "pandas", "click", "rich", "ottla.broker", "ottla.columns")
    code = (
        f"import ottla, sys; ottla.Producer; ottla.Consumer; print([name for name in {heavy} if name in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


@pytest.mark.process
def test_importing_producer_and_consumer_imports_their_faces_alone() -> None:
    """Whoever only names them, in a signature or at the top of a file, doesn't pay for what is behind them."""
    code = "from ottla import Producer, Consumer; import sys; print(*sys.modules)"
    finished = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env=_path()
    )
    imported = set(finished.stdout.split())
    assert {name for name in imported if name.startswith("ottla.")} == {
        "ottla.clients",
        "ottla.clients.consumer",
        "ottla.clients.consumer.consumer",
        "ottla.clients.producer",
        "ottla.clients.producer.producer",
        "ottla.core",
        "ottla.core.lazy_module",
    }
    slow = {"asyncio", "dataclasses", "inspect", "logging", "pathlib", "random", "selectors", "socket", "ssl", "uuid"}
    assert not imported & (slow | {"numpy", "pyarrow", "pandas", "cramjam", "google_crc32c"})


def _path() -> dict[str, str]:
    """Without site, whose .pth files may import anything: the package is found by its folder."""
    return {**os.environ, "PYTHONPATH": str(Path(ottla.__file__).parents[1])}


@pytest.mark.process
def test_the_package_itself_imports_no_client() -> None:
    code = "import ottla, sys; print([name for name in sys.modules if name.startswith('ottla.')])"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"
