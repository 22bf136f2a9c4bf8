"""The broker core that most tests of this room need."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker.rig import Rig

MakeRig = Callable[..., Rig]


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[MakeRig]:
    """Rigs with config properties of the test's own: `make_rig({"key": "value"})`."""
    made: list[Rig] = []

    def make(*arguments: object, **options: object) -> Rig:
        directory = tmp_path / f"store-{len(made)}"
        directory.mkdir()
        made.append(Rig(directory, *arguments, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for rig in made:
        rig.close()


@pytest.fixture
def rig(make_rig: MakeRig) -> Rig:
    return make_rig()
