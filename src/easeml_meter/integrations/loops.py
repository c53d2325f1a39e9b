"""Other people's optimizers keep what a gate keeps: GEPA, SkillOpt, DSPy, or a loop of your own.

An optimizer chooses by cases that it sees. What it chose is asked of a gate on cases that it never
sees; `score` runs a candidate on them, and returns a result for each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from easeml_meter.client.gate import Gate
from easeml_meter.errors import Spent

Score = Callable[[Any], Mapping[str, float]]


class Keeper:
    """The best candidate so far; another one replaces it if the gate keeps it.

        keeper = Keeper(Gate("gate.jsonl", looks=20), score, prompt)
        if keeper.keep(changed): ...

    Candidates are named by what they are, so one that comes again is neither scored nor charged.
    It is an `acceptance_criterion` of `gepa.optimize`, too.

    Attributes:
        best: The last candidate that was kept.
        spent: Whether the gate has no answers left: time to stop.
    """

    def __init__(self, gate: Gate, score: Score, start: Any) -> None:
        self.gate, self.score = gate, score
        self.best, self.spent = start, False
        self._name, self._results = name_of(start), score(start)
        self._told = {self._name: False}

    def keep(self, candidate: Any) -> bool:
        """Ask whether a candidate is better than the best one, and replace that if it is."""
        name = name_of(candidate)
        if self.spent or name in self._told:
            return self._told.get(name, False) and name == self._name
        results = self.score(candidate)
        try:
            answer = self.gate.ask(self._results, results, name=name, old_name=self._name)
        except Spent:
            self.spent = True
            return False
        self._told[name] = answer.yes and not answer.by_hand
        if self._told[name]:
            self.best, self._name, self._results = candidate, name, results
        return self._told[name]

    def should_accept(self, proposal: Any, state: Any) -> bool:
        """Accept, for GEPA, what gains on its minibatch, as it does, and is kept by the gate."""
        before, after = proposal.subsample_scores_before, proposal.subsample_scores_after
        return sum(after or ()) > sum(before or ()) and self.keep(proposal.candidate)


def name_of(candidate: Any) -> str:
    """Return a name that follows from what a candidate is: a text, a mapping, a program of DSPy."""
    state = candidate.dump_state() if hasattr(candidate, "dump_state") else candidate
    text = json.dumps(state, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def skillopt_gate(keeper: Keeper) -> Callable[..., Any]:
    """Return what `evaluate_gate` of `skillopt.engine.trainer` is replaced by.

    A skill that is better on SkillOpt's selection set is asked of the gate, and so is kept by both.
    """
    from skillopt.evaluation.gate import GateResult, evaluate_gate

    def gated(candidate_skill: str, **given: Any) -> Any:
        theirs = evaluate_gate(candidate_skill=candidate_skill, **given)
        if theirs.action == "reject" or keeper.keep(candidate_skill):
            return theirs
        kept = ("current_skill", "current_score", "best_skill", "best_score", "best_step")
        return GateResult(action="reject", **{name: given[name] for name in kept})

    return gated


def dspy_score(cases: Sequence[Any], metric: Callable[..., Any], **options: Any) -> Score:
    """Return a `score` that runs a program of DSPy on examples, by `dspy.Evaluate`."""
    from dspy import Evaluate

    evaluate = Evaluate(devset=list(cases), metric=metric, **options)

    def score(program: Any) -> dict[str, float]:
        found = evaluate(program).results
        return {str(at): float(result) for at, (_, _, result) in enumerate(found, 1)}

    return score
