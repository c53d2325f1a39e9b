"""Two real development histories, and what a meter would have told at each step.

Run it with: python examples/development_history.py (it needs the extra "lab").

The developers' own code, eight steps each, is in easeml_meter.lab.histories: from a first decision
tree to training on the validation set. They see the validation score, which rises and rises; the
meters say how much of that is real. The hidden score is printed here only because the histories
are over and their test sets released.
"""

from __future__ import annotations

from easeml_meter.lab.histories import histories
from easeml_meter.lab.meters import Protocol
from easeml_meter.lab.traces import Trace, meter_for, readings

METERS = (Protocol.REGULAR, Protocol.INCREMENTAL)


def show(trace: Trace) -> None:
    print(f"{trace.title}. {trace.story}")
    for protocol in METERS:
        question = meter_for(trace, protocol).question
        edges = ", ".join(f"{float(edge):g}" for edge in question.ends[1:-1])
        print(
            f"{protocol} meter: bands cut at {edges}; tolerance {float(question.tolerances[0]):.3g}"
        )
    print(f"{'step':<24}{'validation':>12}{'hidden':>9}{'gap':>7}{'regular':>9}{'incremental':>13}")
    told = zip(*(readings(trace, protocol) for protocol in METERS), strict=True)
    for step, (regular, incremental) in zip(trace.steps, told, strict=True):
        print(
            f"{regular.step}. {step.change:<21}{1 - step.validation_loss:>12.1%}"
            f"{1 - step.test_loss:>9.1%}{step.gap:>7.3f}"
            f"{regular.answer:>9}{incremental.answer:>13}"
        )
    print()


if __name__ == "__main__":
    for trace in histories():
        show(trace)
