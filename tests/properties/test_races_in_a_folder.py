"""Two people hand something in at the same moment: one is taken, the other told; nothing mixes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import Clock, make_session, rows, small_spec

from easeml_meter.errors import InvalidInput, MeterError, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.service import validation
from easeml_meter.service.place import Home
from easeml_meter.service.submissions import answering
from easeml_meter.service.testsets import delivery


def before(monkeypatch: pytest.MonkeyPatch, place: object, name: str, rival: Any) -> None:
    """Let a rival act right before `place.name` is called for the first time."""
    real, calls = getattr(place, name), list[str]()

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if not calls:
            calls.append(name)
            rival()
        return real(*arguments, **options)

    monkeypatch.setattr(place, name, wrapped)


def test_two_test_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    sealed = []
    for seed in (1, 2):
        labels = np.random.default_rng(seed).integers(0, 2, meter.plan.labels)
        pq.write_table(rows(labels, seed=seed), tmp_path / "plain.parquet")
        sealed.append(tmp_path / f"{seed}.sealed")
        meter.seal(tmp_path / "plain.parquet", sealed[-1], label="label", id_column="id")
    rival = Meter.open(tmp_path / "meter")
    before(monkeypatch, delivery, "copy_into", lambda: rival.add_test_set(sealed[1]))
    with pytest.raises(WrongPhase):
        meter.add_test_set(sealed[0])
    taken = meter.generations[-1]
    assert (tmp_path / "meter" / ".meter" / str(taken.blob)).read_bytes() == sealed[1].read_bytes()


def test_two_validation_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = make_session(tmp_path)
    labels = session.validation_labels
    for seed in (8, 9):
        pq.write_table(rows(labels, seed=seed), tmp_path / f"{seed}.parquet")
    rival = Meter.open(tmp_path / "meter")
    path = tmp_path / "9.parquet"
    before(monkeypatch, validation, "keep_notices", lambda: rival.replace_validation(path))
    with pytest.raises(MeterError, match="meanwhile: try again"):
        session.meter.replace_validation(tmp_path / "8.parquet")
    with session.meter.workspace.store.reading() as books:
        taken = books.validation.all(books.meters.get().id)[-1]
    assert taken.number == 2
    assert (tmp_path / "meter" / ".meter" / taken.blob).read_bytes() == path.read_bytes()
    assert session.submit(0, 0).step == 1


def test_two_meters_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before(monkeypatch, Home, "prepare", lambda: Meter.create(tmp_path, small_spec(), name="a"))
    with pytest.raises(InvalidInput, match="already holds a meter"):
        Meter.create(tmp_path, small_spec(), name="b")
    assert Meter.open(tmp_path).status().meter == "a"


def test_one_name_once_while_a_rival_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both looked before either was answered: the second one finds out under the lock."""
    session = make_session(tmp_path)
    rival = Meter.open(tmp_path / "meter")
    files = session.files(5, 0)
    told = []
    before(
        monkeypatch,
        answering,
        "_tell",
        lambda: told.append(rival.submit(*files, model="nightly", once=True)),
    )
    late = session.submit(1, 0, model="nightly", once=True)
    assert (told[0].step, told[0].by_name) == (1, False)
    assert (late.step, late.by_name, late.repeated) == (1, True, True)
    assert session.meter.status().steps_left == 3


def test_many_of_one_name_at_once_cost_one_answer(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    files = [session.files(errors, 0) for errors in range(6)]
    with ThreadPoolExecutor(6) as pool:
        told = list(
            pool.map(lambda pair: session.meter.submit(*pair, model="ci", once=True), files)
        )
    assert sorted(each.by_name for each in told) == [False] + [True] * 5
    assert {each.step for each in told} == {1}
    assert session.meter.status().steps_left == 3
