"""Scores that a runner reports: joined by ids, checked before they count, and kept from developers.

There are no labels. The scores themselves say on which hidden examples a model was right, so
whatever holds for labels elsewhere holds for them.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.helpers import Clock, small_spec

from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.errors import Denied, InvalidInput
from easeml_meter.meter import Meter
from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.service.submissions.kinds import PredictionFiles
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.source import Held

VISIBLE = [f"v{number}" for number in range(20)]
IDS = re.compile(r"[0-9a-f]{32,64}")


def score_spec(loss: str = "score[0-1]", **options: Any) -> MeterSpec:
    return small_spec(**({"loss": loss, "classes": (), "metric": "includes"} | options))


@dataclass
class Evaluation:
    """A meter whose hidden examples are known by their ids only."""

    folder: Path
    loss: str = "score[0-1]"

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.meter = Meter.create(self.folder / "m", score_spec(self.loss), name="m", clock=Clock())
        self.hidden = [f"h{number}" for number in range(self.meter.plan.labels)]
        given = self.folder / "hidden.csv"
        given.write_text("id,target\n" + "".join(f"{each},secret\n" for each in self.hidden))
        self.meter.seal(given, self.folder / "s", id_column="id")
        self.meter.add_test_set(self.folder / "s")
        (self.folder / "dev.csv").write_text("id\n" + "\n".join(VISIBLE))
        self.meter.set_validation(self.folder / "dev.csv", id_column="id")

    def scores(self, wrong: int, *, low: float = 0, high: float = 1) -> tuple[Held, Held]:
        """Return scores, the worst ones first, in another order than the ids were sealed in."""
        values = [low] * wrong + [high] * (len(self.hidden) - wrong)
        hidden = list(zip(self.hidden, values, strict=True))[::-1]
        return held("test", hidden), held("validation", [(each, high) for each in VISIBLE])

    def as_role(self, role: Role) -> Meter:
        return Meter.open(self.folder / "m", role=role, clock=Clock())

    def left(self) -> int:
        return self.meter.status().steps_left


def held(name: str, scores: Any) -> Held:
    lines = "".join(f"{each},{value!r}\n" for each, value in scores)
    return Held(f"{name}.csv", f"id,score\n{lines}".encode())


@pytest.fixture
def evaluation(tmp_path: Path) -> Evaluation:
    return Evaluation(tmp_path)


@pytest.mark.parametrize(
    ("loss", "low", "high"), [("score[0-1]", 0, 1), ("score", 0, 1), ("score[-5,15]", -5.0, 15.0)]
)
def test_scores_are_losses_from_the_best_score_down(
    tmp_path: Path, loss: str, low: float, high: float
) -> None:
    world = Evaluation(tmp_path, loss)
    n = len(world.hidden)
    bands = [
        world.meter.submit(*world.scores(wrong, low=low, high=high), model=str(wrong)).band
        for wrong in (0, n // 5, n // 2)
    ]
    assert bands == [1, 2, 3]


def test_scores_of_0_or_1_have_the_exact_bound_and_others_the_convex_one() -> None:
    assert score_spec("score[0-1]").tail is Bound.EXACT
    plain = small_spec(classes=())
    assert required_labels(score_spec("score[0-1]")).labels == required_labels(plain).labels
    for loss in ("score", "score[0,1]", "score[0,10]"):
        assert score_spec(loss).tail is Bound.CONVEX


def test_only_ids_are_sealed_unless_columns_are_named(evaluation: Evaluation) -> None:
    found = evaluation.meter.generations[0].manifest
    assert found is not None
    assert [each["name"] for each in found["columns"]] == ["id", "no label"]
    seen = evaluation.as_role(Role.RUNNER)
    assert seen.export_inputs(evaluation.folder / "i.csv") == len(evaluation.hidden)
    assert (evaluation.folder / "i.csv").read_text().split()[:2] == ['"id"', '"h0"']


def test_the_released_set_and_its_retrospective(evaluation: Evaluation) -> None:
    evaluation.meter.submit(*evaluation.scores(3), model="a")
    evaluation.meter.retire()
    folder = evaluation.meter.release()
    found = json.loads((folder / "retrospective.json").read_text())
    assert json.dumps(3 / len(evaluation.hidden))[:10] in json.dumps(found)
    evaluation.meter.audit()


def changed(scores: Held, old: str, new: str) -> Held:
    text = scores.content.decode()
    assert old in text
    return Held(scores.name, text.replace(old, new, 1).encode())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("h5,1", "h5,1.5", "row .*: 1.5 given, a number from 0.0 to 1.0 needed"),
        ("h5,1", "h5,0.5", "row .*: 0.5 given, 0 or 1 needed, the scores of score"),
        ("h5,1", "h5,nan", "a finite number needed"),
        ("h5,1", "h5,C", "a finite number needed"),
        ("h5,1\n", "", "ids of the test set without a row: 'h5'"),
        ("h5,1\n", "h5,1\nh5,1\n", "ids that stand there more than once: 'h5'"),
        ("h5,1\n", "h5,1\nnew,1\n", "ids that are not in the test set: 'new'"),
        ("id,score", "id,points", "a column named score needed"),
    ],
)
def test_what_is_wrong_with_scores_is_refused_in_one_line_and_costs_nothing(
    evaluation: Evaluation, old: str, new: str, said: str
) -> None:
    test, validation = evaluation.scores(3)
    before = evaluation.left()
    with pytest.raises(InvalidInput, match=said) as refused:
        evaluation.meter.submit(changed(test, old, new), validation, model="a")
    assert "\n" not in str(refused.value)
    assert evaluation.left() == before


def test_a_runner_may_report_scores_and_a_developer_may_not(evaluation: Evaluation) -> None:
    files = evaluation.scores(3)
    developer = evaluation.as_role(Role.DEVELOPER)
    for deed in (developer.check, lambda *given: developer.submit(*given, model="a")):
        with pytest.raises(Denied, match="developers may not report scores: a runner submits"):
            deed(*files)
    assert evaluation.left() == 4
    assert evaluation.as_role(Role.RUNNER).check(*files).answer == 1
    evaluation.as_role(Role.RUNNER).submit(*files, model="a")
    assert evaluation.left() == 3


def observed(world: Evaluation) -> str:
    """Return everything that a developer can read: views, the audit chain, the books, the names."""
    developer = world.as_role(Role.DEVELOPER)
    shown = [json.dumps(developer.status().to_dict(), default=str)]
    shown += [json.dumps(view.to_dict(), default=str) for view in developer.history()]
    shown += [str(link) for link in developer.audit().links]
    with contextlib.closing(sqlite3.connect(world.folder / "m/.meter/meter.db")) as books:
        shown += list(books.iterdump())
    shown += sorted(str(path) for path in (world.folder / "m").rglob("*"))
    return "\n".join(shown)


def test_no_digest_of_scores_that_could_be_guessed_is_ever_shown(evaluation: Evaluation) -> None:
    files = evaluation.scores(3)
    signal = evaluation.meter.submit(*files, model="a")
    given = PredictionFiles(*files)
    shown = observed(evaluation)
    for digest in (given.same_bytes(), files[0].digest, files[1].digest):
        assert digest[:16] not in shown
    again = evaluation.meter.submit(*files, model="b")
    assert again.repeated
    assert again.answer == signal.answer


def test_equal_answers_look_equal_whatever_the_scores_are(tmp_path: Path) -> None:
    """Which examples a model got right, and how many within a band, must show nowhere."""
    shown = []
    for side, wrong in (("left", 0), ("right", 2)):
        world = Evaluation(tmp_path / side)
        order = np.random.default_rng(wrong).permutation(len(world.hidden))
        test = held("test", [(world.hidden[at], float(at >= wrong)) for at in order[::-1]])
        validation = world.scores(0)[1]
        assert world.meter.submit(test, validation, model="a").band == 1
        masked = IDS.sub("<id>", observed(world).replace(str(world.folder), "<folder>"))
        shown.append(sorted(masked.splitlines()))
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"models": True}, "the loss score.0-1. takes scores, not models"),
        ({"loss": "0-1"}, 'only with loss = "score"'),
        ({"metric": 3}, "a text of at most 200"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        score_spec(**options)


def test_the_metric_is_part_of_the_settings(tmp_path: Path) -> None:
    score_spec().write(tmp_path / "meter.toml")
    assert MeterSpec.read(tmp_path / "meter.toml").metric == "includes"


def test_sets_without_labels_are_for_scores_alone(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "m", small_spec(), name="m")
    (tmp_path / "ids.csv").write_text("id\n1\n")
    with pytest.raises(InvalidInput, match="name the label column"):
        meter.seal(tmp_path / "ids.csv", tmp_path / "s", id_column="id")
    with pytest.raises(InvalidInput, match="name the label column"):
        meter.set_validation(tmp_path / "ids.csv", id_column="id")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"label": "target", "id_column": "id"}, "reads no labels, leave out --label"),
        ({}, "scores are joined by ids: name their column"),
    ],
)
def test_scores_need_ids_and_no_labels(tmp_path: Path, columns: dict[str, str], said: str) -> None:
    meter = Meter.create(tmp_path / "m", score_spec(), name="m")
    data = tmp_path / "ids.csv"
    data.write_text("id,target\n" + "".join(f"{number},a\n" for number in range(500)))
    with pytest.raises(InvalidInput, match=said):
        meter.seal(data, tmp_path / "s", **columns)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=said):
        meter.set_validation(data, **columns)


def test_a_set_of_the_same_ids_is_refused(evaluation: Evaluation) -> None:
    evaluation.meter.retire()
    evaluation.meter.seal(evaluation.folder / "hidden.csv", evaluation.folder / "t", id_column="id")
    with pytest.raises(InvalidInput, match="the same rows were test set 1"):
        evaluation.meter.add_test_set(evaluation.folder / "t")
