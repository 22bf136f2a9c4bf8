"""The embedded store under the suite of all stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.pipeline.stores.opening import open_store
from ottla.pipeline.stores.port import Store
from tests.pipeline.stores.conformance import StoreConformance
from tests.pipeline.stores.retention_conformance import RetentionConformance


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store("embedded", path=tmp_path / "store")
    store.initialise()
    yield store
    store.close()


class TestEmbeddedStore(StoreConformance):
    """See the suite."""


class TestEmbeddedRetention(RetentionConformance):
    """See the suite."""
