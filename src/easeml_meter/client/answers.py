"""What a look of a gate says: functions of settings, names and answers, never of a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from easeml_meter.client.decision import least_gain, needs
from easeml_meter.client.ledger import Ledger, Settings
from easeml_meter.promise.kernel import (
    ALARM_SHARES,
    AT_LEAST,
    BETTER,
    BETTER_BY,
    NOT_WORSE,
    State,
)


@dataclass(frozen=True)
class Answer:
    """The answer to a look: names and public numbers alone.

    Attributes:
        answer: "keep" or "discard"; under not-worse "ok" or "alarm".
        by_hand: Whether OLD was not the model to beat; a keep then moves nothing.
        repeated: Whether it was answered before, so that no look was used.
        needs: What the next keep needs, for example: (wins, disputed cases).
        head: The digest that names the ledger as it is now.
        text: What to print.
        note: What to say once, as of a new ledger.
    """

    answer: str
    new: str
    old: str | None
    look: int
    by_hand: bool
    repeated: bool
    answers_left: int | None
    alarms_left: int | None
    needs: tuple[tuple[int, int], ...]
    head: str
    text: tuple[str, ...]
    note: str = ""

    @property
    def yes(self) -> bool:
        """Whether it is "keep" or "ok"."""
        return self.answer in ("keep", "ok")


def answer_of(
    ledger: Ledger,
    look: Mapping[str, Any],
    before: Any,
    *,
    repeated: bool = False,
    note: str = "",
) -> Answer:
    """Return an answer with its words; `before`: what this look needed."""
    settings, state = ledger.settings, ledger.state
    new, old, word = look["new"], look["old"], look["answer"]
    by = f"{float(100 * settings.margin):g} "
    claim = {
        BETTER: f"better than {old}",
        BETTER_BY: f"better than {old} by more than {by}points",
        NOT_WORSE: f"not worse than {old} by more than {by}points",
        AT_LEAST: f"right on more than {by}% of cases",
    }[settings.question]
    if repeated:
        said = f"as at look {look['look']}: {new} was asked before. No answer was used."
    elif word in ("keep", "ok"):
        all_keeps = f"{_sure(settings)} of this and of every other {word} of this test set"
        said = f"{new} is {claim}. {all_keeps}, before and after."
    elif word == "alarm":
        said = f"{new} is not shown to be as good as {old}; nothing is promised about it."
    else:
        said = f"{new} is not shown to be {claim}. That does not say it is worse."
    if look["by_hand"] and word == "keep":
        said += f" {old} was named by you: this does not continue the chain."
    head = ledger.previous[:12]
    text = (said, what_next(settings, state, None if word == "keep" else before), f"Head {head}.")
    return Answer(
        word,
        new,
        old,
        look["look"],
        look["by_hand"],
        repeated,
        answers_left(settings, state),
        _alarms_left(state) if settings.question == NOT_WORSE else None,
        needs(settings, state),
        head,
        text,
        note,
    )


def answers_left(settings: Settings, state: State) -> int | None:
    """Return how many looks are left; None: there is no end."""
    return None if settings.looks is None else settings.looks - state.asked


def _alarms_left(state: State) -> int:
    return len(ALARM_SHARES) - len(state.rung)


def what_next(settings: Settings, state: State, before: Any) -> str:
    """Say what is left, and what the next look needs."""
    left = answers_left(settings, state)
    ends = "No limit of" if left is None else f"{left:,} of {settings.looks:,}"
    ends += " answers." if left is None else " answers left."
    if settings.question == NOT_WORSE:
        alarms = _alarms_left(state)
        return f"{ends} Alarms left: {alarms}." if alarms else "The third alarm: closed."
    if left == 0:
        return ends
    bars, gain = needs(settings, state), least_gain(settings, state)
    if gain is not None:
        return f"{ends} For the next keep an equal gain of {gain:g} on every case would do."
    if not bars:
        return ends if settings.scores else f"{ends} No number of wins would do by now."
    if bars == before:
        return f"{ends} The bar is as before."
    (wins, cases), *others = bars
    if settings.question == AT_LEAST:
        return f"{ends} The next keep needs {wins:,} of {cases:,} cases right."
    shown = [f"{wins} wins of {cases} disputed cases", *(f"{w} of {k}" for w, k in others)]
    listed = " or ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    return f"{ends} The next keep needs, for example, {listed}."


def note_of(
    ledger: Ledger,
    model: str | None,
    placed: Mapping[str, Any] | None,
    *,
    made: bool,
    moved: bool = False,
) -> str:
    """Say what a look changed besides: a new ledger, other cases, the model to beat."""
    settings, cases = ledger.settings, ledger.state.cases
    if moved:
        first = note_of(ledger, model, placed, made=made)
        return f"{first} From now on, OLD is the results of {ledger.state.incumbent}.".lstrip()
    if made:
        looks = "no limit of" if settings.looks is None else f"{settings.looks:,}"
        said = f"New ledger {ledger.path}: {_sure(settings)}, {looks} answers."
        if model is not None:
            said += f" Candidates are compared with {model}; nothing is promised about {model}."
        honour = "Whoever can read results or edit these files can cheat: this is an honour system."
        return f"{said} {honour}"
    if placed is None:
        return ""
    if placed["joined"]:
        return f"{cases:,} cases now: promised if no result has chosen which ones joined."
    return f"Test set {ledger.state.set}: {cases:,} fresh cases, with a share of their own."


def _sure(settings: Settings) -> str:
    return f"{float(100 * (1 - settings.delta)):g} % sure"
