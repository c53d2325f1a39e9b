"""The labelers' page: what is asked for, labels from a browser, parts, notices, release."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.server.driving import (
    VALIDATION,
    begin,
    give_validation,
    parquet,
    submission,
    submit,
)
from tests.server.helpers import Served, serve
from tests.service.helpers import condition_spec, rows, small_spec

from easeml_meter.core.questions.planning import labels_needed
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.service.testsets import delivery, parts
from easeml_meter.vault.keys import Identity, wrap

from .helpers import Visitor, words

LABELS = np.random.default_rng(5).integers(0, 2, 40)
TABLE = rows(LABELS, seed=5)


@pytest.fixture
def labeler(served: Served, meter: str) -> Visitor:
    return Visitor(served, "labeler")


def give(
    served: Served,
    visitor: Visitor,
    meter: str,
    content: bytes,
    kind: str = "parquet",
    **query: str,
) -> httpx.Response:
    """Send labels, as the page's script does."""
    encrypted = wrap(content, [served.site.identity.recipient])
    query = {"kind": kind, "label": "label", "id_column": "id"} | query
    return visitor.put_in(f"/meters/{meter}/labels", encrypted, **query)


def as_csv(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pyarrow.csv.write_csv(table, out)
    return out.getvalue()


def test_a_rolling_test_set_asks_for_batches_and_frees_them(served: Served, tmp_path: Path) -> None:
    prefix = "rolling-"
    meter = served.add_meter(small_spec(window=2), prefix=prefix)
    labeler, developer = (Visitor(served, f"{prefix}{role}") for role in ("labeler", "developer"))
    asked = words(labeler.get(f"/meters/{meter}/labels"))
    assert "The rows are cut into 2 batches in their order" in asked
    labels = begin(served, meter, tmp_path, prefix=prefix)
    batch = len(labels) // 2
    assert "Answers left 1 in this window" in words(developer.get(f"/meters/{meter}"))
    said = words(developer.get(f"/meters/{meter}/promise"))
    assert "in the first 4 windows together, each model's error on its window" in said
    assert "for the first 4 windows together (4 further ones cost another 20 %)." in said
    said = words(developer.get(f"/meters/{meter}/settings"))
    assert f"{batch} for each batch; {2 * batch} to begin with" in said
    told = submit(served.client(f"{prefix}developer"), meter, labels)
    assert told.status_code in (200, 201), told.text
    waiting = words(developer.get(f"/meters/{meter}"))
    assert "Labels needed" in waiting
    assert f"Wait for the batch of window 2 The labelers deliver {batch} labels" in waiting
    assert "The next answer comes with the next batch of labels" in waiting
    assert "averaged over its window of 2 batches" in waiting
    assert "Window 2 needs its batch" in words(labeler.get(f"/meters/{meter}/labels"))
    assert "Deliver the batch for window 2" in words(labeler.get(f"/meters/{meter}"))
    assert developer.get(f"/meters/{meter}/batches/1").status_code == 404
    table = rows(LABELS[:batch], seed=77)
    table = table.set_column(0, "id", pa.array(np.arange(batch) + len(labels)))
    assert give(served, labeler, meter, parquet(table)).status_code == 204
    page = developer.get(f"/meters/{meter}/test-sets")
    assert f'href="/meters/{meter}/batches/1"' in page.text
    assert "Window 2" in words(page)
    freed = developer.get(f"/meters/{meter}/batches/1")
    assert pq.read_table(io.BytesIO(freed.content))["label"].to_pylist() == labels[:batch].tolist()
    assert developer.get(f"/meters/{meter}/batches/2").status_code == 404

    # Steps go on from window to window, for receipts, notes and pages alike.
    client = served.client(f"{prefix}developer")
    now = np.concatenate([labels[batch:], LABELS[:batch]])
    body = submission(now, VALIDATION)
    named = {"model": "second", "no_ids": "true", "note": "new"}
    again = client.post(f"/meters/{meter}/submissions", params=named, content=body).json()
    assert (again["generation"], again["step"]) == (2, 2)
    shown = client.get(f"/meters/{meter}/submissions/{again['id']}").json()
    assert shown["signal"] == again["signal"]
    listed = client.get(f"/meters/{meter}/submissions").json()["items"]
    assert [(each["id"], each["step"]) for each in listed] == [
        (again["id"], 2),
        (told.json()["id"], 1),
    ]
    (note,) = client.get(f"/meters/{meter}/status").json()["notes"]
    assert (note["generation"], note["step"], note["text"]) == (2, 2, "new")
    assert "new" in words(developer.get(f"/meters/{meter}"))


def test_a_test_set_that_is_topped_up_asks_for_more(served: Served, tmp_path: Path) -> None:
    prefix = "topped-"
    spec = small_spec(steps=1, top_up=2)
    meter = served.add_meter(spec, prefix=prefix)
    labeler, developer = (Visitor(served, f"{prefix}{role}") for role in ("labeler", "developer"))
    assert "Spent, the set asks for fresh labels that join it" in words(
        labeler.get(f"/meters/{meter}/labels")
    )
    labels = begin(served, meter, tmp_path, prefix=prefix)
    more = labels_needed(spec, 2, len(labels))
    said = words(developer.get(f"/meters/{meter}/settings"))
    assert f"then {labels_needed(spec, 2)} more for 2 more answers" in said
    assert f"Top-up 2 after {labels_needed(spec, 2)} labels more" in said
    said = words(developer.get(f"/meters/{meter}/promise"))
    assert "in its one answer and 2 more after the top-up together" in said
    assert submit(served.client(f"{prefix}developer"), meter, labels).status_code in (200, 201)
    waiting = words(developer.get(f"/meters/{meter}"))
    assert f"Wait for more labels in test set 1 The labelers deliver {more} labels" in waiting
    asked = words(labeler.get(f"/meters/{meter}/labels"))
    assert "Test set 1 needs labels to answer on" in asked
    assert "They join those of test set 1, which give 2 answers more with them" in asked
    assert "Release test set" not in asked
    assert "Top up test set 1" in words(labeler.get(f"/meters/{meter}"))
    table = rows(LABELS[:more], seed=77)
    table = table.set_column(0, "id", pa.array(np.arange(more) + 1000))
    assert give(served, labeler, meter, parquet(table)).status_code == 204
    assert "Answers left 2 of 2" in words(developer.get(f"/meters/{meter}"))
    client = served.client(f"{prefix}developer")
    for number in (1, 2):
        now = np.concatenate([labels, LABELS[:more]])
        now[:number] ^= 1
        named = {"model": f"model {number}", "no_ids": "true"}
        body = submission(now, VALIDATION)
        told = client.post(f"/meters/{meter}/submissions", params=named, content=body).json()
        assert (told["generation"], told["step"]) == (2, number)
    said = words(labeler.get(f"/meters/{meter}/labels"))
    assert "Test set 1 is spent" in said
    assert "Test set 3 needs labels" in said


def test_the_page_asks_for_the_column_of_a_judge_and_takes_it(served: Served) -> None:
    spec = small_spec(judge_error=0.3, rows=50, pool=300, tolerance=0.3, edges=[0.4], signals=2)
    meter = served.add_meter(spec, prefix="judged-")
    labeler = Visitor(served, "judged-labeler")
    page = labeler.get(f"/meters/{meter}/labels")
    assert '<input id="judge" name="judge" value="judge" required' in page.text
    assert 'data-pool="300"' in page.text
    said = words(page)
    assert "exactly 50 with a label and 300 without one" in said
    assert "--label label --judge judge --out labels.sealed" in said
    assert "in parts" not in said
    assert "More are welcome" not in said
    assert give_validation(served.client("judged-developer"), meter).is_success
    truth = np.arange(350) % 2
    table = rows(truth, seed=6).set_column(
        3, "label", pa.array(truth, mask=np.arange(len(truth)) >= 50)
    )
    table = table.append_column("word", pa.array(truth))
    for judge, problem in (("", "name the column of the judge"), ("judge", "no column 'judge'")):
        refused = give(served, labeler, meter, parquet(table), judge=judge)
        assert refused.status_code == 422
        assert problem in words(refused), words(refused)
    fewer = give(served, labeler, meter, parquet(table.slice(0, 300)), judge="word")
    assert "300 given, exactly 50 with a label and 300 without" in words(fewer)
    decided = {"judge": "word", "ids_renumbered": "true"}
    taken = give(served, labeler, meter, as_csv(table), "csv", **decided)
    assert taken.status_code == 204, words(taken)
    assert "Test set 1 is active, with 350 rows." in words(labeler.get(f"/meters/{meter}/labels"))
    client = served.client("judged-developer")
    told = submit(client, meter, truth)
    assert told.json()["signal"]["answer"] == "1", told.text


def test_the_page_asks_for_labels_on_demand_and_takes_them(served: Served) -> None:
    prefix = "demand-"
    spec = condition_spec(
        question="n - o > 0 +/- 0.15", disagreement=0.3, on_demand=True, inputs="public"
    )
    meter = served.add_meter(spec, prefix=prefix)
    labeler, developer = (Visitor(served, f"{prefix}{role}") for role in ("labeler", "developer"))
    asked = words(labeler.get(f"/meters/{meter}/labels"))
    assert "Test set 1 needs inputs" in asked
    assert "meter seal labels.parquet --id id" in asked
    assert "Deliver inputs for test set 1" in words(labeler.get(f"/meters/{meter}"))
    client = served.client(f"{prefix}developer")
    needed = client.get(f"/meters/{meter}/test-sets").json()["items"][0]["labels_needed"]
    labels = np.arange(needed) % 2
    ids = pa.table({"id": np.arange(needed)})
    assert give(served, labeler, meter, parquet(ids), label="").status_code == 204
    assert give_validation(client, meter).status_code == 201
    old = labels.copy()
    old[: needed // 4] ^= 1
    for number, predicted in enumerate((old, labels)):
        sent = submit(client, meter, predicted, params={"baseline": not number})
        assert sent.status_code == (409 if number else 200), sent.text
    wait = words(developer.get(f"/meters/{meter}"))
    quota = spec.quota(needed)
    assert f"Wait for {quota} labels A submission waits for them" in wait
    assert developer.get(f"/meters/{meter}/labels/wanted.csv").status_code == 403
    assert f"Give {quota} labels" in words(labeler.get(f"/meters/{meter}"))
    page = labeler.get(f"/meters/{meter}/labels")
    assert f"A submission waits for {quota} labels" in words(page)
    assert f'action="/meters/{meter}/labels/wanted"' in page.text
    sheet = labeler.get(f"/meters/{meter}/labels/wanted.csv").text.splitlines()
    wanted = [int(line.split(",")[0].strip('"')) for line in sheet[1:]]
    assert (sheet[0].replace('"', ""), len(wanted)) == ("id,label", quota)
    known = "\n".join(["id,label", *(f"{each},{labels[each]}" for each in wanted)])

    def answer(text: str) -> httpx.Response:
        encrypted = wrap(text.encode(), [served.site.identity.recipient])
        query = {"kind": "csv", "label": "label", "id_column": "id"}
        return labeler.put_in(f"/meters/{meter}/labels/wanted", encrypted, **query)

    short = answer(known.rpartition("\n")[0])
    assert short.status_code == 422
    assert f"{quota - 1} of {quota} labels given" in short.text
    assert answer(known).status_code == 204
    done = words(labeler.get(f"/meters/{meter}/labels"))
    assert f"Received {quota} labels: the submission is answered. " in done
    assert "No labels are needed now" in done
    assert "pass" in words(developer.get(f"/meters/{meter}"))


def test_commands_name_the_address_of_the_settings(tmp_path: Path) -> None:
    """They named the host that the request named, and labelers copy them to a shell."""
    with serve(tmp_path / "site", public_url="https://meter.example.org") as served:
        meter = served.add_meter()
        page = Visitor(served, "labeler").get(f"/meters/{meter}/labels")
        assert f"--server https://meter.example.org --meter {meter}" in words(page)
        assert "http://server" not in words(page)


def test_the_page_says_what_is_asked_for(served: Served, meter: str, labeler: Visitor) -> None:
    page = labeler.get(f"/meters/{meter}/labels")
    assert page.status_code == 200
    assert "Test set 1 needs labels" in words(page)
    needed = served.client("labeler").get(f"/meters/{meter}/requests").json()["items"][0]
    assert f"0 of {needed['labels_needed']} labels have arrived" in words(page)
    assert f'data-recipient="{served.site.identity.recipient}"' in page.text
    assert f"--server http://server --meter {meter}" in words(page)

    sent = labeler.send(
        f"/meters/{meter}/labels/1/describe", reason="the <spring> release", deadline="2026-03-31"
    )
    assert (sent.status_code, sent.headers["location"]) == (303, f"/meters/{meter}/labels")
    page = labeler.get(f"/meters/{meter}/labels")
    assert "the <spring> release" in words(page)
    assert "the rest is due on 2026-03-31" in words(page)


@pytest.mark.parametrize(
    "fields",
    [{"deadline": "tomorrow"}, {"deadline": "2026-02-30"}, {"reason": "x" * 501}, {"reason": "\0"}],
)
def test_odd_descriptions_are_refused(meter: str, labeler: Visitor, fields: dict[str, str]) -> None:
    assert labeler.send(f"/meters/{meter}/labels/1/describe", **fields).status_code == 422


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_labels_from_a_browser_become_a_test_set(
    served: Served, meter: str, labeler: Visitor, kind: str
) -> None:
    content = parquet(TABLE) if kind == "parquet" else as_csv(TABLE)
    taken = give(served, labeler, meter, content, kind)
    assert (taken.status_code, taken.headers["hx-redirect"]) == (204, f"/meters/{meter}/labels")
    page = labeler.get(f"/meters/{meter}/labels")
    assert "Test set 1 is active, with 40 labels." in words(page)
    assert "No labels are needed now" in words(page)
    space = served.site.space(meter)
    with space.reading() as books:
        generation = space.state(books).active()
    with open_sealed(space, generation) as sealed:
        assert pa.Table.from_batches(sealed.batches()).to_pydict() == TABLE.to_pydict()


def test_parts_are_listed_and_can_be_taken_back(
    served: Served, meter: str, labeler: Visitor
) -> None:
    for start in (0, 5):
        assert give(served, labeler, meter, parquet(TABLE.slice(start, 5))).status_code == 204
    page = words(labeler.get(f"/meters/{meter}/labels"))
    assert "10 of" in page
    assert page.count("labeler Withdraw") == 2
    assert "meter seal labels.parquet --label label --id id --out" in page
    path = f"/meters/{meter}/labels/1/parts/1/withdraw"
    assert labeler.send(path).status_code == 303
    page = words(labeler.get(f"/meters/{meter}/labels"))
    assert "Part 1 is taken back." in page
    assert "5 of" in page
    assert labeler.send(path).status_code == 404


def test_a_damaged_part_can_be_taken_back(served: Served, meter: str, labeler: Visitor) -> None:
    assert give(served, labeler, meter, parquet(TABLE.slice(0, 5))).status_code == 204
    files = served.site.space(meter).files
    (name,) = files.names("parts")
    Path(files.location(f"parts/{name}")).write_bytes(b"damaged")
    assert "5 of" in words(labeler.get(f"/meters/{meter}/labels"))
    assert labeler.send(f"/meters/{meter}/labels/1/parts/1/withdraw").status_code == 303


def test_refusals_name_rows_by_number_and_nothing_else(
    served: Served, meter: str, labeler: Visitor
) -> None:
    missing = TABLE.to_pydict()
    missing["label"][6] = None
    refused = give(served, labeler, meter, parquet(pa.table(missing)))
    assert refused.status_code == 422
    assert "labels.parquet: the label is missing in row 7" in words(refused)
    assert tempfile.gettempdir() not in refused.text
    broken = give(served, labeler, meter, b"label\nsecretvalue\n1,2,3\n", "csv", id_column="")
    assert broken.status_code == 422
    assert "secretvalue" not in broken.text
    assert give(served, labeler, meter, parquet(TABLE), label="other").status_code == 422
    assert "ending '.txt' given" in words(give(served, labeler, meter, as_csv(TABLE), "txt"))
    assert give(served, labeler, meter, as_csv(TABLE), "../csv").status_code == 422
    give_validation(served.client("developer"), meter)
    seen = give(served, labeler, meter, parquet(rows(VALIDATION, seed=7)))
    assert "stand in validation set 1 under the same id" in words(seen)
    assert "0 of" in words(labeler.get(f"/meters/{meter}/labels"))


def test_plain_labels_and_those_for_another_key_are_refused(
    served: Served, meter: str, labeler: Visitor
) -> None:
    path, query = f"/meters/{meter}/labels", {"kind": "parquet", "label": "label"}
    for body in (parquet(TABLE), wrap(parquet(TABLE), [Identity.new().recipient])):
        refused = labeler.put_in(path, body, **query)
        assert refused.status_code == 409
        assert "the file cannot be opened" in words(refused)


def test_plain_rows_touch_no_disk(
    served: Served, meter: str, labeler: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "words-that-are-easy-to-find"
    table = TABLE.append_column("note", pa.array([f"{told}-{row}" for row in range(40)]))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    found: list[str] = []

    def look() -> None:
        for path in tmp_path.rglob("*"):
            if path.is_file() and not path.is_symlink():
                found.append(path.name)
                assert told.encode() not in path.read_bytes()

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            look()
            try:
                return real(*given, **options)
            finally:
                look()

        return call

    monkeypatch.setattr(delivery, "seal_labels", watched(delivery.seal_labels))
    monkeypatch.setattr(parts, "add_labels", watched(parts.add_labels))
    assert give(served, labeler, meter, as_csv(table), "csv").status_code == 204
    assert "labels.sealed" in found
    assert not list(temporary.iterdir())


def test_too_large_a_file_is_refused(served: Served, meter: str, labeler: Visitor) -> None:
    with mock.patch.object(parts, "LARGEST_FROM_BROWSER", 1000):
        refused = give(served, labeler, meter, bytes(100_000))
    assert refused.status_code == 413


@pytest.mark.parametrize("user", ["developer", "runner", "admin"])
def test_the_page_is_for_labelers(served: Served, meter: str, user: str) -> None:
    visitor = Visitor(served, user)
    page = visitor.get(f"/meters/{meter}/labels")
    assert page.status_code == 403
    assert "You may not see or do this" in words(page)
    assert give(served, visitor, meter, parquet(TABLE)).status_code == 403
    for path in ("1/describe", "1/parts/1/withdraw", "1/release"):
        assert visitor.send(f"/meters/{meter}/labels/{path}").status_code == 403
    assert Visitor(served, "stranger").get(f"/meters/{meter}/labels").status_code == 404


def test_nothing_is_taken_without_the_csrf_token(
    served: Served, meter: str, labeler: Visitor
) -> None:
    labeler.csrf = "0" * 64
    assert give(served, labeler, meter, parquet(TABLE)).status_code == 403
    for path in ("1/describe", "1/parts/1/withdraw", "1/release"):
        assert labeler.send(f"/meters/{meter}/labels/{path}").status_code == 403


def test_a_spent_test_set_is_released(
    served: Served, meter: str, labeler: Visitor, tmp_path: Path
) -> None:
    labels = begin(served, meter, tmp_path)
    path = f"/meters/{meter}/labels/1/release"
    assert labeler.send(path).status_code == 409
    for step in range(4):
        assert submit(served.client("developer"), meter, labels, errors=step).is_success
    page = words(labeler.get(f"/meters/{meter}/labels"))
    assert "Test set 1 is spent" in page
    assert "Test set 2 needs labels" in page
    assert labeler.send(path).status_code == 303
    page = words(labeler.get(f"/meters/{meter}/labels"))
    assert "Test set 1 is released to the developers." in page
    assert "Test set 1 is spent" not in page
    assert labeler.send(path).status_code == 303  # done already


def test_labelers_are_told_of_shared_rows(
    served: Served, meter: str, labeler: Visitor, tmp_path: Path
) -> None:
    labels = begin(served, meter, tmp_path, seed=3)
    assert "For labelers only" not in words(labeler.get(f"/meters/{meter}/labels"))
    probe = parquet(rows(labels, seed=1003).slice(0, 4))
    assert (
        served.client("developer")
        .post(f"/meters/{meter}/validation-sets", content=probe)
        .is_success
    )
    page = words(labeler.get(f"/meters/{meter}/labels"))
    assert "Validation set 2 shares 4 rows with test set 1" in page
    assert ", first 1, 2, 3, 4. Developers have seen these inputs." in page


def test_the_page_asks_the_labeler_and_takes_the_decision(
    served: Served, meter: str, labeler: Visitor
) -> None:
    give_validation(served.client("developer"), meter)
    odd = TABLE.set_column(3, "label", pa.array([7, *LABELS[1:].tolist()]))
    decisions: dict[str, str] = {}
    for name, asked in (
        ("keep_unknown_labels", "in 1 row: correct them, or keep them"),
        ("ids_renumbered", "20 in validation set 1: if the examples were numbered anew"),
    ):
        refused = give(served, labeler, meter, parquet(odd), **decisions)
        assert asked in words(refused)
        decisions[name] = "true"
        assert f'type="checkbox" name="{name}"' in labeler.get(f"/meters/{meter}/labels").text
    assert give(served, labeler, meter, parquet(odd), **decisions, drop="x").status_code == 204
    (test_set,) = served.client("labeler").get(f"/meters/{meter}/test-sets").json()["items"]
    assert [column["name"] for column in test_set["columns"]] == ["id", "y", "label"]


def test_the_page_takes_fewer_rows_than_planned_if_these_are_all(
    served: Served, meter: str, labeler: Visitor
) -> None:
    few = parquet(TABLE.slice(0, 30))
    assert give(served, labeler, meter, few).status_code == 204
    assert "30 of" in words(labeler.get(f"/meters/{meter}/labels"))  # it waits for more
    assert give(served, labeler, meter, few, accept_fewer="true").status_code == 204
    page = labeler.get(f"/meters/{meter}/labels")
    assert "Test set 1 is active, with 30 labels." in words(page)
    (test_set,) = served.client("labeler").get(f"/meters/{meter}/test-sets").json()["items"]
    assert (test_set["phase"], test_set["rows"]) == ("active", 30)
    give_validation(served.client("developer"), meter)
    told = submit(served.client("developer"), meter, LABELS[:30]).json()["signal"]
    (planned,) = {*small_spec().tolerances}
    assert told["tolerance"] > planned  # the promise is weaker


@pytest.mark.parametrize("user", ["labeler", "admin"])
def test_a_test_set_is_retired_early(served: Served, meter: str, tmp_path: Path, user: str) -> None:
    begin(served, meter, tmp_path)
    visitor = Visitor(served, user)
    page = f"/meters/{meter}/labels" if user == "labeler" else f"/admin/meters/{meter}"
    assert "Retire test set 1 early" in words(visitor.get(page))
    path = f"/meters/{meter}/test-sets/1/retire"
    assert Visitor(served, "developer").send(path).status_code == 403
    assert visitor.send(path).status_code == 303
    assert "Test set 1 is retired." in words(visitor.get(f"/meters/{meter}"))
    assert "Retire test set" not in words(visitor.get(page))
    assert visitor.send(path).status_code == 303  # done already
