"""An agent climbs on an evaluation that it can see, with a meter and without one.

    python examples/integrations/agent_loop.py FOLDER        # needs easeml-meter[mcp]

The agent is a script, so that the example always ends the same way. It knows 60 visible questions
and tries to answer them better by using more and more hints, all but three of which are noise:
each time, it takes the hints that fit the visible questions best. That is what "try something, keep
it if the score rises" comes to. It talks to the meter through MCP, as a coding agent would.

The meter is in a folder here, which an agent of the same account could read. For real agents it is
at a server, under another account.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mcp import Client, StdioServerParameters
from numpy.typing import NDArray

from easeml_meter import Meter, MeterSpec

REAL, HINTS, VISIBLE, FRESH = 3, 400, 60, 100_000
TRIES = (3, 6, 12, 25, 50, 100)
"""How many hints the agent uses, one model after the other."""
FAIL_ABOVE = 1
SPEC = MeterSpec.uniform(
    edges=[0.15], tolerance=0.1, steps=len(TRIES), delta=0.05, classes=(0, 1), inputs="public"
)

Numbers = NDArray[Any]


@dataclass(frozen=True)
class Questions:
    """Hints and the right answers: the first few hints have something to do with them."""

    hints: Numbers
    answers: Numbers

    @classmethod
    def drawn(cls, count: int, seed: int) -> Questions:
        """Draw questions from the same world."""
        rng = np.random.default_rng(seed)
        answers = rng.integers(0, 2, count)
        hints = rng.normal(size=(count, HINTS)).astype(np.float32)
        hints[:, :REAL] += 0.5 * (2 * answers[:, None] - 1)
        return cls(hints, answers)

    def errors(self, answered: Numbers) -> float:
        """Return the share of wrong answers."""
        return float((answered != self.answers).mean())


def learned(visible: Questions, used: int) -> Numbers:
    """Return the weights of a model: the hints that agree best with the visible answers."""
    agreement = visible.hints.T @ (2 * visible.answers - 1) / len(visible.answers)
    best = np.argsort(-np.abs(agreement))[:used]
    weights = np.zeros(HINTS)
    weights[best] = np.sign(agreement[best])
    return weights


def answered(hints: Numbers, weights: Numbers) -> Numbers:
    """Return what a model answers."""
    return (hints @ weights > 0).astype(np.int64)


def claimed(visible: Questions, used: int) -> float:
    """Return what an agent without a meter would report."""
    return visible.errors(answered(visible.hints, learned(visible, used)))


def make_meter(folder: Path, visible: Questions) -> None:
    """Do what the people around the agent do: seal a test set, hand in the visible questions."""
    with Meter.create(folder / "meter", SPEC) as meter:
        hidden = Questions.drawn(meter.plan.labels, 2)
        for name, drawn in (("hidden", hidden), ("visible", visible)):
            columns = {"id": [f"{name}-{at}" for at in range(len(drawn.answers))]}
            table = pa.table(columns | {"answer": drawn.answers})
            pq.write_table(table, folder / f"{name}.parquet")
        meter.seal(folder / "hidden.parquet", folder / "t.sealed", label="answer", id_column="id")
        meter.add_test_set(folder / "t.sealed")
        meter.set_validation(folder / "visible.parquet", label="answer", id_column="id")
    (folder / "hidden.parquet").unlink()  # the labels; what is left of it are the hints
    np.save(folder / "hints.npy", hidden.hints)


def write(path: Path, name: str, predictions: Numbers) -> str:
    """Write a file of predictions that the agent can submit; return its name."""
    rows = "".join(f"{name}-{at},{each}\n" for at, each in enumerate(predictions))
    path.write_text(f"id,prediction\n{rows}")
    return path.name


async def climb(folder: Path, visible: Questions) -> int:
    """Try one model after the other through MCP; return the hints of the last one that passed."""
    arguments = ["-m", "easeml_meter", "mcp", "--honour", "--root", str(folder)]
    arguments += ["-C", str(folder / "meter")]
    hints, kept = np.load(folder / "hints.npy"), 0
    async with Client(StdioServerParameters(command=sys.executable, args=arguments)) as meter:
        for used in TRIES:
            weights, model = learned(visible, used), f"{used}-hints"
            test = write(folder / f"{model}-t.csv", "hidden", answered(hints, weights))
            own = answered(visible.hints, weights)
            validation = write(folder / f"{model}-v.csv", "visible", own)
            files = {"test": test, "validation": validation}
            await meter.call_tool("meter_submit", {"model": model, **files})
            verdict = await meter.call_tool(
                "meter_gate", {"model": model, "fail_above": FAIL_ABOVE}
            )
            told = verdict.structured_content
            print(f"{used:4} hints: {visible.errors(own):4.0%} wrong on visible: ", end="")
            print(told["sentence"])
            if not told["passed"]:
                print("The agent stops here, and keeps the model before.")
                return kept
            kept = used
    return kept


def main(folder: Path) -> None:
    """Tell both stories."""
    folder.mkdir(parents=True, exist_ok=True)
    visible, fresh = Questions.drawn(VISIBLE, 1), Questions.drawn(FRESH, 3)
    make_meter(folder, visible)
    print("With a meter:")
    kept = asyncio.run(climb(folder, visible))
    print("\nWithout one, the agent goes on as long as the visible score rises:")
    best = min(
        TRIES, key=lambda used: visible.errors(answered(visible.hints, learned(visible, used)))
    )
    for title, used in (("with a meter", kept), ("without", best)):
        weights = learned(visible, used)
        claimed = visible.errors(answered(visible.hints, weights))
        true = fresh.errors(answered(fresh.hints, weights))
        print(
            f"{title:>12}: {used:3} hints, {claimed:.0%} wrong claimed, {true:.0%} wrong in truth"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "agent-loop"))
