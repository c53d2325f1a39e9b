from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from tests.report.parsing import Page, drawing
from tests.report.sessions import INCREMENTAL, LIMITED, SPEC, released, session
from tests.report.test_checks import told
from tests.report.test_words import ANY_TEXT

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.signals import ABOVE_CEILING, NO_READING
from easeml_meter.report.page import STYLE, html_page
from easeml_meter.report.percent import in_percent

TAGS = """
html head meta title style body main header section h1 h2 p span div ul li code figure figcaption
svg desc g path rect text dl dt dd table caption thead tbody tr th td bdi time strong
"""


def check(markup: str) -> Page:
    """Parse a page; nothing in it may run, or load anything."""
    page = Page(markup)
    assert {tag for tag, _ in page.tags} <= set(TAGS.split())
    assert page.count("style") == page.count("h1") == page.count("main") == 1
    for _, attributes in page.tags:
        for name in attributes:
            assert name not in ("style", "href", "src", "id")
            assert not name.startswith("on")
    links = set(re.findall(r"\w+://[^\s\"<>]+", markup))
    assert links <= {"http://www.w3.org/2000/svg"}
    return page


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_has_its_page(phase: Phase) -> None:
    page = check(html_page(session([] if phase is Phase.REQUESTED else [1, 2], phase=phase)))
    assert str(phase) in page.text
    for heading in ("What to do now", "The meter", "What is left", "The promise", "History"):
        assert heading in page.text


def test_what_stands_on_it() -> None:
    view = session([1, 1, 2], losses=[0.3, 0.2, 0.095])
    page = check(html_page(view))
    for line in (view.promise, *view.assumptions):
        assert in_percent(line, view.spec) in page.text
    assert "climbed from band 1 to band 2" in page.text
    assert page.count("tr") == 1 + 3
    row = "3 augmented-v3 band 2 2 to 5 % 9.5 % 3.5 to 15.5 % 2026-03-02T23:00:00Z 7 (70 %)"
    assert row in page.text
    last = "Step 3, augmented-v3 : Validation error 9.5 %: true error at most 15.5 % and at least"
    assert f"{last} 3.5 %, 99 % sure for all answers of this test set together." in page.text
    assert "70 % " in page.text
    assert "86,542" in page.text
    assert "In retrospect" not in page.text


def test_every_answer_has_its_own_text() -> None:
    page = check(html_page(session([1, 2, ABOVE_CEILING, NO_READING], LIMITED)))
    for words in ("band 1", "band 2", "above ceiling", "no reading"):
        assert words in page.text


def test_the_incremental_meter_says_that_it_tells_the_worst() -> None:
    assert "the worst band so far" in check(html_page(session([1], INCREMENTAL))).text


def test_after_release_the_truth_is_shown() -> None:
    view = released(SPEC, [(0.2, 0.21), (0.15, 0.19), None])
    page = check(html_page(view))
    assert "In all 2 steps with losses, the answer was right." in page.text
    assert "The true loss stays unknown" in page.text
    assert "2 wider-net-v2 band 2 0.15000 0.19000 0.04000 0.18000 to 0.20000 yes" in page.text
    assert "3 augmented-v3 no reading unknown unknown unknown nothing nothing to check" in page.text
    wrong = check(html_page(told(view, 1, 4)))
    assert "NO: should be band 1" in wrong.text


def test_where_the_true_loss_was_promised_to_be_is_rounded_outward() -> None:
    view = released(SPEC, [(0.07, 0.0747949), (0.3, 0.3)])
    page = check(html_page(view))
    # 0.0647949 and 0.0847949: to the nearest, 0.06479 and 0.08479.
    assert "0.07479 0.00479 0.06479 to 0.08480 yes" in page.text
    assert "0.30000 0.00000 0.29000 to 0.31000 yes" in page.text


def test_the_policy_lets_nothing_in_but_its_own_style() -> None:
    page = check(html_page(session([1])))
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policies = [a["content"] for tag, a in page.tags if "http-equiv" in a and tag == "meta"]
    assert policies == [f"default-src 'none'; style-src 'sha256-{digest}'"]
    assert "url(" not in STYLE
    assert "@import" not in STYLE


def test_every_drawing_on_it_is_well_formed() -> None:
    markup = html_page(released(SPEC, [(0.2, 0.21), (0.15, 0.19)]))
    found = re.findall(r"<svg xmlns.*?</svg>", markup, re.DOTALL)
    assert len(found) == 3
    for svg in found:
        drawing(svg)


@settings(max_examples=50)
@given(ANY_TEXT, ANY_TEXT)
def test_hostile_text_is_only_text(name: str, words: str) -> None:
    view = session([1, 2], models=[name, words], meter=name)
    signals = tuple(replace(s, tenant=n) for n, s in enumerate(view.signals, 1))
    view = replace(view, promise=words, assumptions=(name,), signals=signals)
    markup = html_page(view)
    markup.encode()
    check(markup)


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "</style></title><img src=x onerror=alert(1)>",
        '" onload="alert(1)',
        "<!--",
        "]]>",
        "`<b>`",
        "\u202egnp.exe",
        "שלום",
        "x" * 10_000_000,
    ],
    ids=range(9),
)
def test_names_that_try_something(name: str) -> None:
    page = check(html_page(session([1], models=[name], meter=name)))
    assert page.count("bdi") == 2
    assert "\u202e" not in page.text


@pytest.mark.parametrize("steps", [100, 400])
def test_size(steps: int) -> None:
    names = [f"experiments/sweep-{step}/checkpoint-with-a-long-name" for step in range(steps)]
    pairs = [(0.3 - step / 2000, 0.3 - step / 9000) for step in range(steps)]
    view = released(SPEC.replace(steps=steps), pairs)
    signals = tuple(replace(s, model=m) for s, m in zip(view.signals, names, strict=True))
    assert len(html_page(replace(view, signals=signals)).encode()) < 1_000 * steps
    assert len(html_page(session([1] * steps, models=names)).encode()) < 100_000 + 600 * steps


def test_the_same_view_gives_the_same_bytes() -> None:
    assert html_page(session([1, 2])) == html_page(session([1, 2]))
