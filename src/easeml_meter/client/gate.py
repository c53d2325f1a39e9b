"""Keep or discard, on two result files: the one bit of each look at the cases of a loop.

Whoever acts on the answers, all keeps of a test set are right with the confidence of its ledger
(docs/mathematics.md, "Levels"; the arithmetic is in `promise.kernel`).

Looks are known by the names that people give, never by what the results are, and all checks come
before the comparison: nothing but the bit depends on hidden rows.
"""

from __future__ import annotations

import json
import unicodedata
from collections import deque
from collections.abc import Set
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from easeml_meter.client.answers import Answer, answer_of, answers_left, note_of, what_next
from easeml_meter.client.decision import decide, level_of, needs
from easeml_meter.client.ledger import Ledger, Settings, digest_of_cases, locked, plain
from easeml_meter.client.results import Results, Source, read_results
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise.kernel import AT_LEAST, BETTER_BY, NOT_WORSE, State, fold

_UNPRINTABLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


@dataclass(frozen=True)
class _Look:
    """What one call asks."""

    old: Results | None
    new: Results
    name: str | None
    old_name: str | None
    fresh: bool
    joined: bool
    again: bool


class Gate:
    """A loop that keeps what is better: one ledger, asked once for each candidate.

        gate = Gate("gate.jsonl", looks=20)
        if gate.ask(old, new, name="prompt-7").yes: ...

    OLD and NEW are paths, mappings of ids to results, Series, or lists in one order. Settings are
    fixed by the first use, and may be left out after it; they are the options of `meter gate`.

    Args:
        path: The ledger; the first look makes it.
        looks: How many looks there will be; None: no end.
        confidence: How sure all keeps of a test set are, together.
        sealed: Whatever is wrong with NEW is a discard, charged like any other.
    """

    def __init__(
        self,
        path: str | Path = "gate.jsonl",
        *,
        looks: int | None = None,
        confidence: float | str | Fraction | None = None,
        scores: bool = False,
        vote: bool = False,
        lower_is_better: bool = False,
        range: tuple[float, float] | str | None = None,  # noqa: A002
        missing: str | None = None,
        id: str | None = None,  # noqa: A002
        score: str | None = None,
        cluster: str | None = None,
        reader: str | None = None,
        not_worse: float | str | Fraction | None = None,
        better_by: float | str | Fraction | None = None,
        at_least: float | str | Fraction | None = None,
        reference: str | None = None,
        sealed: bool = False,
    ) -> None:
        self.path, self.sealed = Path(path), sealed
        given: dict[str, Any] = {"looks": looks, "missing": missing, "id": id, "score": score}
        given |= {"cluster": cluster, "reader": reader, "scores": scores or None}
        given |= {"vote": vote or None, "lower": lower_is_better or None}
        if range is not None:
            given["range"] = _ends(range)
        if confidence is not None:
            given["delta"] = 1 - share_of("confidence", confidence)
        if reference is not None:
            given["reference"] = checked_name("reference", reference)
        margins = {NOT_WORSE: not_worse, BETTER_BY: better_by, AT_LEAST: at_least}
        asked = {name: margin for name, margin in margins.items() if margin is not None}
        if len(asked) > 1:
            raise invalid("question", " and ".join(asked), "one of them")
        for name, margin in asked.items():
            given |= {"question": name, "margin": share_of(name, margin)}
        self._given = {name: value for name, value in given.items() if value is not None}

    def _settings(self, ledger: Ledger) -> Settings:
        """Return what the ledger fixes, or what its first look will fix."""
        if not ledger.made:
            return Settings(**self._given)
        for name, value in self._given.items():
            stands = getattr(ledger.settings, name)
            if value != stands:
                fixed = "without it" if stands is None else f"with {plain(stands)}"
                needed = f"{self.path} was made {fixed}: leave it out, or name another --ledger"
                raise invalid(name, plain(value), needed)
        return ledger.settings

    def ask(
        self,
        old: Source | None,
        new: Source | None = None,
        *,
        name: str | None = None,
        old_name: str | None = None,
        fresh: bool = False,
        joined: bool = False,
        again: bool = False,
        first: bool = True,
    ) -> Answer:
        """Ask whether NEW is better than OLD; at-least: whether the one file is good enough.

        Args:
            old: Results of the old system.
            new: Results of the new one.
            name: Name of the candidate; without one, every call is a new look.
            old_name: Name of the model in OLD. Default: the model to beat.
            fresh: These are other cases than before: a test set of its own.
            joined: Cases joined the known ones, and no result has chosen which.
            again: Ask anew though this name was asked before; it is charged.
            first: Whether a ledger may be made.

        Raises:
            InvalidInput: nothing was asked, and no look was used.
            Spent: no look is left, or no number of wins would do.
        """
        start = Ledger(self.path)
        settings = self._settings(start)
        name = None if name is None else checked_name("name", name)
        old_name = None if old_name is None else checked_name("old-name", old_name)
        if settings.reference and old_name not in (None, settings.reference):
            raise invalid("old-name", old_name, f"the reference is {settings.reference}")
        if not start.made and not first:
            needed = "fetch it, or make the first one with --new"
            raise invalid("ledger", str(self.path), f"there is none: {needed}")
        one = settings.question == AT_LEAST
        if one and (old is None or new is None):
            old, new = None, old if new is None else new
        if new is None or (old is None) != one:
            needed = "--at-least takes NEW alone" if one else "OLD and NEW needed"
            raise invalid("results", "two files" if one else "one file", needed)
        older, newer = self._read(settings, old, new)
        form = (older or newer).form
        found = replace(settings, id=form.id, score=form.score)
        named = settings.reference or old_name
        incumbent = start.state.incumbent if start.made else named or "main"
        with locked(self.path):
            ledger = Ledger(self.path)
            if ledger.made and self._settings(ledger) != (settings if start.made else found):
                raise InvalidInput(f"{self.path}: made meanwhile, with other settings")
            if not ledger.made:
                ledger.settings, ledger.state = found, State(incumbent, settings.delta)
            elif old_name is None and ledger.state.incumbent != incumbent:
                raise InvalidInput(
                    f"the model to beat is {ledger.state.incumbent} by now: ask with its results"
                )
            return self._look(ledger, _Look(older, newer, name, named, fresh, joined, again))

    def _read(
        self, settings: Settings, old: Source | None, new: Source
    ) -> tuple[Results | None, Results]:
        """Read both; a sealed gate charges whatever is wrong with NEW."""
        older = None if old is None else read_results(old, settings, "old")
        form = replace(older.form, cluster=None) if older else settings
        try:
            newer = read_results(new, form, "new")
            if older is not None and list(newer.cases) != list(older.cases):
                lacking = len(older.cases.keys() - newer.cases.keys())
                extra = len(newer.cases) + lacking - len(older.cases)
                if extra and settings.missing:  # how many are filled in is never said
                    raise InvalidInput(f"new results: {extra:,} cases that OLD lacks")
                if extra or (lacking and settings.missing is None):
                    raise InvalidInput(
                        f"new results: {lacking:,} cases missing, {extra:,} that OLD lacks: both "
                        "need the same ones (--missing wrong fills those that NEW lacks)"
                    )
                get, runs = newer.cases.get, type(next(iter(newer.cases.values()))) is tuple
                worst = (settings.worst,) if runs else settings.worst
                newer.cases = {case: get(case, worst) for case in older.cases}
        except InvalidInput:
            if not self.sealed:
                raise
            cases = dict.fromkeys(older.cases if older else (), settings.worst)
            newer = Results(cases, {}, form, wrong=True)
        return older, newer

    def _look(self, ledger: Ledger, look: _Look) -> Answer:
        settings, state, old, new = ledger.settings, ledger.state, look.old, look.new
        against = None if settings.question == AT_LEAST else look.old_name or state.incumbent
        cases = (old or new).cases
        ids = digest_of_cases(cases) if cases else state.ids
        pending = ledger.pending
        if pending is not None:
            mine = (look.name or f"#{pending['look']}", against, ids)
            if mine != (pending["new"], pending["old"], state.ids):
                ledger.answer(pending, False)
                return self._look(Ledger(self.path), look)
        name = look.name or f"#{state.look + 1}"
        placed = None
        if ids != state.ids or not state.set:
            placed = self._place(ledger, look, cases.keys(), ids)
            state = state if placed is None else state.placed(settings, placed)
        if look.name is not None and not look.again and pending is None:
            repeated = self._asked_before(ledger, state.set, name, look.old_name)
            if repeated is not None:
                return answer_of(ledger, repeated, (), repeated=True)
        if name == against:
            raise invalid("name", name, "another name than that of the model to beat")
        level = level_of(settings, state, old.clusters if old else {})
        made, before = not ledger.made, needs(settings, state)
        if pending is None:
            pending = ledger.intend(cases, placed, (name, against))
        yes = decide(settings, level, old, new) and not new.wrong
        word = ledger.answer(pending, yes)
        moved = ledger.state.incumbent != state.incumbent
        note = note_of(ledger, against, placed, made=made, moved=moved)
        return answer_of(ledger, {**pending, "answer": word}, before, note=note)

    def _place(
        self, ledger: Ledger, look: _Look, cases: Set[str], ids: str
    ) -> dict[str, Any] | None:
        """Return the line that takes these cases; None for those that are known."""
        state = ledger.state
        if not cases:
            raise InvalidInput("new results: they cannot be read, and no case is known yet")
        entry = {"set": state.set + 1, "cases": len(cases), "ids": ids, "joined": False}
        if not state.set:
            ledger.check_budgets(cases, ids)
            return entry
        known = ledger.known_cases()
        here = known[state.set]
        if cases == here:  # under another METER_KEY
            return None
        try:
            missing = len(here - cases)
            if missing and any(cases & each for each in known.values()):
                raise InvalidInput(f"results: {missing:,} of {state.cases:,} cases are missing")
            if any(cases & known[number] for number in known if number != state.set):
                raise InvalidInput("results: some cases are of an earlier test set")
            if missing and not look.fresh:
                needed = "--fresh if this is another test set"
                raise InvalidInput(f"results: none of the {state.cases:,} known cases: {needed}")
            if not missing and not look.joined:
                needed = "--joined if cases joined, and no result has chosen which"
                raise InvalidInput(f"results: {len(cases - here):,} cases are new: {needed}")
        except InvalidInput:
            if self.sealed and look.old is None:
                look.new.wrong = True
                return None
            raise
        ledger.check_budgets(cases, ids)
        return entry if missing else entry | {"set": state.set, "joined": True}

    def _asked_before(
        self, ledger: Ledger, test_set: int, new: str, old: str | None
    ) -> dict[str, Any] | None:
        """Return the look at this test set that had a name, if it is not void."""
        voided = ledger.voided()
        for entry in ledger.entries(f'"new": {json.dumps(new)},'.encode()):
            same = entry["state"]["set"] == test_set and old in (None, entry["old"])
            if same and entry["look"] not in voided:
                return entry
        return None

    # --- looking back -----------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return what was kept, what is left, and what the next keep needs.

        Raises:
            InvalidInput: there is no ledger.
        """
        ledger = self._opened()
        settings, state = ledger.settings, ledger.state
        if ledger.pending:  # it has used its look
            state = state.after(settings, ledger.pending, False)
        voided = ledger.voided()
        kept = [
            entry["new"]
            for entry in ledger.entries(f'"answer": "{settings.words[0]}"'.encode())
            if entry["state"]["set"] == state.set and entry["look"] not in voided
        ]
        return {
            "ledger": str(self.path),
            "question": settings.question,
            "confidence": float(1 - settings.delta),
            "model_to_beat": None if settings.question == AT_LEAST else state.incumbent,
            "kept": kept,
            "answers": state.asked,
            "answers_left": answers_left(settings, state),
            "cases": state.cases,
            "needs": needs(settings, state),
            "text": what_next(settings, state, None),
            "head": ledger.previous[:12],
        }

    def void(self, look: int, reason: str) -> str:
        """Mark a look whose evaluator was broken: it stays counted, and promises nothing.

        Returns:
            The model to beat from now on.

        Raises:
            InvalidInput: there is no such look, or it is void already.
        """
        reason = checked_name("reason", reason)
        with locked(self.path):
            ledger = self._opened()
            if ledger.pending is not None:
                ledger.answer(ledger.pending, False)
                ledger = self._opened()
            if not 1 <= look <= ledger.state.look or look in ledger.voided():
                raise invalid("void", look, f"a look of 1 to {ledger.state.look} that is not void")
            line = {"void": look, "reason": reason}
            (after,) = deque(fold(ledger.settings, [*ledger.entries(), line]), maxlen=1)
            ledger.write(ledger.line(line, after))
            return after.incumbent

    def _opened(self) -> Ledger:
        ledger = Ledger(self.path)
        if not ledger.made:
            raise invalid("ledger", str(self.path), "there is none: meter gate OLD NEW makes it")
        return ledger

    def audit(self, head: str | None = None) -> int:
        """Follow the chain, compute every share and level again; return how many looks there were.

        Raises:
            BrokenLedger: a line does not follow, or no line has this head.
        """
        return self._opened().audit(head).look


def gate(old: Source, new: Source, *, confidence: float | str = 0.9, scores: bool = False) -> bool:
    """Decide once whether to keep NEW. One look at these cases, ever; for a second, use `Gate`.

    Raises:
        InvalidInput: the results cannot be compared.
    """
    asked = Gate(looks=1, confidence=confidence, scores=scores)
    settings = Settings(**asked._given)
    return decide(settings, settings.delta, *asked._read(settings, old, new))


# --- what people give -----------------------------------------------------------------------------


def share_of(what: str, value: float | str | Fraction) -> Fraction:
    """Read 2%, 0.02 or .02; for a confidence 95, too.

    Raises:
        InvalidInput: it is none of these.
    """
    text = str(value).strip()
    try:
        found = Fraction(text.removesuffix("%").strip())
    except (ValueError, ZeroDivisionError):
        raise invalid(what, value, "such as 95% or 0.95") from None
    whole = text.endswith("%") or (what == "confidence" and found > 1)
    found = found / 100 if whole else found
    if not 0 < found < 1:
        raise invalid(what, value, "a share between 0 and 1, such as 95% or 0.95")
    return found


def _ends(value: tuple[float, float] | str) -> tuple[Fraction, Fraction]:
    parts = value.split(",") if isinstance(value, str) else [repr(each) for each in value]
    try:
        low, high = map(Fraction, parts)
    except (ValueError, ZeroDivisionError):
        raise invalid("range", value, "LOW,HIGH such as 0,10") from None
    return low, high


def checked_name(what: str, name: str) -> str:
    """Return a name that can be shown anywhere.

    Raises:
        InvalidInput: it cannot.
    """
    name = unicodedata.normalize("NFC", name)
    strange = any(unicodedata.category(sign) in _UNPRINTABLE for sign in name)
    if not 1 <= len(name) <= 200 or strange or name.startswith("#"):
        raise invalid(what, name[:40], "1 to 200 printable characters, the first of them no #")
    return name
