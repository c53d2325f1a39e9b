"""What a table must be, before it is sealed and when it arrives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import Labels, older_books, rows
from tests.service.sites import make_site

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Event, LabelRequest, Part, TestSet
from easeml_meter.errors import InvalidInput, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.report.audit import audit_words
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.testsets import delivery
from easeml_meter.service.testsets.checking import Asked, UnknownLabels, check_enough
from easeml_meter.spec import MeterSpec


def asked(loss: str = "0-1", classes: tuple[str, ...] | None = ("a", "b"), here: int = 0) -> Asked:
    wanted = TestSet("meter", 1, Phase.REQUESTED, labels_needed=1669, changed_at="")
    parts = (Part("meter", 1, 1, here, "", "", "", ""),) if here else ()
    known = Classes.of(classes) if classes else None
    return Asked(LabelRequest(wanted, (), parts), known, parse_loss(loss))


@pytest.mark.parametrize(
    ("here", "words"),
    [
        (0, "labels: 500 given, 1,669 needed: label 1,169 more rows"),
        (69, "labels: 500 given and 69 have arrived, 1,669 needed: label 1,100 more rows"),
    ],
)
def test_rows_given_and_rows_needed_are_named(here: int, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        asked(here=here).check_rows(500)
    asked(here=here).check_rows(1669 - here)
    asked(here=here).check_rows(1, part=True)


def test_unknown_labels_are_counted_over_batches_most_frequent_first() -> None:
    batches = [pa.array(["a", "fox", "b"]), pa.array(["eel", "a", "eel"]), pa.array(["b"])]
    found = asked().unknown_labels(batches)
    assert found.counts == (("eel", 2), ("fox", 1))
    assert str(found) == "'eel' in 2 rows, 'fox' in 1 row"
    with pytest.raises(InvalidInput, match="--keep-unknown-labels"):
        found.refuse(asked().classes)
    none = asked().unknown_labels([pa.array(["a", "b"])])
    none.refuse(asked().classes)
    assert none.rows == 0


def test_labels_that_differ_by_case_are_one_refusal() -> None:
    classes = Classes.of(["spam", "ham"])
    strange = UnknownLabels().plus(pa.array(["Spam", "HAM ", "Spam"]))
    with pytest.raises(InvalidInput, match=r"'Spam' in 2 rows, 'HAM ' in 1 row, which differ"):
        strange.refuse(classes)


def test_of_very_many_unknown_labels_only_the_rows_are_counted() -> None:
    found = UnknownLabels().plus(pa.array([f"text {row}" for row in range(5000)]))
    assert (len(found.counts), found.more, found.rows) == (1000, 4000, 5000)
    assert str(found).endswith("others in 4,990 rows")


@pytest.mark.parametrize(
    ("loss", "labels", "words"),
    [
        ("absolute[0,1]", [0.5, 2.0], "row 2: a label that does not fit given, a number from 0"),
        ("0-1", [["a"]], "given"),
    ],
)
def test_labels_that_the_loss_cannot_take_are_refused(
    loss: str, labels: list[object], words: str
) -> None:
    for classes in (("a", "b"), None):
        with pytest.raises(InvalidInput, match=words):
            asked(loss, classes).unknown_labels([pa.array(labels)])


def test_a_function_that_the_server_names_is_not_imported_here() -> None:
    spec = MeterSpec.uniform(
        steps=1, tolerance=0.2, delta=0.2, signals=2, loss="no.such.module:function"
    )
    there = Asked.elsewhere(asked().request, spec, None)
    assert there.loss is None
    assert there.unknown_labels([pa.array([1.5])]).rows == 0


def test_a_class_with_a_colon_is_no_function() -> None:
    """It had an answer "no reading", which costs labels, and its labels were not checked."""
    spec = MeterSpec.uniform(
        steps=4, tolerance=0.2, delta=0.2, signals=2, loss="recall[b:PER]", classes=("O", "b:PER")
    )
    assert not spec.may_fail
    there = Asked.elsewhere(asked().request, spec, None)
    assert there.unknown_labels([pa.array(["O", "b:LOC"])]).rows == 1


def spec_of_few(**options: Any) -> MeterSpec:
    given: dict[str, Any] = {
        "tolerance": 0.25,
        "edges": [0.5],
        "steps": 2,
        "delta": 0.2,
        "classes": (0, 1),
    }
    given |= {"loss": "recall[1]", "rows": 200, "inputs": "public"}
    return MeterSpec.uniform(**(given | options))


def made(folder: Path, **options: Any) -> Meter:
    return Meter.create(folder / "meter", spec_of_few(**options), name="few")


def labels(meter: Meter, *, short: int = 0) -> Labels:
    """As many positives as are needed, or fewer."""
    found = np.zeros(meter.plan.labels, np.int64)
    found[: meter.plan.size - short] = 1
    return found


def sealed(meter: Meter, folder: Path, given: Labels, seed: int) -> Path:
    plain, found = folder / f"{seed}.parquet", folder / f"{seed}.sealed"
    pq.write_table(rows(given, seed=seed), plain)
    meter.seal(plain, found, label="label", columns=["x", "y"])
    return found


def tried(meter: Meter) -> list[dict[str, Any]]:
    return [link.details for link in meter.audit().links if link.event == Event.SEALING_FAILED]


def test_as_many_as_planned_are_enough(tmp_path: Path) -> None:
    meter = made(tmp_path)
    assert meter.plan.labels == 200 > meter.plan.size > 10
    meter.add_test_set(sealed(meter, tmp_path, labels(meter), 1))
    assert not tried(meter)


def test_one_fewer_is_a_try_and_the_last_one_closes_the_door(tmp_path: Path) -> None:
    meter = made(tmp_path)
    few = sealed(meter, tmp_path, labels(meter, short=1), 1)
    with pytest.raises(InvalidInput, match=r"too few labels '1'.*try 1 of 1.*new meter") as refused:
        meter.add_test_set(few)
    assert f"{meter.plan.size - 1:,}" not in str(refused.value)
    with pytest.raises(WrongPhase, match="was tried once"):
        meter.add_test_set(sealed(meter, tmp_path, labels(meter), 2))
    (link,) = tried(meter)
    assert (link["try"], link["tries"], link["rows"]) == (1, 1, 200)
    assert meter.audit().sound


def test_tries_are_divided_out_of_delta_and_counted(tmp_path: Path) -> None:
    once, meter = made(tmp_path / "a"), made(tmp_path / "b", tries=3)
    assert meter.plan.size > once.plan.size
    few = sealed(meter, tmp_path, labels(meter, short=1), 1)
    for _ in range(2):  # the same file tells nothing new
        with pytest.raises(InvalidInput, match=r"try 1 of 3.*fresh rows"):
            meter.add_test_set(few)
    # Nor do the same rows in another file, such as a page makes whenever they are sent.
    few.unlink()
    with pytest.raises(InvalidInput, match=r"try 1 of 3.*fresh rows"):
        meter.add_test_set(sealed(meter, tmp_path, labels(meter, short=1), 1))
    assert len(tried(meter)) == 1
    with pytest.raises(InvalidInput, match="try 2 of 3"):
        meter.add_test_set(sealed(meter, tmp_path, labels(meter, short=2), 2))
    meter.add_test_set(sealed(meter, tmp_path, labels(meter), 3))
    links = meter.audit().links
    added = next(link for link in links if link.event == Event.TEST_SET_ADDED)
    assert (added.details["try"], added.details["tries"]) == (3, 3)
    said = [audit_words(link, {}) for link in links if link.event == Event.SEALING_FAILED]
    assert said[0].endswith("had too few rows that count: try 1 of 3.")


@pytest.mark.parametrize("named", [True, False])
def test_a_refused_draw_is_not_taken_once_it_was_mended(tmp_path: Path, named: bool) -> None:
    """With a few rows exchanged for positives it was active, and no random sample."""
    meter, last = made(tmp_path, tries=2), 0
    few = labels(meter, short=1)

    def deliver(positives: Labels, fresh: int, **options: Any) -> None:
        nonlocal last
        last += 1
        plain = rows(positives, seed=1)
        other = rows(positives, seed=1 + last).slice(0, fresh)
        plain = pa.concat_tables([other, plain.slice(fresh)])
        ids = [f"new {last}-{i}" if i < fresh else f"old {i}" for i in range(len(positives))]
        plain = plain.set_column(0, "id", pa.array(ids))
        found, path = tmp_path / f"{last}.sealed", tmp_path / f"{last}.parquet"
        pq.write_table(plain, path)
        columns = {"id_column": "id", "columns": ["x", "y"]} if named else {"columns": ["x", "y"]}
        meter.seal(path, found, label="label", **columns)
        meter.add_test_set(found, **options)

    with pytest.raises(InvalidInput, match="try 1 of 2"):
        deliver(few, 0)
    for accept_shared in (False, named):
        with pytest.raises(InvalidInput, match="199 rows of a draw that was refused: with others"):
            deliver(labels(meter), 1, accept_shared=accept_shared)
    assert len(tried(meter)) == 1
    deliver(labels(meter), 200)
    assert meter.status().phase == "active"


def halves(meter: Meter, folder: Path, given: Labels, seed: int) -> list[Path]:
    """Seal a test set as two parts, each a file of its own."""
    plain, found = rows(given, seed=seed), []
    plain = plain.set_column(0, "id", pa.array(np.arange(len(given)) + 1_000 * seed))
    for number, start in enumerate((0, 120)):
        found.append(folder / f"{seed}-{number}.sealed")
        part = plain.slice(start, 120)
        meter.seal(part, found[-1], label="label", id_column="id", columns=["x", "y"], part=True)
    return found


def test_parts_of_a_failed_try_are_withdrawn(tmp_path: Path) -> None:
    """They stayed, so that nothing else could be delivered: with fresh rows there were too many."""
    meter = made(tmp_path, tries=2)
    few = halves(meter, tmp_path, labels(meter, short=1), 1)
    for attempt in range(2):  # the same rows in the same parts are refused again, and go again
        meter.add_part(few[0])
        with pytest.raises(InvalidInput, match=r"try 1 of 2.*fresh rows.*parts were withdrawn"):
            meter.add_part(few[1])
        (request,) = meter.requests()
        assert request.parts == ()
        assert not list((tmp_path / "meter" / ".meter" / "parts").glob("*"))
        events = [link.event for link in meter.audit().links]
        assert events.count(Event.PART_WITHDRAWN) == attempt + 1
    assert len(tried(meter)) == 1
    for part in halves(meter, tmp_path, labels(meter), 2):
        meter.add_part(part)
    assert meter.status().phase == "active"
    assert meter.audit().sound


def test_a_try_that_an_older_database_has_forgotten_still_counts(tmp_path: Path) -> None:
    meter = made(tmp_path)
    few = sealed(meter, tmp_path, labels(meter, short=1), 1)
    enough = sealed(meter, tmp_path, labels(meter), 2)
    meter.close()
    with (
        older_books(tmp_path),
        Meter.open(tmp_path / "meter") as opened,
        pytest.raises(InvalidInput, match="too few"),
    ):
        opened.add_test_set(few)
    with Meter.open(tmp_path / "meter") as opened, pytest.raises(WrongPhase, match="tried once"):
        opened.add_test_set(enough)


def test_the_size_was_fixed_before_anything_was_drawn(tmp_path: Path) -> None:
    meter = made(tmp_path)
    more = np.ones(201, np.int64)
    with pytest.raises(InvalidInput, match="201 given, exactly 200 needed"):
        sealed(meter, tmp_path, more, 1)
    assert not tried(meter)


def test_a_meter_without_rows_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="how many rows a test set has, among them at least"):
        made(tmp_path, rows=None)
    with pytest.raises(InvalidInput, match=r"too few: .* positives are needed among them"):
        made(tmp_path, rows=5)


def test_without_a_class_list_the_validation_set_comes_first(tmp_path: Path) -> None:
    meter = made(tmp_path, classes=())
    with pytest.raises(InvalidInput, match="give the validation set first"):
        meter.add_test_set(sealed(meter, tmp_path, labels(meter), 1))
    own = tmp_path / "validation.parquet"
    pq.write_table(rows(np.zeros(10, np.int64), seed=9), own)
    with pytest.raises(InvalidInput, match="one of the classes"):
        meter.set_validation(own, label="label")
    pq.write_table(rows(np.arange(10) % 2, seed=9), own)
    meter.set_validation(own, label="label")
    meter.add_test_set(sealed(meter, tmp_path, labels(meter), 2))


def test_a_validation_set_without_positives_has_no_score(tmp_path: Path) -> None:
    meter = made(tmp_path)
    own = tmp_path / "validation.parquet"
    pq.write_table(rows(np.zeros(10, np.int64), seed=9), own)
    with pytest.raises(InvalidInput, match="no labels '1'"):
        meter.set_validation(own, label="label")


def test_rows_that_are_refused_as_a_try_too_many_belong_to_no_meter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another delivery used the last try meanwhile: the note of the owner was written all the same.

    So no meter of the server could ever take the rows, though they have answered nothing.
    """
    site = make_site(tmp_path / "site", f"sqlite:///{tmp_path}/site.db")
    first, second = (
        Meter(site.space(create_meter(SYSTEM, site, spec_of_few(), name).id))
        for name in ("first", "second")
    )
    given, few = labels(first), sealed(first, tmp_path, labels(first, short=1), 1)
    enough = sealed(first, tmp_path, given, 2)

    def meanwhile(*arguments: Any, **options: Any) -> None:
        check_enough(*arguments, **options)
        monkeypatch.setattr(delivery, "check_enough", check_enough)
        with pytest.raises(InvalidInput, match="try 1 of 1"):
            first.add_test_set(few)

    monkeypatch.setattr(delivery, "check_enough", meanwhile)
    with pytest.raises(WrongPhase, match="was tried once"):
        first.add_test_set(enough)
    (tmp_path / "again").mkdir()
    second.add_test_set(sealed(second, tmp_path / "again", given, 2))
    assert second.status().phase == "active"
