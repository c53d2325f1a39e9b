"""The whole loop: seal, submit, signal, spent, release, renewal."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import (
    Clock,
    Labels,
    condition_spec,
    deliver,
    make_session,
    rows,
    small_spec,
    with_errors,
    write_predictions,
)

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.errors import Denied, InvalidInput, Spent, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.report.page import html_page
from easeml_meter.scoring.ids import BY_IDS, IN_ORDER, RowMatching
from easeml_meter.scoring.predictions import Accepted
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions import answering
from easeml_meter.spec import MeterSpec


def test_a_session_from_the_first_answer_to_the_next_test_set(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    n = len(session.test_labels)
    answers = [
        session.submit(0, 0, model="a"),
        session.submit(n // 5, 0, model="b"),
        session.submit(n // 2, 0, model="c"),
        session.submit(0, 1, model="d"),
    ]
    assert [signal.band for signal in answers] == [1, 2, 3, 1]
    assert [signal.steps_left for signal in answers] == [3, 2, 1, 0]
    # By the exact interval at so many rows: within the tolerance it is 0 to .55.
    assert answers[1].true_gap == pytest.approx((0.0164, 0.535), abs=5e-4)
    assert [signal.validation_loss for signal in answers[:3]] == [0, 0, 0]
    assert answers[3].validation_loss == pytest.approx(1 / len(session.validation_labels))
    most = [signal.true_loss_at_most for signal in answers[:3]]
    assert most == pytest.approx([0.2992, 0.535, 1], abs=5e-4)
    assert session.meter.status().signals[1].true_loss_at_most == most[1]
    with pytest.raises(Spent, match=f"{n} fresh labels are needed"):
        session.submit(1, 1, model="e")
    assert [row.phase for row in session.meter.generations] == [Phase.SPENT, Phase.REQUESTED]

    released = session.meter.release()
    exported = pq.read_table(released / "testset.parquet")
    assert exported["label"].to_pylist() == session.test_labels.tolist()
    truths = session.meter.status(generation=1).retrospective
    assert [truth.band if truth else None for truth in truths] == [1, 2, 3, 1]
    assert truths[2] is not None
    assert truths[2].test_loss == pytest.approx((n // 2) / n)
    assert (released / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")

    deliver(session.meter, tmp_path, np.random.default_rng(5).integers(0, 2, n), seed=5)
    assert session.meter.status().generation == 2
    assert session.meter.status().steps_left == 4
    assert session.meter.audit().problems == ()


def test_a_harder_validation_set_is_band_1_if_the_gap_has_a_sign(tmp_path: Path) -> None:
    spec = small_spec(gap="signed")
    session = make_session(tmp_path, spec, validation_size=20)
    n = len(session.test_labels)
    assert n == required_labels(small_spec()).labels
    harder = session.submit(0, 10, model="harder")
    assert (harder.band, harder.validation_loss, harder.true_loss_at_least) == (1, 0.5, None)
    assert harder.promise.endswith("this model's true gap is at most 0.314992.")
    overfitted = session.submit(n // 2, 0, model="overfitted")
    assert overfitted.band == 3
    assert overfitted.true_loss_at_least == pytest.approx(0.1237, abs=5e-5)
    for model in ("c", "d"):
        session.submit(0, 20, model=model)
    session.meter.release()
    truths = session.meter.status(generation=1).retrospective
    assert [truth.band if truth else None for truth in truths] == [1, 3, 1, 1]


def test_an_identical_submission_costs_nothing(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    first = session.submit(3, 1)
    again = session.submit(3, 1)
    assert (again.step, again.answer, again.repeated) == (first.step, first.answer, True)
    assert session.meter.status().steps_left == 3


def test_the_last_answer_is_repeated_after_the_set_is_spent(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    signals = [session.submit(0, 0, model=str(step)) for step in range(4)]
    assert session.submit(0, 0, model="3").answer == signals[-1].answer


@pytest.mark.parametrize("inputs", ["public", "hidden"])
def test_the_same_predictions_cost_one_step_whatever_the_file(tmp_path: Path, inputs: str) -> None:
    """CRLF, Parquet, npy, another id column, another order: each cost a step."""
    session = make_session(tmp_path, small_spec(inputs=inputs))
    guess = with_errors(session.test_labels, 3).tolist()
    ids, order = list(range(len(guess))), np.random.default_rng(1).permutation(len(guess)).tolist()
    lines = ["id,prediction", *(f"{each},{guess[each]}" for each in ids)]
    shuffled = [f'{{"key": "{each}", "prediction": {guess[each]}.0}}\n' for each in order]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    (tmp_path / "b.csv").write_bytes("\r\n".join([*lines, ""]).encode())
    (tmp_path / "c.jsonl").write_text("".join(shuffled))
    np.save(tmp_path / "d.npy", np.array(guess))
    extra = {"prediction": pa.array(guess, pa.int8()), "id": ids, "index": order}
    pq.write_table(pa.table(extra), tmp_path / "e.parquet")
    validation = tmp_path / "visible.npy"
    np.save(validation, session.validation_labels)
    ways = {"c.jsonl": RowMatching("key"), "d.npy": RowMatching(in_order=True)}
    told = [
        session.meter.submit(
            tmp_path / name,
            validation,
            model=name,
            matching=ways.get(name, RowMatching(missing_wrong=name == "e.parquet")),
        )
        for name in ("a.csv", "b.csv", "c.jsonl", "d.npy", "e.parquet")
    ]
    assert [each.repeated for each in told] == [False, True, True, True, True]
    assert session.meter.status().steps_left == 3
    guess[0] = 1 - guess[0]
    np.save(tmp_path / "d.npy", np.array(guess))
    in_order = RowMatching(in_order=True)
    other = session.meter.submit(tmp_path / "d.npy", validation, model="f", matching=in_order)
    assert not other.repeated


@pytest.mark.parametrize("inputs", ["public", "hidden"])
def test_the_same_predictions_cost_one_step_whatever_holds_them(
    tmp_path: Path, inputs: str
) -> None:
    """By default each of them cost another one, as probabilities did of which no label comes."""
    session = make_session(tmp_path, small_spec(inputs=inputs))
    both = session.test_labels, session.validation_labels
    forms: list[Callable[[Labels], Any]] = [
        lambda guess: guess,
        list,
        lambda guess: guess.astype(np.int8),
        lambda guess: guess.astype(np.float32),
        lambda guess: guess.astype(bool),
        lambda guess: guess.astype(str).tolist(),
        lambda guess: np.stack([1.0 - guess, guess], axis=1),
        lambda guess: pd.Series(guess, dtype="category"),
        lambda guess: pd.DataFrame({"pred": guess}),
        pl.Series,
        lambda guess: pa.chunked_array([guess[:3], guess[3:]]),
        lambda guess: dict(zip(range(len(guess)), guess.tolist(), strict=True)),
        lambda guess: {"id": np.arange(len(guess)), "prediction": guess},
    ]
    told = []
    for number, form in enumerate(forms):
        matching = BY_IDS if number > 10 else IN_ORDER
        given = (form(guess) for guess in both)
        told.append(session.meter.submit(*given, model=f"{number}", matching=matching))
    assert [each.repeated for each in told] == [False] + 12 * [True]


def test_a_file_of_ids_and_another_column_is_known_to_every_later_step(tmp_path: Path) -> None:
    """In the order of the set it was answered, and could not be read again."""
    session = make_session(tmp_path, condition_spec(question="n - o > 0 +/- 0.5"))
    for errors, name in ((9, "old"), (0, "new")):
        files = []
        for role, labels in (("t", session.test_labels), ("v", session.validation_labels)):
            files.append(tmp_path / f"{name}-{role}.csv")
            guess = with_errors(labels, errors if role == "t" else 0).tolist()
            table = {"id": range(len(guess)), "label": guess}
            pd.DataFrame(table if role == "t" else {"label": guess}).to_csv(files[-1], index=False)
        told = session.meter.submit(*files, model=name, baseline=name == "old")
    assert told.old == 1
    session.released()
    assert None not in [
        truth and truth.test_loss for truth in session.meter.status(generation=1).retrospective
    ]


def test_what_cannot_be_read_again_is_refused_before_it_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(Accepted, "content_digest", "another")
        with pytest.raises(InvalidInput, match=r"test-1-0-a\.parquet: cannot be kept"):
            session.submit(1, 0, model="a")
    assert session.meter.status().steps_left == 4


@pytest.mark.parametrize("columns", [{"label": "fixed"}, {"id_column": "key"}])
def test_other_columns_of_the_validation_file_make_another_submission(
    tmp_path: Path, columns: dict[str, str]
) -> None:
    """The answer before the labels were corrected was told once more, as the one after it."""
    session = make_session(tmp_path)
    table = rows(session.validation_labels, seed=8)
    fixed = pa.array(1 - session.validation_labels)
    table = table.append_column("fixed", fixed).append_column("key", table["id"])
    pq.write_table(table, tmp_path / "both.parquet")
    replace = session.meter.replace_validation
    named = {"label": "label", "id_column": ""}
    replace(tmp_path / "both.parquet", **named)
    before = session.submit(1, 0, matching=IN_ORDER)
    replace(tmp_path / "both.parquet", **named | columns)
    after = session.submit(1, 0, matching=IN_ORDER)
    assert (after.repeated, after.step) == (False, 2)
    assert after.validation_loss == (1 if "label" in columns else 0)
    replace(tmp_path / "both.parquet", **named)
    again = session.submit(1, 0, matching=IN_ORDER)
    assert (again.repeated, again.step) == (True, before.step)


def test_an_answer_that_is_known_before_it_is_given_is_not_charged(tmp_path: Path) -> None:
    """All that were left could say nothing but the worst band once more."""
    session = make_session(tmp_path, small_spec(protocol="incremental"))
    worst = session.submit(len(session.test_labels), 0, model="bad")
    assert (worst.band, worst.steps_left) == (3, 3)
    known = "band 3, the worst, was told on test set 1, so every further answer is known"
    for verb in (session.submit, lambda *given: session.meter.check(*session.files(*given))):
        with pytest.raises(Spent, match=known):
            verb(1, 0)
    assert session.submit(len(session.test_labels), 0, model="bad").repeated
    assert session.meter.status().steps_left == 3


# --- Once ---


def test_a_name_that_was_answered_is_answered_again_once_without_a_look_at_files(
    tmp_path: Path,
) -> None:
    session = make_session(tmp_path)
    first = session.submit(3, 0, model="nightly", once=True)
    assert (first.repeated, first.by_name) == (False, False)
    nowhere = tmp_path / "nowhere.csv"
    again = session.meter.submit(nowhere, nowhere, model="nightly", once=True)
    assert (again.repeated, again.by_name, again.step, again.band) == (True, True, 1, first.band)
    assert session.meter.status().steps_left == 3
    with pytest.raises(InvalidInput, match="cannot be read"):
        session.meter.submit(nowhere, nowhere, model="new", once=True)
    assert not session.submit(4, 0, model="nightly").by_name
    newest = session.meter.submit(nowhere, nowhere, model="nightly", once=True)
    assert newest.step == 2
    for errors in (5, 6):
        session.submit(errors, 0, model=str(errors))
    assert session.meter.submit(nowhere, nowhere, model="nightly", once=True).by_name  # spent


def test_once_is_for_the_same_team_and_validation_set(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(tenants=(2, 2)))
    assert session.submit(3, 0, model="m", once=True, tenant=1).step == 1
    other = session.submit(5, 0, model="m", once=True, tenant=2)
    assert (other.by_name, other.tenant) == (False, 2)
    pq.write_table(rows(session.validation_labels, seed=8), tmp_path / "other.parquet")
    session.meter.replace_validation(tmp_path / "other.parquet")
    fresh = session.submit(7, 0, model="m", once=True, tenant=1)
    assert (fresh.by_name, fresh.step) == (False, 2)


def test_a_ceiling(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(ceiling=0.3))
    n = len(session.test_labels)
    told = session.submit(n // 2, 10, model="a")
    assert (told.name, told.band, told.tolerance) == ("above-ceiling", None, None)
    assert session.submit(0, 0, model="b").band == 1


@pytest.mark.parametrize(
    ("options", "tenant"),
    [
        ({}, 1),
        ({"ceiling": 0.3}, 1),
        ({"tenants": (2, 2)}, 2),
    ],
    ids=["plain", "after above-ceiling", "after another tenant"],
)
def test_a_running_maximum_speaks_of_this_model_only(
    tmp_path: Path, options: dict[str, Any], tenant: int
) -> None:
    """Earlier models may be far worse than the band told, and this one far better."""
    session = make_session(tmp_path, small_spec(protocol="incremental", **options))
    errors = len(session.test_labels) if options else len(session.test_labels) // 5
    worst = session.submit(errors, 0, model="worse", tenant=1)
    told = session.submit(0, 0, model="perfect", tenant=tenant)
    assert told.band == (worst.band or 1 if tenant == 1 else 1)
    assert told.true_gap is not None
    assert told.promise.endswith(
        f"together: this model's true gap is at most {told.true_gap[1]:g}."
    )
    assert "lower edge" not in session.meter.status(tenant=tenant).promise


def test_tenants_have_their_own_histories(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(tenants=(3, 1)))
    session.submit(0, 0, model="a", tenant=1)
    told = session.submit(0, 0, model="a", tenant=2)
    assert (told.step, told.repeated) == (1, False)
    with pytest.raises(Spent):
        session.submit(0, 0, model="b", tenant=2)
    session.submit(0, 0, model="b", tenant=1)
    assert [row.phase for row in session.meter.generations] == [Phase.ACTIVE]
    session.submit(0, 0, model="c", tenant=1)
    assert [row.phase for row in session.meter.generations] == [Phase.SPENT, Phase.REQUESTED]
    with pytest.raises(InvalidInput, match="tenant"):
        session.submit(0, 0, tenant=3)


def test_verbs_at_the_wrong_time(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    test, validation = tmp_path / "t.parquet", tmp_path / "v.parquet"
    write_predictions(test, np.zeros(3, dtype=np.int64))
    write_predictions(validation, np.zeros(3, dtype=np.int64))
    with pytest.raises(WrongPhase, match="no test set yet"):
        meter.submit(test, validation, model="m")
    with pytest.raises(WrongPhase):
        meter.release()
    with pytest.raises(WrongPhase):
        meter.replace_validation(test)
    with pytest.raises(InvalidInput, match="already holds a meter"):
        Meter.create(tmp_path / "meter", small_spec())
    with pytest.raises(InvalidInput, match="holds no meter"):
        Meter.open(tmp_path)


def test_a_test_set_released_while_predictions_are_measured_answers_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have touched hidden rows: refused as spent, they were neither charged nor entered."""
    session = make_session(tmp_path)
    session.submit(0, 0, model="before")
    tell = answering._tell

    def released_meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(answering, "_tell", tell)
        with Meter.open(tmp_path / "meter") as labeler:
            labeler.retire()
            labeler.release()
        return tell(*arguments)

    monkeypatch.setattr(answering, "_tell", released_meanwhile)
    assert session.submit(1, 0, model="late").step == 2
    assert session.submit(1, 0, model="late").repeated
    with pytest.raises(Spent):
        session.submit(2, 0, model="after")
    view = session.meter.status(generation=1)
    assert [each.model for each in view.signals] == ["before", "late"]
    assert len(view.retrospective) == 1  # the truth of the late one was not published
    assert "late" in html_page(view)
    assert not session.meter.audit().problems


def test_roles(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    developer = Meter.open(tmp_path / "meter", role=Role.DEVELOPER)
    labeler = Meter.open(tmp_path / "meter", role=Role.LABELER)
    test, validation = session.files(0, 0)
    assert developer.submit(test, validation, model="m").band == 1
    with pytest.raises(Denied):
        labeler.submit(test, validation, model="m")
    for verb in (developer.release, lambda: developer.add_test_set(test)):
        with pytest.raises(Denied):
            verb()


def test_the_books_tell_no_losses(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(5, 1)
    loss = 5 / len(session.test_labels)
    text = b"".join(path.read_bytes() for path in (tmp_path / "meter").rglob("*") if path.is_file())
    assert repr(loss).encode() not in text
    assert f"5/{len(session.test_labels)}".encode() not in text
    journal = next((tmp_path / "meter" / ".meter" / "testsets").glob("*.journal"))
    # The line after the entry says how many there are.
    line = json.loads(next(filter(None, journal.read_text(encoding="utf-8").splitlines())))
    assert line["answer"] == "1"


# --- Drawn edges ---


def drawn_spec(**options: Any) -> MeterSpec:
    return small_spec(**{"drawn": 0.3, "tolerance": 0.2} | options)


def test_a_session_with_drawn_edges(tmp_path: Path) -> None:
    """Every answer has edges of its own; the same submission has the same, free of charge."""
    session = make_session(tmp_path, drawn_spec(), size=400)
    shares = (0, 0.25, 0.2575, 0.6)  # as many errors again would be one more
    answers = [
        session.submit(int(400 * share), 0, model=f"model-{step}")
        for step, share in enumerate(shares)
    ]
    assert len({signal.first_edge for signal in answers}) == 4
    for signal, share in zip(answers, shares, strict=True):
        assert signal.gap is not None
        assert signal.gap[0] <= share < signal.gap[1] <= signal.gap[0] + 0.300001
        assert signal.true_gap is not None
        eps = signal.spec.tolerances[0]
        assert max(0.0, signal.gap[0] - eps) <= signal.true_gap[0] + 1e-12  # never wider
        assert signal.true_gap[1] <= signal.gap[1] + eps + 1e-12
        assert signal.spec.tolerances[0] < 0.2  # more rows than planned
        assert f"{at_most(min(1.0, signal.true_gap[1]))}." in signal.promise
    again = session.submit(100, 0, model="model-1")
    assert (again.repeated, again.gap) == (True, answers[1].gap)
    shown = [signal.gap for signal in session.meter.status().signals]
    assert shown == [signal.gap for signal in answers]
    assert "band" not in str(answers[1]).splitlines()[0]


def test_two_teams_with_the_same_submission_get_edges_of_their_own(tmp_path: Path) -> None:
    session = make_session(tmp_path, drawn_spec(tenants=(2, 2)))
    first, second = (session.submit(9, 1, model="same", tenant=tenant) for tenant in (1, 2))
    assert first.first_edge != second.first_edge


def test_a_check_tells_nothing_of_an_edge(tmp_path: Path) -> None:
    """It costs nothing."""
    session = make_session(tmp_path, drawn_spec(), size=400)
    files = session.files(100, 0, salt="checked")
    checked = session.meter.check(*files)
    told = session.submit(100, 0, model="checked")
    edge = str(told.first_edge)
    assert told.band is not None
    for before in (repr(checked), json.dumps(checked.to_json())):
        assert edge not in before
    with Workspace.open(tmp_path / "meter").reading() as books:
        entries = books.entries.all(session.meter.generations[0].meter, 1)
    assert [each.answer for each in entries] == [told.name]
    assert float(Fraction(entries[0].first_edge)) == told.first_edge
