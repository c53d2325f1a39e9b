"""GEPA with a scripted reflection: what gains on a minibatch has to be kept by the gate, too."""

# needs: gepa==0.1.4

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import gepa
from gepa.core.adapter import EvaluationBatch

from easeml_meter import Gate
from easeml_meter.integrations.loops import Keeper

VISIBLE, HIDDEN = range(40), range(1000, 1300)


def right(prompt: str, case: int) -> float:
    """Say whether a prompt is right on a case: 60 % of them, 25 points more for each real hint.

    What a prompt memorised is right on visible cases alone.
    """
    chance = 0.6 + 0.25 * prompt.count("real") if case >= 1000 else 0.6 + 0.03 * prompt.count("by")
    return float(random.Random(case).random() < chance)  # noqa: S311


class Adapter:
    """The program under optimization: one text, and no model."""

    propose_new_texts = None

    def evaluate(
        self, batch: list[int], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        scores = [right(candidate["prompt"], case) for case in batch]
        return EvaluationBatch(outputs=batch, scores=scores, trajectories=batch)

    def make_reflective_dataset(self, candidate: Any, evaluated: Any, parts: list[str]) -> Any:
        return {part: [{"Feedback": "be better"}] for part in parts}


def main(folder: Path) -> None:
    proposed = iter(["start by", "start by by by", "start by by by by by real"])
    last = ["start"]

    def reflect(_: Any) -> str:
        last[0] = next(proposed, last[0] + " by")
        return f"```\n{last[0]}\n```"

    def score(candidate: dict[str, str]) -> dict[str, float]:
        return {str(case): right(candidate["prompt"], case) for case in HIDDEN}

    start = {"prompt": "start"}
    keeper = Keeper(Gate(folder / "gate.jsonl", looks=20), score, start)
    result = gepa.optimize(
        seed_candidate=start,
        trainset=list(VISIBLE),
        valset=list(VISIBLE),
        adapter=Adapter(),
        reflection_lm=reflect,
        reflection_minibatch_size=40,
        acceptance_criterion=keeper,
        stop_callbacks=lambda _: keeper.spent,
        max_metric_calls=1500,
        skip_perfect_score=False,
    )
    status = keeper.gate.status()
    assert keeper.gate.audit() == status["answers"] >= 3, status
    assert len(status["kept"]) == 1, status
    assert "real" in keeper.best["prompt"]
    assert keeper.best in result.candidates
    assert len(result.candidates) == 2, "the start, and what was kept"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
    print("GEPA: what only gained on visible cases was not accepted, what gained in truth was")
