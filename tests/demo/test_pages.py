"""Every page of the seeded site opens, and is shown in the docs with its pictures."""

from __future__ import annotations

from pathlib import Path

from .pages import DOCS, PAGES, VARIANTS, gallery, seeded

PICTURES = DOCS / "images" / "pages"
MOST = 6_000_000
"""Bytes of all pictures together."""


def test_every_page_opens(tmp_path: Path) -> None:
    with seeded(tmp_path / "site") as site:
        found = {page.name: site.open(page) for page in PAGES}
    codes = {name: answer.status_code for name, answer in found.items()}
    assert codes == {page.name: 404 if page.name == "not-found" else 200 for page in PAGES}
    assert all(answer.text.count("<h1") == 1 for answer in found.values())


def test_every_page_is_kept_with_its_pictures() -> None:
    pictures = {f"{page.name}-{variant}" for page in PAGES for variant in VARIANTS}
    assert {each.stem for each in PICTURES.iterdir()} == pictures
    assert sum(each.stat().st_size for each in PICTURES.iterdir()) < MOST
    assert (DOCS / "pages.md").read_text(encoding="utf-8") == gallery(), "run make screenshots"
