"""Test inputs: without labels, for those who may see them."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import Clock, make_session, rows, small_spec

from easeml_meter.core.people import Role
from easeml_meter.errors import Denied, InvalidInput, NotFound, Spent, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.service.actor import Actor
from easeml_meter.service.place import Workspace
from easeml_meter.service.testsets import inputs
from easeml_meter.tables.opening import open_table


@pytest.mark.parametrize("said", ["public", "hidden"])
def test_developers_see_them_only_if_the_meter_says_public(tmp_path: Path, said: str) -> None:
    session = make_session(tmp_path, small_spec(inputs=said))
    space = Workspace.open(tmp_path / "meter")
    expected = rows(session.test_labels, seed=1000).drop_columns("label").to_pydict()
    for role, may in (
        (Role.LABELER, True),
        (Role.RUNNER, True),
        (Role.OWNER, True),
        (Role.DEVELOPER, said == "public"),
        (Role.ADMIN, False),
    ):
        actor, path = Actor.embedded(role), tmp_path / f"{role}.parquet"
        assert inputs.inputs_visible(session.meter.spec, actor) is may
        if may:
            assert inputs.export_inputs(actor, space, path) == len(session.test_labels)
            assert pq.read_table(path).to_pydict() == expected
            streamed = b"".join(inputs.stream_inputs(actor, space, 1))
            assert pq.read_table(io.BytesIO(streamed)).to_pydict() == expected
            continue
        with pytest.raises(Denied, match="see the test inputs"):
            inputs.export_inputs(actor, space, path)
        with pytest.raises(Denied, match="see the test inputs"):
            inputs.stream_inputs(actor, space, 1)


def test_there_are_none_before_the_delivery(tmp_path: Path) -> None:
    Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    space, labeler = Workspace.open(tmp_path / "meter"), Actor.embedded(Role.LABELER)
    with pytest.raises(WrongPhase, match="not delivered yet"):
        inputs.stream_inputs(labeler, space, 1)
    with pytest.raises(NotFound):
        inputs.stream_inputs(labeler, space, 2)
    with pytest.raises(WrongPhase, match="no test set yet"):
        inputs.export_inputs(labeler, space, tmp_path / "inputs.parquet")
    assert not (tmp_path / "inputs.parquet").exists()


def test_a_spent_set_can_still_be_streamed_but_is_not_in_use(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    for step in range(4):
        session.submit(step, 0, model=str(step))
    space, runner = Workspace.open(tmp_path / "meter"), Actor.embedded(Role.RUNNER)
    with pytest.raises(Spent):
        inputs.export_inputs(runner, space, tmp_path / "inputs.parquet")
    assert b"".join(inputs.stream_inputs(runner, space, 1)).startswith(b"PAR1")


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv", ".jsonl"])
def test_they_are_written_in_the_format_of_the_name(tmp_path: Path, ending: str) -> None:
    session = make_session(tmp_path)
    path = tmp_path / f"inputs{ending}"
    assert session.meter.export_inputs(path) == len(session.test_labels)
    found = pa.Table.from_batches(open_table(path).batches()).to_pydict()
    wanted = rows(session.test_labels, seed=1000).drop_columns("label").to_pydict()
    assert found == {name: pytest.approx(values) for name, values in wanted.items()}
    with pytest.raises(InvalidInput, match=r"must end in \.parquet"):
        session.meter.export_inputs(tmp_path / "inputs.txt")
