"""docs/mechanisms.md names modules and proofs; what it names has to be there."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_file_that_the_table_names_exists() -> None:
    page = (ROOT / "docs" / "mechanisms.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./-]+(?:\.py|\.md|/))`", page))
    assert len(named) > 60
    missing = [name for name in named if not (ROOT / name).exists() and not (ROOT / "src/ottla" / name).exists()]
    assert missing == []


def test_every_mechanism_that_is_begun_has_a_proof() -> None:
    rows = re.findall(
        r"^\| ([A-Z]\d\S*) \|.*\| (.*?) \| (.*?) \| (.*?) \|$", (ROOT / "docs/mechanisms.md").read_text(), re.M
    )
    assert len(rows) > 30
    assert [row for row in rows if row[3].startswith(("works", "partly")) and row[2] == "–"] == []
