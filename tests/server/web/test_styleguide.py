"""The sheet of components and tokens."""

from __future__ import annotations

import re

from tests.server.helpers import Served
from tests.server.web.helpers import Visitor, words

from easeml_meter.report.palette import contrast
from easeml_meter.server.web.pages import static_text
from easeml_meter.server.web.styleguide import tokens


def test_the_sheet_shows_states_and_every_token(served: Served) -> None:
    said = words(Visitor(served).get("/styleguide"))
    for state in ("Labels needed", "Active", "Nearly spent", "Spent", "Released"):
        assert state in said
    for token in tokens():
        assert f"{token.name} {token.light} {token.dark}" in said


def test_every_token_is_used_and_every_colour_is_a_token() -> None:
    style = static_text("style.css")
    names = {token.name for token in tokens()}
    assert {name for name in names if f"var({name})" not in style} == set()
    own = style[style.index(".skip") :]
    assert re.findall(r"#[0-9a-f]{3,8}\b|rgb\(", own) == []


def test_the_worst_band_is_the_most_visible_in_both_schemes() -> None:
    found = {token.name: token for token in tokens()}
    for scheme in ("light", "dark"):
        page = getattr(found["--surface"], scheme)
        bands = [contrast(getattr(found[f"--b{band}"], scheme), page) for band in range(1, 6)]
        assert bands[2] < bands[3] < bands[4]
        assert max(bands) == bands[4]
        for band in range(1, 6):
            on, fill = (getattr(found[name], scheme) for name in (f"--b{band}-on", f"--b{band}"))
            assert contrast(on, fill) >= 4.5
