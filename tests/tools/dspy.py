"""DSPy with a model that follows a rule: demonstrations that help are kept."""

# needs: dspy==3.4.1

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import dspy

from easeml_meter import Gate
from easeml_meter.integrations.loops import Keeper, dspy_score


def examples(numbers: range) -> list[Any]:
    return [dspy.Example(question=f"q{n}", answer=str(n)).with_inputs("question") for n in numbers]


def metric(example: Any, told: Any, _: Any = None) -> bool:
    return bool(example.answer == told.answer)


class Ruled(dspy.BaseLM):  # type: ignore[misc]
    """Right on half of the questions, and on nine of ten once it saw demonstrations."""

    def __call__(self, prompt: Any = None, messages: Any = None, **_: Any) -> list[str]:
        question = messages[-1]["content"].split("[[ ## question ## ]]")[1]
        number = int("".join(sign for sign in question.split("\n\n")[0] if sign.isdigit()))
        known = number % 10 != 0 if len(messages) > 2 else number % 2 == 0
        answer = str(number) if known else "no idea"
        return [f"[[ ## answer ## ]]\n{answer}\n\n[[ ## completed ## ]]"]


def main(folder: Path) -> None:
    dspy.configure(lm=Ruled("ruled"))
    student = dspy.Predict("question -> answer")
    score = dspy_score(examples(range(1000, 1200)), metric, display_progress=False, num_threads=1)
    keeper = Keeper(Gate(folder / "gate.jsonl", looks=20), score, student)

    idle = dspy.LabeledFewShot(k=0).compile(student, trainset=examples(range(20)))
    assert not keeper.keep(idle)
    helped = dspy.BootstrapFewShot(metric=metric).compile(student, trainset=examples(range(20)))
    assert helped.demos
    assert keeper.keep(helped)
    assert keeper.best is helped
    assert keeper.keep(helped), "a name that was asked is not asked again"
    status = keeper.gate.status()
    assert (status["answers"], len(status["kept"])) == (1, 1), status


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
    print("DSPy: demonstrations that help were kept, by 1 answer")
