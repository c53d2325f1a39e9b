"""Two submissions on a released test set, compared as a loop over the rows compares them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import Clock, make_session, small_spec, with_errors

from easeml_meter.core.people import Role
from easeml_meter.core.views import Differences
from easeml_meter.errors import Denied, InvalidInput, NotFound
from easeml_meter.service.actor import Actor
from easeml_meter.service.place import Workspace
from easeml_meter.service.testsets import differences
from easeml_meter.service.testsets.differences import PAGE, comparable, compare_submissions

DEVELOPER = Actor.embedded(Role.DEVELOPER)


def test_nothing_of_it_exists_before_release(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(1, 0, model="a")
    session.submit(2, 0, model="b")
    space = Workspace.open(tmp_path / "meter", Clock())
    why = r"test set 1 is active: .* would tell of its labels"
    with pytest.raises(NotFound, match=why):
        comparable(DEVELOPER, space, 1)
    with pytest.raises(NotFound, match=why):
        compare_submissions(DEVELOPER, space, 1, (1, 2))
    session.meter.retire()
    with pytest.raises(NotFound, match="test set 1 is spent"):
        compare_submissions(DEVELOPER, space, 1, (1, 2))


def test_the_rows_that_changed_are_those_of_a_loop(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    errors = (3, 7)
    for number, count in enumerate(errors):
        session.submit(count, 0, model=f"model {number}")
    folder = session.released()
    space = Workspace.open(tmp_path / "meter", Clock())
    assert comparable(DEVELOPER, space, 1) == [1, 2]
    labels = session.test_labels
    said = [with_errors(labels, count) for count in errors]
    wrong = [each != labels for each in said]
    table = pq.read_table(folder / "testset.parquet").to_pylist()
    for steps in ((1, 2), (2, 1), (1, 1)):
        old, new = (wrong[step - 1] for step in steps)
        worse, better = np.flatnonzero(new & ~old), np.flatnonzero(old & ~new)
        for places, is_better in ((worse, False), (better, True)):
            found = compare_submissions(DEVELOPER, space, 1, steps, better=is_better)
            assert (found.worse, found.better, found.rows) == (len(worse), len(better), len(labels))
            assert found.found == len(places)
            assert [each.row for each in found.examples] == [place + 1 for place in places]
            assert found.second.test_loss == pytest.approx(np.mean(new))
            for example, place in zip(found.examples, places, strict=True):
                row = table[place]
                assert (example.id, example.label) == (row["id"], row["label"])
                assert example.inputs == {"x": row["x"], "y": row["y"]}
                assert example.predictions == tuple(str(said[step - 1][place]) for step in steps)
                assert example.losses == (float(old[place]), float(new[place]))


def test_pages_follow_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "PAGE", 3)
    session = make_session(tmp_path)
    session.submit(0, 0, model="right")
    session.submit(7, 0, model="wrong")
    session.released()
    space = Workspace.open(tmp_path / "meter", Clock())
    pages = [compare_submissions(DEVELOPER, space, 1, (1, 2), page=page) for page in (1, 2, 3, 4)]
    assert [len(each.examples) for each in pages] == [3, 3, 1, 0]
    assert {each.pages for each in pages} == {3}
    assert len({each.row for page in pages for each in page.examples}) == 7


def test_a_step_that_was_not_kept_is_refused(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(1, 0, model="a")
    session.released()
    space = Workspace.open(tmp_path / "meter", Clock())
    with pytest.raises(InvalidInput, match="step: 2 given, one that predictions were kept of: 1"):
        compare_submissions(DEVELOPER, space, 1, (1, 2))


@pytest.mark.parametrize("role", [Role.RUNNER, Role.ADMIN])
def test_who_sees_no_answers_sees_no_comparison(tmp_path: Path, role: Role) -> None:
    make_session(tmp_path)
    space = Workspace.open(tmp_path / "meter", Clock())
    with pytest.raises(Denied):
        compare_submissions(Actor.embedded(role), space, 1, (1, 2))


def test_numbers_are_sorted_by_how_much_they_changed(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(loss="absolute[0,1]", classes=()))
    labels, rng = session.test_labels, np.random.default_rng(4)
    said = rng.uniform(0, 1, (2, len(labels)))
    _, validation = session.files(0, 0)
    for number, values in enumerate(said):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"id": np.arange(len(labels)), "prediction": values}), path)
        session.meter.submit(path, validation, model=f"model {number}")
    session.released()
    space = Workspace.open(tmp_path / "meter", Clock())
    found = compare_submissions(DEVELOPER, space, 1, (1, 2))
    change = np.abs(said[1] - labels) - np.abs(said[0] - labels)
    order = [int(place) + 1 for place in np.argsort(-change) if change[place] > 0]
    assert [each.row for each in found.examples] == order[:PAGE]
    assert found.worse + found.better == len(labels)
    assert not found.zero_one
    first = found.examples[0]
    assert first.predictions == tuple(f"{values[first.row - 1]:.4g}" for values in said)


def test_a_score_of_the_whole_test_set_is_not_one_of_examples(tmp_path: Path) -> None:
    """It was refused as a model that could not be measured."""
    spec = small_spec(loss="recall[1]", rows=120, classes=(0, 1))
    session = make_session(tmp_path, spec)
    session.submit(1, 0, model="a")
    session.submit(2, 0, model="b")
    session.released()
    with pytest.raises(InvalidInput, match=r"recall\[1\].*of the whole test set"):
        compare_submissions(DEVELOPER, session.meter.workspace, 1, (1, 2))


def test_unless_said_the_first_and_the_last_are_compared(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    for count in (3, 2, 1):
        session.submit(count, 0, model=f"with {count}")
    session.released()
    space = Workspace.open(tmp_path / "meter", Clock())
    found = compare_submissions(DEVELOPER, space, 1)
    assert (found.first.model, found.second.model) == ("with 3", "with 1")
    assert compare_submissions(DEVELOPER, space, 1, (2, None)).first.model == "with 2"
    assert found == session.meter.differences()
    assert Differences.from_json(json.loads(json.dumps(found.to_json()))) == found
