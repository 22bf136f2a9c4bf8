"""Every link within the repository leads somewhere: to a file or folder that is there, and to a heading that it has."""

from pathlib import Path

import pytest

from tests.docs.markdown import PAGES, anchors, links, name_of


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_and_anchor_resolves(page: Path) -> None:
    dead = [link for link in links(page.read_text(encoding="utf-8")) if not _resolves(page, link)]
    assert dead == []


def test_a_missing_file_and_a_missing_heading_are_dead_links(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n## What `make run` does\n\n```sh\n# no heading\n```\n", encoding="utf-8")
    found = links("[a](page.md) [b](page.md#what-make-run-does) [c](gone.md) [d](#no-heading) [e](#a-page) `[f](g)`")
    assert [link for link in found if not _resolves(page, link)] == ["gone.md", "#no-heading"]


def _resolves(page: Path, link: str) -> bool:
    if link.startswith(("https://", "http://", "mailto:")):
        return True  # other people's pages come and go
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    return not anchor or (target.suffix == ".md" and anchor in anchors(target.read_text(encoding="utf-8")))
