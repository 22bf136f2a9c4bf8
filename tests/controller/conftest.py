"""The coordination store for the tests of this room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controller.pumped_store import PumpedStore


@pytest.fixture
def pump(tmp_path: Path) -> Iterator[PumpedStore]:
    pump = PumpedStore(tmp_path)
    yield pump
    pump.close()
