"""Two models side by side on the page of a released test set."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.driving import begin, submit
from tests.server.helpers import Served
from tests.server.web.helpers import Visitor, words
from tests.service.helpers import small_spec

from easeml_meter.spec import MeterSpec


def answered(served: Served, folder: Path, spec: MeterSpec | None = None) -> tuple[str, int]:
    """Make a meter that answered two submissions; return it with the number of its labels."""
    meter = served.add_meter(spec or small_spec())
    labels = begin(served, meter, folder)
    for errors in (2, 30):
        told = submit(
            served.client("developer"), meter, labels, errors=errors, model=f"{errors} errors"
        )
        assert told.status_code == 200, told.text
    return meter, len(labels)


def release(served: Served, meter: str) -> None:
    labeler = served.client("labeler")
    labeler.post(f"/meters/{meter}/test-sets/1/retire")
    assert labeler.post(f"/meters/{meter}/test-sets/1/release").status_code == 200


def test_before_release_the_page_says_why_there_is_nothing(served: Served, tmp_path: Path) -> None:
    meter, _ = answered(served, tmp_path)
    visitor = Visitor(served, "developer")
    page = visitor.get(f"/meters/{meter}/test-sets/1/compare?first=1&second=2")
    assert page.status_code == 404
    assert "before, they would tell of its labels" in words(page)
    assert "once the test set is released: before, that would tell labels" in words(
        visitor.get(f"/meters/{meter}")
    )


@pytest.mark.parametrize("name", ["developer", "labeler"])
def test_two_models_are_compared_down_to_the_examples(
    served: Served, tmp_path: Path, name: str
) -> None:
    meter, rows = answered(served, tmp_path)
    release(served, meter)
    visitor = Visitor(served, name)
    story = visitor.get(f"/meters/{meter}/test-sets/1")
    assert f"/meters/{meter}/test-sets/1/compare?tenant=1" in story.text
    page = visitor.get(f"/meters/{meter}/test-sets/1/compare?first=1&second=2")
    said = words(page)
    assert page.status_code == 200
    assert f"{100 * 2 / rows:.4g} % test error" in said
    assert f"{100 * 30 / rows:.4g} % test error" in said
    assert "28 right to wrong 0 wrong to right" in said
    assert "Examples 1 to 20 of 28." in said
    second = visitor.get(f"/meters/{meter}/test-sets/1/compare?first=1&second=2&page=2")
    assert "Examples 21 to 28 of 28." in words(second)
    assert second.text.count('<th scope="row">') == 8
    turned = visitor.get(f"/meters/{meter}/test-sets/1/compare?first=2&second=1&show=better")
    assert "0 right to wrong 28 wrong to right" in words(turned)
    assert turned.text.count('<th scope="row">') == 20


def test_numbers_out_of_range_are_refused(served: Served, tmp_path: Path) -> None:
    meter, _ = answered(served, tmp_path)
    release(served, meter)
    visitor = Visitor(served, "developer")
    for query in ("first=9", "page=0", "show=labels"):
        page = visitor.get(f"/meters/{meter}/test-sets/1/compare?{query}")
        assert page.status_code == 422, query


@pytest.mark.parametrize(("name", "status"), [("runner", 403), ("admin", 403), ("stranger", 404)])
def test_who_sees_no_answers_sees_no_comparison(
    served: Served, tmp_path: Path, name: str, status: int
) -> None:
    meter, _ = answered(served, tmp_path)
    release(served, meter)
    page = Visitor(served, name).get(f"/meters/{meter}/test-sets/1/compare")
    assert page.status_code == status
    assert "errors" not in words(page)
