"""Every page of the seeded site is built as it was when somebody last looked at its pictures."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import pytest

from .outline import outline
from .pages import DOCS, PAGES, STRUCTURE, VARIANTS, gallery, seeded

PICTURES = DOCS / "images" / "pages"
MOST = 6_000_000
"""Bytes of all pictures together."""


def test_every_page_is_built_as_before(tmp_path: Path) -> None:
    changes: list[str] = []
    with seeded(tmp_path / "site") as site:
        for page in PAGES:
            kept = (STRUCTURE / f"{page.name}.txt").read_text(encoding="utf-8").splitlines()
            found = site.structure(page).splitlines()
            changes += unified_diff(kept, found, page.name, f"{page.name} now", lineterm="")
    meant = "If this is meant: look at the pages, then run make screenshots"
    assert not changes, "\n".join([*changes, meant])


def test_every_page_is_kept_with_its_pictures() -> None:
    names = {page.name for page in PAGES}
    assert {each.stem for each in STRUCTURE.iterdir()} == names
    pictures = {f"{name}-{variant}" for name in names for variant in VARIANTS}
    assert {each.stem for each in PICTURES.iterdir()} == pictures
    assert sum(each.stat().st_size for each in PICTURES.iterdir()) < MOST
    assert (DOCS / "pages.md").read_text(encoding="utf-8") == gallery(), "run make screenshots"


PAGE = """<!DOCTYPE html><html><head><title>A page</title></head><body>
<header><nav aria-label="Site"><a href="/">Home</a></nav></header>
<main><h1>Meters <svg role="img"><title>no words</title></svg></h1><svg role="group"></svg>
<section aria-labelledby="x"><h2 id="x">All of <b>them</b></h2>
<table><caption>Four</caption><tr><th scope="col">Name</th><th scope="col">State</th></tr></table>
<form><label for="q">Filter</label><input id="q" type="search"><label>Sure <input type="checkbox">
</label><input type="hidden" name="csrf"><button>Go<span aria-hidden="true">!</span></button></form>
<a class="button quiet" href="/x">0123456789abcdef0123456789abcdef</a>
<p hidden><button>Unseen</button></p></section></main></body></html>"""


def test_an_outline_has_what_a_screen_reader_meets() -> None:
    assert outline(PAGE).splitlines() == [
        "title: A page",
        "banner",
        '  navigation "Site": Home',
        "main",
        "  heading 1: Meters",
        "  picture",
        "  picture",
        '  region "All of them"',
        "    heading 2: All of them",
        '    table "Four": Name | State',
        '    field "Filter" (search)',
        '    field "Sure" (checkbox)',
        '    button "Go"',
        '    link "ID"',
    ]


@pytest.mark.parametrize("page", ["<main><p>open</main>", "<main>"])
def test_what_is_not_closed_is_found(page: str) -> None:
    with pytest.raises(ValueError, match=r"closed|stands"):
        outline(page)
