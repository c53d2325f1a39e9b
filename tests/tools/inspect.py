"""Inspect with mockllm: an honest model, one that memorised the visible items, one that fails."""

# needs: inspect-ai==0.3.285

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import includes, pattern
from inspect_ai.solver import Solver, solver

from easeml_meter import Gate, Meter, MeterSpec
from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.inspect import as_loss
from easeml_meter.integrations.reading import read_both
from easeml_meter.service.submissions.kinds import PredictionFiles

HIDDEN = [f"h{at}" for at in range(400)]
VISIBLE = [f"v{at}" for at in range(60)]


@solver  # type: ignore[untyped-decorator]
def answers(*, memorised: bool = False, failing: bool = False) -> Solver:
    """Know the target of most items; of none but the visible ones, if they were memorised."""

    async def solve(state: Any, _: Any) -> Any:
        name, number = str(state.sample_id)[0], int(str(state.sample_id)[1:])
        right = name == "v" if memorised else number % 5 != 0
        if failing and not right:
            raise RuntimeError("what it does not know it does not answer")
        text = f"It is {state.target.text}." if right else "No idea."
        state.output = ModelOutput.from_content("mockllm/model", text)
        return state

    return solve


def run(folder: Path, ids: list[str], kind: str, **options: Any) -> Path:
    """Evaluate, and return the log."""
    samples = [Sample(id=each, input=f"What is {each}?", target=f"<{each}>") for each in ids]
    chosen = {"memorised": kind == "memorised", "failing": kind == "failing"}
    task = Task(dataset=MemoryDataset(samples), solver=answers(**chosen), scorer=includes())
    where = folder / f"{kind}-{ids[0]}-{len(options)}"
    (log,) = evaluate(task, model="mockllm/model", log_dir=str(where), display="none", **options)
    assert log.status == "success"
    return Path(str(log.location).removeprefix("file://"))


def spec(**options: Any) -> MeterSpec:
    return MeterSpec.uniform(edges=[0.25], tolerance=0.2, steps=4, delta=0.1, **options)


def meter_of_scores(folder: Path) -> Meter:
    meter = Meter.create(folder / "scores", spec(loss="score[0-1]", metric="includes"))
    for name, ids in (("h", HIDDEN), ("v", VISIBLE)):
        (folder / f"{name}.csv").write_text("id\n" + "\n".join(ids))
    meter.seal(folder / "h.csv", folder / "h.sealed", id_column="id")
    meter.add_test_set(folder / "h.sealed")
    meter.set_validation(folder / "v.csv", id_column="id")
    return meter


in_brackets = as_loss(pattern(r"(<[hv][0-9]+>)"))
"""A scorer with a setting, as a loss."""


def meter_of_completions(folder: Path, loss: str) -> Meter:
    name = loss.rpartition(":")[2]
    meter, sealed = Meter.create(folder / name, spec(loss=loss)), folder / f"{name}.sealed"
    for stem, ids in (("ht", HIDDEN), ("vt", VISIBLE)):
        rows = "".join(f"{each},<{each}>\n" for each in ids)
        (folder / f"{stem}.csv").write_text(f"id,target\n{rows}")
    meter.seal(folder / "ht.csv", sealed, label="target", id_column="id")
    meter.add_test_set(sealed)
    meter.set_validation(folder / "vt.csv", label="target", id_column="id")
    return meter


def read(meter: Meter, hidden: Path, visible: Path) -> PredictionFiles:
    return read_both("inspect", hidden, visible, meter.spec)


def refusal(meter: Meter, hidden: Path, visible: Path) -> str:
    try:
        read(meter, hidden, visible)
    except InvalidInput as error:
        return str(error)
    raise AssertionError(f"{hidden} was not refused")


def main(folder: Path) -> None:
    meter = meter_of_scores(folder)
    bands = {}
    for kind in ("honest", "memorised"):
        hidden = run(folder, HIDDEN, kind, log_samples=False)
        visible = run(folder, VISIBLE, kind, sample_shuffle=True)
        assert hidden.suffix == ".eval"
        bands[kind] = meter.submit_any(read(meter, hidden, visible), model=kind).band
    assert bands == {"honest": 1, "memorised": 2}, bands

    gate = Gate(folder / "gate.jsonl", looks=20)
    older = run(folder, HIDDEN, "memorised", log_samples=False)
    failing = run(folder, HIDDEN, "failing", log_samples=False, fail_on_error=False)
    kept = gate.ask(older, failing, name="failing")
    assert kept.answer == "keep"
    assert gate.ask(failing, run(folder, HIDDEN, "honest"), name="honest").answer == "discard"

    honest = run(folder, VISIBLE, "honest", log_samples=False)
    signal = meter.submit_any(read(meter, failing, honest), model="failing")
    assert signal.band == 1, "samples that failed must count as wrong, as they do for the honest"
    limited = run(folder, HIDDEN, "honest", limit=7)
    assert "limit = 7" in refusal(meter, limited, honest)

    for loss in ("easeml_meter.integrations.inspect:includes", f"{__spec__.name}:in_brackets"):
        meter = meter_of_completions(folder, loss)
        bands = {}
        for kind in ("honest", "memorised"):
            hidden = run(folder, HIDDEN, kind, score=False)
            visible = run(folder, VISIBLE, kind, score=False)
            bands[kind] = meter.submit_any(read(meter, hidden, visible), model=kind).band
        assert bands == {"honest": 1, "memorised": 2}, bands
        # An honest model on what is visible that fails on what it does not know: as the honest one.
        failing = run(folder, HIDDEN, "failing", score=False, fail_on_error=False)
        honest = run(folder, VISIBLE, "honest", score=False)
        files = read(meter, failing, honest)
        assert meter.submit_any(files, model="failing").band == 1
        meter.retire()
        meter.release()
        losses = [each.test_loss for each in meter.history()[0].retrospective if each]
        assert losses[0] == losses[2] == 0.2, losses


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
    print("Inspect: scores, completions and a gate got answers; samples that failed counted")
