"""Meters whose labels are asked for when two models differ: from the file to the release."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.running import Captured, run
from tests.live import live
from tests.properties.stories import one_secret
from tests.properties.test_noninterference_in_a_folder import Side
from tests.service.demand import OWN, QUESTION, Demand, begin, spec_of
from tests.service.helpers import Labels, make_session, rows, write_predictions

from easeml_meter.core.model import Event, Wanted
from easeml_meter.core.questions.planning import plan_of
from easeml_meter.errors import Denied, InvalidInput, MeterError, Spent, Waiting, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.service.place import ORDERS, Workspace
from easeml_meter.service.submissions import answering, waiting
from easeml_meter.service.testsets import orders
from easeml_meter.vault.keys import unwrap

NAMES = ("no", "certainly")
"""Classes whose names are of different lengths."""


@pytest.fixture
def demand(tmp_path: Path) -> Demand:
    return begin(tmp_path)


def test_each_step_waits_for_its_quota_and_the_answer_comes_with_it(demand: Demand) -> None:
    size, quota = len(demand.labels), demand.quota
    first = demand.submit(range(quota), "deployed")
    assert (first.name, demand.meter.wanted()) == ("baseline", None)
    asked = demand.wait(range(5), "better")
    assert (asked.order.labels, len(set(asked.ids)), asked.id_column) == (quota, quota, "id")
    assert {str(row) for row in range(5, quota)} <= set(asked.ids)  # where the two differ
    assert len(demand.meter.status().signals) == 1
    demand.label(asked)
    told = demand.submit(range(5), "better")
    assert (told.name, told.step, told.old, told.repeated) == ("pass", 2, 1, True)
    assert "is truly more accurate than the old one" in told.promise
    worse = demand.answered(range(quota, quota + 8), "other")
    assert worse.name == "fail"  # its 8 errors lie elsewhere: they differ on too many rows
    orders = [link for link in demand.meter.audit().links if link.event == Event.LABELS_ASKED]
    assert [link.details["labels"] for link in orders] == [quota, quota]
    assert demand.meter.audit().sound
    assert demand.meter.status().rows == size


def test_bills_follow_from_the_number_of_the_step_alone(demand: Demand) -> None:
    """Whatever is submitted: nothing new, a little, or so much that no label is read."""
    size, quota = len(demand.labels), demand.quota
    demand.submit(range(0), "deployed")
    bills = []
    for number, wrong in enumerate((range(2), range(1), range(size), range(3))):
        asked = demand.wait(wrong, f"m{number}")
        bills.append(asked.order.labels)
        demand.label(asked)
    assert bills == [quota, quota, quota, size - 3 * quota]
    # Every row has its label now, so nobody waits any more.
    assert demand.submit(range(4), "last").name == "fail"
    assert demand.meter.wanted() is None


def test_answers_are_those_of_labels_that_were_there_all_along(tmp_path: Path) -> None:
    """The same models get the same answers, whether labels are bought or were there at first."""
    (tmp_path / "bought").mkdir()
    (tmp_path / "there").mkdir()
    demand = begin(tmp_path / "bought")
    whole = make_session(tmp_path / "there", spec_of(on_demand=False), seed=0, size=54)
    assert whole.test_labels.tolist() == demand.labels.tolist()
    rng = np.random.default_rng(4)
    told = []
    for number in range(5):
        wrong = rng.choice(
            16, size=rng.integers(1, 16), replace=False
        )  # at most 0.3 of them differ
        files = demand.files(wrong, f"m{number}")
        if number:
            with pytest.raises(Waiting):
                demand.meter.submit(*files, model=f"m{number}")
            demand.label(demand.meter.wanted())
        bought = demand.meter.submit(*files, model=f"m{number}", baseline=not number)
        write_predictions(files[1], whole.validation_labels)
        there = whole.meter.submit(*files, model=f"m{number}", baseline=not number)
        assert (bought.name, bought.steps_left) == (there.name, there.steps_left)
        told.append(there.name)
    assert {"pass", "fail"} <= set(told)


def test_others_wait_for_the_one_that_waits(demand: Demand) -> None:
    demand.submit(range(10), "deployed")
    asked = demand.wait(range(5), "a")
    for _ in range(2):
        with pytest.raises(Waiting, match=r"a waits for .* submit it again later"):
            demand.submit(range(5), "a")
    with pytest.raises(Waiting, match=r"a waits for .* submit this one after its answer"):
        demand.submit(range(6), "b")
    assert demand.meter.wanted() == asked
    order = demand.label(asked)
    assert [each.model for each in demand.meter.status().signals] == ["deployed", "a"]
    assert demand.label(asked) == order  # the same labels once more
    with pytest.raises(WrongPhase, match="nothing to give"):
        demand.meter.give_labels(pa.table({"id": ["1"], "is": ["1"]}), label="is")


def test_several_teams_share_the_orders_of_one_test_set(tmp_path: Path) -> None:
    """Each team has its own old model and steps; the bill follows from all steps together."""
    demand = begin(tmp_path, spec_of(steps=5, tenants=(3, 2)))
    size, quota = len(demand.labels), demand.quota
    for tenant in (1, 2):
        assert demand.submit(range(quota), f"deployed{tenant}", tenant).name == "baseline"
    bills = []
    steps = [(range(5), "a", 1), (range(7), "b", 2), (range(6), "c", 1), (range(4), "d", 2)]
    for wrong, model, tenant in steps:
        asked = demand.wait(wrong, model, tenant)
        bills.append(asked.order.labels)
        demand.label(asked)
        told = demand.submit(wrong, model, tenant)
        assert (told.name, told.tenant, told.old, told.repeated) == ("pass", tenant, 1, True)
    assert bills == [quota, quota, quota, size - 3 * quota]
    with pytest.raises(Spent):
        demand.submit(range(3), "e", 2)
    assert demand.submit(range(3), "e", 1).name == "pass"  # every row has its label by now
    assert demand.meter.audit().sound
    models = [
        [each.model for each in demand.meter.status(tenant=t, generation=1).signals] for t in (1, 2)
    ]
    assert models == [["deployed1", "a", "c", "e"], ["deployed2", "b", "d"]]
    records = json.loads((demand.meter.release() / "retrospective.json").read_text())
    gained = {each["model"]: each["change"] for each in records if each["change"] is not None}
    errors = {"a": 5, "b": 7, "c": 6, "d": 4, "e": 3}
    assert gained == {each: pytest.approx((quota - errors[each]) / size) for each in errors}


def test_a_team_learns_of_another_only_that_something_waits(tmp_path: Path) -> None:
    """Not its name, nor whether its predictions are those of the model that waits."""
    demand = begin(tmp_path, spec_of(steps=5, tenants=(3, 2)))
    for tenant in (1, 2):
        demand.submit(range(demand.quota), f"deployed{tenant}", tenant)
    asked = demand.wait(range(5), "secret", 1)
    refused = set()
    for wrong, model in ((range(6), "other"), (range(5), "same"), (range(5), "secret")):
        with pytest.raises(Waiting) as error:
            demand.submit(wrong, model, 2)
        refused.add(str(error.value))
    assert refused == {
        "a submission of another team waits for 17 labels, which the labelers were asked for: "
        "submit this one after its answer"
    }
    demand.label(asked)
    assert demand.meter.status(tenant=2).signals[-1].model == "deployed2"
    assert demand.wait(range(5), "same", 2).order.number == 2  # the same predictions cost it a step


def test_what_labelers_give_is_checked(demand: Demand) -> None:
    demand.submit(range(10), "deployed")
    asked = demand.wait(range(5), "a")
    ids = list(asked.ids)

    def give(ids: list[str], labels: list[str | None], **options: Any) -> Any:
        table = pa.table({"id": ids, "is": pa.array(labels, pa.string())})
        return demand.meter.give_labels(table, label="is", **options)

    missing = f"{len(ids) - 1} of {len(ids)} labels given, missing for id '{ids[-1]}': add them"
    with pytest.raises(InvalidInput, match=missing):
        give(ids[:-1], ["1"] * (len(ids) - 1))
    with pytest.raises(InvalidInput, match=missing):
        give(ids, [*["1"] * (len(ids) - 1), None])
    with pytest.raises(InvalidInput, match="two labels"):
        give([*ids, ids[0]], [*["1"] * len(ids), "0"])
    with pytest.raises(InvalidInput, match="outside the class list"):
        give(ids, ["7"] * len(ids))
    assert demand.meter.wanted() == asked
    # Other rows are left out, and a label that no model predicts may be meant.
    order = give([*ids, "none of them"], ["7"] * (len(ids) + 1), keep_unknown_labels=True)
    assert order.labels == len(ids)
    assert demand.submit(range(5), "a").name == "fail"  # both models are wrong everywhere


def test_release_gives_the_labels_that_were_bought(demand: Demand) -> None:
    demand.submit(range(demand.quota), "deployed")
    demand.answered(range(5), "better")
    demand.meter.retire()
    folder = demand.meter.release()
    whole = pq.read_table(folder / "testset.parquet")
    assert whole.column_names == ["id", "x", "y", "label"]
    known = {int(row["id"]): row["label"] for row in whole.to_pylist() if row["label"] is not None}
    assert len(known) == demand.quota
    assert all(known[row] == str(demand.labels[row]) for row in known)
    records = json.loads((folder / "retrospective.json").read_text())
    gained = (demand.quota - 5) / len(demand.labels)
    assert [each["change"] for each in records] == [None, pytest.approx(gained)]
    assert "No step has losses to check" in (folder / "report.html").read_text()
    assert demand.meter.audit().sound


def test_a_crash_after_the_labels_came_loses_no_answer(
    demand: Demand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(_: object) -> bool:
        raise KeyboardInterrupt

    demand.submit(range(demand.quota), "deployed")
    asked = demand.wait(range(5), "better")
    with monkeypatch.context() as broken:
        broken.setattr(orders, "settle", crash)
        with pytest.raises(KeyboardInterrupt):
            demand.label(asked)
    reopened = Meter.open(demand.folder / "meter")
    assert len(reopened.status().signals) == 1
    # Another submission comes first; the one that waited is answered before it.
    with pytest.raises(Waiting, match="next waits"):
        reopened.submit(*demand.files(range(4), "next"), model="next")
    assert [each.name for each in reopened.status().signals] == ["baseline", "pass"]


def between(demand: Demand, asked: Wanted) -> Callable[[Workspace], bool]:
    """Return a `settle` after which the labels come, whose answer is not entered yet."""
    looked: list[bool] = []

    def settle(space: Workspace) -> bool:
        looked.append(answering_settle(space))
        if len(looked) == 1:
            with mock.patch.object(orders, "settle", return_value=False):
                demand.label(asked)
        return looked[-1]

    answering_settle = answering.settle
    return settle


def asked_for(demand: Demand) -> int:
    links = demand.meter.audit().links
    return sum(link.details["labels"] for link in links if link.event == Event.LABELS_ASKED)


def test_what_comes_between_labels_and_their_answer_goes_after_it(demand: Demand) -> None:
    """It placed an order of its own; the one whose labels were here was never answered."""
    demand.submit(range(demand.quota), "deployed")
    asked = demand.wait(range(5), "better")
    with (
        mock.patch.object(answering, "settle", between(demand, asked)),
        pytest.raises(MeterError, match="another submission came meanwhile: submit this one again"),
    ):
        demand.submit(range(4), "next")
    assert asked_for(demand) == demand.quota
    demand.wait(range(4), "next")
    assert [each.model for each in demand.meter.status().signals] == ["deployed", "better"]


def test_also_where_all_labels_are_here(demand: Demand) -> None:
    """It was answered first, with a step that the one that waited had been asked for."""
    demand.submit(range(demand.quota), "deployed")
    for number in range(1, 4):
        demand.answered(range(number), f"m{number}")
    asked = demand.wait(range(5), "last of the labels")
    assert asked_for(demand) == len(demand.labels)
    with (
        mock.patch.object(answering, "settle", between(demand, asked)),
        pytest.raises(MeterError, match="another submission came meanwhile"),
    ):
        demand.submit(range(6), "next")
    models = [each.model for each in demand.meter.status().signals]
    assert models == ["deployed", "m1", "m2", "m3"]


def test_all_that_have_waited_are_answered_the_oldest_first(demand: Demand) -> None:
    """Books that were written by a version which let one pass the other have two of them."""
    demand.submit(range(demand.quota), "deployed")
    asked = demand.wait(range(5), "better")
    with (
        mock.patch.object(answering, "settle", between(demand, asked)),
        mock.patch.object(waiting, "unanswered", return_value=None),
        pytest.raises(Waiting, match="next waits"),
    ):
        demand.submit(range(4), "next")
    demand.label(demand.meter.wanted())
    told = [each.model for each in demand.meter.status().signals]
    assert told == ["deployed", "better", "next"]
    assert demand.submit(range(5), "better").repeated
    assert demand.meter.audit().sound


def test_older_books_neither_replace_labels_nor_make_up_a_change(demand: Demand) -> None:
    """The answer comes back from the journal, but nobody knows any more what was labelled."""
    state = demand.folder / "meter" / ".meter"
    demand.submit(range(16), "deployed")
    demand.meter.close()
    books = {path: path.read_bytes() for path in state.glob("meter.db*")}
    demand.meter = Meter.open(demand.folder / "meter")
    assert demand.answered(range(2), "better").name == "pass"
    bought = {path: path.read_bytes() for path in (state / ORDERS).iterdir()}
    demand.meter.close()
    for path in state.glob("meter.db*"):
        path.unlink()
    for path, content in books.items():
        path.write_bytes(content)
    demand.meter = Meter.open(demand.folder / "meter")
    demand.answered(range(15), "other")
    assert all(path.read_bytes() == content for path, content in bought.items())
    demand.meter.retire()
    records = json.loads((demand.meter.release() / "retrospective.json").read_text("utf-8"))
    assert [(each["model"], each["change"]) for each in records] == [
        ("deployed", None),
        ("better", None),
        ("other", pytest.approx(1 / len(demand.labels))),
    ]


def test_what_waits_is_in_a_backup_and_follows_a_new_key(
    demand: Demand, capsys: Captured, tmp_path: Path
) -> None:
    home = demand.folder / "meter"
    demand.submit(range(demand.quota), "deployed")
    first = demand.wait(range(5), "better")
    demand.meter.close()
    assert run(capsys, "backup", str(tmp_path / "copy"), "--with-key", "-C", str(home))[0] == 0
    assert run(capsys, "key", "rotate", "-C", str(home))[0] == 0
    code, _, err = run(capsys, "restore", str(tmp_path / "copy"), "-C", str(tmp_path / "again"))
    assert code == 0, err
    for folder in (home, tmp_path / "again"):
        demand.meter = Meter.open(folder)
        assert demand.meter.wanted().ids == first.ids
        demand.label(demand.meter.wanted())
        assert demand.submit(range(5), "better").name == "pass"


def test_of_several_at_once_one_waits(demand: Demand) -> None:
    demand.submit(range(10), "deployed")
    files = [demand.files(range(each), f"m{each}") for each in range(1, 5)]

    def submit(number: int) -> str:
        with Meter.open(demand.folder / "meter") as meter:
            try:
                return meter.submit(*files[number], model=f"m{number + 1}").name
            except MeterError as error:
                return str(error)

    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(submit, range(4)))
    asked = demand.meter.wanted()
    assert asked is not None
    assert sum("submit it again later" in line for line in said) == 1, said
    assert all("waits for" in line or "meanwhile" in line for line in said), said
    orders = [link for link in demand.meter.audit().links if link.event == Event.LABELS_ASKED]
    assert len(orders) == 1
    demand.label(asked)
    assert len(demand.meter.status().signals) == 2


def test_no_label_lies_about_in_the_clear(tmp_path: Path) -> None:
    classes = ("plainly-negative", "plainly-positive")
    demand = begin(tmp_path, spec_of(classes=(0, 1)))
    demand.submit(range(demand.quota), "deployed")
    asked = demand.wait(range(5), "better")
    ids = list(asked.ids)
    known = pa.table({"id": ids, "is": [classes[demand.labels[int(each)]] for each in ids]})
    demand.meter.give_labels(known, label="is", keep_unknown_labels=True)
    files = [path for path in (demand.folder / "meter").rglob("*") if path.is_file()]
    assert any(path.name == "1-1-labels.age" for path in files)
    assert not any(b"plainly" in path.read_bytes() for path in files)


def test_a_reading_of_the_difference_is_bought_like_a_verdict(tmp_path: Path) -> None:
    reading = "n - o at 0 +/- 0.25"
    demand = begin(tmp_path, spec_of(question=reading, steps=2))
    demand.submit(range(6), "deployed")
    assert demand.answered(range(2), "better").change == (0.0, 1.0)
    far = demand.answered(range(len(demand.labels)), "far")
    assert far.name == "too-far"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"question": "n > 0.5 +/- 0.2", "disagreement": None}, "only with"),
        ({"disagreement": None}, "only with"),
        (
            {"question": f"{QUESTION} /\\ n > 0.5 +/- 0.2"},
            'a clause about "n" reads every label, also where both models predict the same, which '
            "no step asks for: leave it or on_demand out",
        ),
        ({"on_demand": 1}, "true or false"),
    ],
)
def test_what_reads_all_labels_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        spec_of(**options)


def test_rows_are_sealed_without_labels_and_with_ids(demand: Demand) -> None:
    demand.meter.retire()
    table = rows(demand.labels, seed=9)
    out = demand.folder / "next.sealed"
    with pytest.raises(InvalidInput, match="leave out --label"):
        demand.meter.seal(table, out, label="label", id_column="id")
    with pytest.raises(InvalidInput, match="asked for by id"):
        demand.meter.seal(table, out)
    with pytest.raises(InvalidInput, match="inputs"):
        demand.meter.seal(table.slice(0, 5), out, id_column="id")
    # Unless columns are named, only ids are sealed: labels that stand beside them stay at home.
    alone = demand.meter.seal(table, demand.folder / "alone.sealed", id_column="id")
    assert [each.name for each in alone.columns] == ["id", "no label"]
    demand.meter.seal(table, out, id_column="id", columns=["x", "y"])
    demand.meter.add_test_set(out, ids_renumbered=True)
    assert demand.meter.wanted() is None


# --- The commands, and a server ---


def test_the_commands_of_developer_and_labeler(demand: Demand, capsys: Captured) -> None:
    place = ["-C", str(demand.folder / "meter")]
    demand.submit(range(demand.quota), "deployed")
    test, own = demand.files(range(5), "better")
    submit = ["submit", "--test", str(test), "--validation", str(own), "--model", "better", *place]
    code, _, err = run(capsys, *submit)
    assert code == 4
    assert "better waits for 17 labels, which the labelers were asked for" in err
    code, out, _ = run(capsys, "testset", "requests", *place)
    assert (code, out.splitlines()[0]) == (0, "a step waits for 17 labels")
    sheet = demand.folder / "wanted.csv"
    code, out, _ = run(capsys, "testset", "wanted", "--out", str(sheet), *place)
    assert "test set 1, order 1: 17 labels" in out
    assert f"Next: meter testset label {sheet} --label label" in out
    code, _, err = run(capsys, "testset", "label", str(sheet), "--label", "label", *place)
    assert code == 2
    assert "0 of 17 labels given" in err
    heading, *lines = sheet.read_text().splitlines()
    ids = [line.partition(",")[0].strip('"') for line in lines]
    filled = [f"{each},{demand.labels[int(each)]}" for each in ids]
    sheet.write_text("\n".join([heading, *filled]))
    code, out, _ = run(capsys, "testset", "label", str(sheet), "--label", "label", *place)
    assert (code, "took 17 labels" in out) == (0, True)
    code, out, _ = run(capsys, "testset", "wanted", "--json", *place)
    assert (code, json.loads(out)) == (0, None)
    assert run(capsys, *submit)[0] == 0  # it passed


def test_a_server_asks_and_answers(tmp_path: Path) -> None:
    with live(tmp_path / "site") as site:
        made = site.served.add_meter(spec_of(), prefix="d-")
        with (
            site.meter("d-labeler", made) as labeler,
            site.meter("d-developer", made) as developer,
        ):
            developer.set_validation(rows(OWN, seed=7), label="label")
            labels = np.random.default_rng(0).integers(0, 2, developer.plan.labels)
            inputs = rows(labels, seed=3).drop_columns(["label"])
            labeler.seal(inputs, tmp_path / "set.sealed", id_column="id", columns=["x", "y"])
            labeler.add_test_set(tmp_path / "set.sealed", ids_renumbered=True)
            demand = Demand(tmp_path, developer, labels)
            demand.submit(range(10), "deployed")
            with pytest.raises(Waiting, match="better waits for"):
                demand.submit(range(0), "better")
            with pytest.raises(Denied):
                developer.wanted()
            asked = labeler.wanted()
            assert asked is not None
            known = pa.table({"id": list(asked.ids), "is": labels[[int(e) for e in asked.ids]]})
            with pytest.raises(InvalidInput, match="1 of 17 labels given"):
                labeler.give_labels(known.slice(0, 1), label="is")
            order = labeler.give_labels(known, label="is")
            assert (order.number, order.labels, bool(order.given_at)) == (1, len(asked.ids), True)
            assert labeler.wanted() is None
            told = demand.submit(range(0), "better")
            assert (told.name, told.step, told.repeated) == ("pass", 2, True)
            with pytest.raises(WrongPhase, match="nothing to give"):
                labeler.give_labels(known, label="is")


# --- Two meters that differ in nothing but their labels ---


@dataclass
class DemandSide(Side):
    """One of the two meters, whose labeler gives what is asked for."""

    def __post_init__(self) -> None:
        meter = Meter.create(self.folder / "meter", self.spec, name="m", clock=self.clock)
        own = rows(OWN, seed=2).drop_columns(["label"])
        own = own.append_column("label", pa.array([NAMES[code] for code in OWN]))
        pq.write_table(own, self.folder / "validation.parquet")
        meter.set_validation(self.folder / "validation.parquet", label="label")
        inputs = rows(self.labels, seed=5).drop_columns(["label"])
        with one_secret():
            meter.seal(inputs, self.folder / "set.sealed", id_column="id", columns=["x", "y"])
        meter.add_test_set(self.folder / "set.sealed", ids_renumbered=True)
        (self.folder / "set.sealed").unlink()
        meter.close()

    def give(self) -> None:
        """Label what is asked for, with names of different lengths."""
        with Meter.open(self.folder / "meter") as meter:
            asked = meter.wanted()
            if asked is not None:
                known = [NAMES[self.labels[int(each)]] for each in asked.ids]
                with mock.patch.object(Workspace, "now", side_effect=self._now):
                    meter.give_labels(pa.table({"id": list(asked.ids), "is": known}), label="is")

    def labels_files(self) -> dict[str, int]:
        """Show how long the labels are, encrypted; age pads its header at random."""
        folder = self.folder / "meter" / ".meter" / "orders"
        with Meter.open(self.folder / "meter") as meter:
            identity = meter.workspace.identity
        found = folder.glob("*-labels.age")
        return {each.name: len(unwrap(each.read_bytes(), identity)) for each in found}


def guess(side: DemandSide, name: str, predicted: Labels) -> list[str]:
    """Write predictions; return how they are submitted."""
    for role, codes in (("t", predicted), ("v", OWN)):
        names = [NAMES[code] for code in codes]
        table = pa.table({"id": np.arange(len(codes)), "prediction": names})
        pq.write_table(table, side.folder / f"{role}{name}.parquet")
    files = ["--test", f"t{name}.parquet", "--validation", f"v{name}.parquet"]
    return ["submit", *files, "--model", name, "--json"]


@pytest.mark.parametrize(("seed", "answers"), [(1, ["pass", "fail"]), (2, ["fail", "pass"])])
def test_equal_answers_look_equal(tmp_path: Path, seed: int, answers: list[str]) -> None:
    """Before the labels come, while a step waits, and after; what is bought, too."""
    rng = np.random.default_rng(seed)
    spec = spec_of(classes=NAMES, steps=2)
    size = plan_of(spec).labels
    first = rng.integers(0, 2, size)
    most = size * 3 // 10
    second = first.copy()
    second[[0, *range(most, size, 3)]] ^= 1  # in a row that is bought, and many others
    both = []
    for name, labels in (("left", first), ("right", second)):
        (tmp_path / name).mkdir()
        both.append(DemandSide(tmp_path / name, labels, spec))

    def same(*arguments: str) -> tuple[object, str, str]:
        shown = [side.run(*arguments) for side in both]
        assert shown[0] == shown[1]
        assert both[0].files() == both[1].files()
        return shown[0]

    old = first.copy()
    old[:most] ^= 1
    models = {"deployed": old, "pass": np.append(first[:most], old[most:]), "fail": old.copy()}
    models["fail"][: most // 2] ^= 1
    for number, name in enumerate(["deployed", *answers]):
        given = [guess(side, f"m{number}", models[name]) for side in both]
        given[0] += [] if number else ["--baseline"]
        code, *_ = same(*given[0])
        assert code == (4 if number else 0)
        same("status", "--json")
        for side in both:
            side.give()
        assert both[0].answers() == both[1].answers()
        assert same(*given[0])[0] == {"deployed": 0, "pass": 0, "fail": 6}[name]
        for look in ("status", "history", "audit"):
            same(look, "--json")
        assert both[0].labels_files() == both[1].labels_files()
    assert both[0].answers() == ["baseline", *answers]
