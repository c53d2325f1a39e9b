"""Keep or discard, on two result files: the ledger of a loop, and the one bit of each look.

Whoever acts on the answers, all keeps of a test set are right with the confidence of its ledger
(docs/mathematics.md, "Levels"; the arithmetic is in `promise.kernel`). The ledger is JSON Lines:
names, bits, share and level of every look, nothing of any case; a line has the digest of the one
before it.

A look is two writes. What it stakes is on disk before the results are compared, and its answer is
on disk before it is told: a process that dies between them has used its look, and gets it back by
calling again with the same names. Looks are known by the names that people give, never by what the
results are, and all checks come before the comparison: nothing but the bit depends on hidden rows.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import math
import os
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from easeml_meter.client.results import Form, Results, Source, read_results
from easeml_meter.errors import InvalidInput, Spent, invalid
from easeml_meter.promise.kernel import (
    ALARM_SHARES,
    Alarms,
    Stake,
    bar_better_by,
    bar_not_worse,
    bet_sizes,
    bets_pay,
    least_wins,
)

FORMAT = 1
_SHOWN = (20, 40, 80)
"""Numbers of disputed cases whose bar is shown, besides the least one: never this look's."""
_UNPRINTABLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_BETTER, _NOT_WORSE, _BETTER_BY, _AT_LEAST = "better", "not-worse", "better-by", "at-least"


class BrokenLedger(InvalidInput):
    """The lines of a ledger do not follow each other."""


@dataclass(frozen=True)
class Settings(Form):
    """What the first use of a ledger fixes; given again, it has to be equal.

    Attributes:
        delta: The probability that a claim is false, of all claims of a test set together.
        looks: How many looks there are; None: no end.
        question: "better", or with a margin "not-worse", "better-by" or "at-least".
        margin: By how much; at-least: the bar.
        reference: The model whose results OLD has, where it is always the same.
        missing: "wrong" if cases that NEW lacks count as wrong.
    """

    delta: Fraction = Fraction(1, 10)
    looks: int | None = None
    question: str = _BETTER
    margin: Fraction = Fraction(0)
    reference: str | None = None
    missing: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delta <= Fraction(1, 4):
            raise invalid("confidence", f"{float(1 - self.delta):g}", "75 % to below 100 %")
        if self.looks is not None and not 1 <= self.looks <= 10**6:
            raise invalid("looks", self.looks, "1 to 1,000,000; without it there is no end")
        if self.question != _BETTER and not 0 < self.margin < 1:
            raise invalid(self.question, float(self.margin), "a share between 0 and 1, as 2%")
        if self.question == _AT_LEAST and self.scores:
            raise invalid("at-least", "--scores", "a bar is for cases that are right or wrong")
        if (self.question == _NOT_WORSE) != (self.reference is not None):
            raise invalid("reference", self.reference, "--not-worse and --reference, or neither")
        if self.missing not in (None, "wrong"):
            raise invalid("missing", self.missing, "wrong, or leave it out")

    @property
    def words(self) -> tuple[str, str]:
        """The answers with and without a claim."""
        return ("ok", "alarm") if self.question == _NOT_WORSE else ("keep", "discard")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Settings:
        """Read it from a ledger."""
        read = dict(data, delta=Fraction(data["delta"]), margin=Fraction(data["margin"]))
        low, high = data["range"]
        return cls(**read | {"range": (Fraction(low), Fraction(high))})


def _plain(value: Any) -> Any:
    """Return settings, a state or a part of them as JSON has it."""
    if isinstance(value, Settings | State):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Fraction) else value


@dataclass(frozen=True)
class State:
    """Where a ledger stands after a line.

    Attributes:
        look: Looks so far, over all test sets; `asked`: at this test set.
        set: Number of the test set; `cases` and `ids`: how many it has, and their digest.
        share: What is left of delta; `since`: discards since the last keep.
        rung: At which looks there was an alarm.
        incumbent: The model to beat.
    """

    incumbent: str
    share: Fraction
    look: int = 0
    set: int = 0
    cases: int = 0
    ids: str = ""
    asked: int = 0
    since: int = 0
    rung: tuple[int, ...] = ()

    def level(self, settings: Settings) -> Fraction:
        """Return the level of the next look; 0: there is none."""
        if settings.question == _NOT_WORSE:
            alarms = Alarms(self.asked, self.rung)
            return alarms.level(settings.delta, ALARM_SHARES, settings.looks)
        return Stake(self.share, self.asked, self.since).level(settings.looks)

    def after(self, settings: Settings, look: Mapping[str, Any], yes: bool) -> State:
        """Return where the answer to a look leaves the ledger."""
        counted = replace(self, look=self.look + 1, asked=self.asked + 1)
        if settings.question == _NOT_WORSE:
            return replace(counted, rung=Alarms(self.asked, self.rung).after(yes).rung)
        left = Stake(self.share, self.asked, self.since).after(self.level(settings), yes)
        moves = yes and settings.question != _AT_LEAST and not look["by_hand"]
        incumbent = look["new"] if moves else self.incumbent
        return replace(counted, share=left.share, since=left.since, incumbent=incumbent)

    def placed(self, settings: Settings, entry: Mapping[str, Any]) -> State:
        """Return it with cases that join, or with a fresh test set."""
        found = replace(self, cases=entry["cases"], ids=entry["ids"])
        if entry["joined"]:
            return found
        return replace(found, set=self.set + 1, share=settings.delta, asked=0, since=0, rung=())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> State:
        """Read it from a line."""
        return cls(**{**data, "share": Fraction(data["share"]), "rung": tuple(data["rung"])})


def beaten(ledger: Ledger, voided: Iterable[int], looks: int) -> str:
    """Return the model to beat after so many looks: the last one kept by one that is not void."""
    out, model = set(voided), ledger.first.incumbent
    if ledger.settings.question in (_BETTER, _BETTER_BY):
        for entry in ledger.entries(b'"answer": "keep"'):
            if not entry["by_hand"] and entry["look"] <= looks and entry["look"] not in out:
                model = entry["new"]
    return model


# --- the file -----------------------------------------------------------------------------------


class Ledger:
    """The lines of a ledger as they are now; only the first, the last and those named are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            text = b""
        except OSError as error:
            raise invalid("ledger", str(path), f"cannot be read: {error.strerror}") from None
        end = text.rfind(b"\n") + 1
        self.text, rest = text[:end], text[end:]
        self.made = end > 0
        self.previous = ""
        self.pending: dict[str, Any] | None = None
        self.size = end
        """Where the next write begins: what is left of a write that failed lies behind it."""
        if not self.made:
            return
        first = self._entry(self.text[: self.text.index(b"\n")], 0)
        begins = self.text.rfind(b"\n", 0, -1) + 1
        last = self._entry(self.text[begins:], begins)
        if first.get("gate") != FORMAT:
            raise BrokenLedger(f"{path}: line 1: not the settings of a ledger of this version")
        self.settings = Settings.from_dict(first["settings"])
        self.first, self.state = (State.from_dict(each["state"]) for each in (first, last))
        self.previous = last["digest"]
        at = rest.find(b'"level": "') + 10  # quotes inside of names are escaped
        rest = rest[: rest.find(b'"', at) + 1]
        try:
            begun = json.loads(rest + b"}")
        except ValueError:  # half of it: nothing was compared
            return
        if begun.get("previous") == self.previous and "level" in begun:
            self.pending, self.size = begun, end + len(rest)

    def _entry(self, line: bytes, begins: int) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(line)
            if found["digest"] == digest(found):
                return found
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        number = self.text.count(b"\n", 0, begins) + 1
        raise BrokenLedger(f"{self.path}: line {number} was changed, or is no line of a ledger")

    def entries(self, needle: bytes = b"") -> Iterator[dict[str, Any]]:
        """Yield the lines that have some bytes in them."""
        at = self.text.find(needle)
        while 0 <= at < len(self.text):
            end = self.text.index(b"\n", at)
            begins = self.text.rfind(b"\n", 0, at) + 1
            yield self._entry(self.text[begins:end], begins)
            at = self.text.find(needle, end + 1)

    def voided(self) -> set[int]:
        """Return the looks that are void."""
        return {entry["void"] for entry in self.entries(b'{"void": ')}

    def line(self, entry: Mapping[str, Any], state: State) -> bytes:
        """Return the next line, and go on from it."""
        whole = {**entry, "previous": self.previous, "state": _plain(state)}
        self.previous, self.state = digest(whole), state
        return json.dumps({**whole, "digest": self.previous}).encode() + b"\n"

    def write(self, text: bytes) -> None:
        """Write on disk, over what a failed write left."""
        with self.path.open("r+b" if self.path.exists() else "w+b") as file:
            file.truncate(self.size)
            file.seek(self.size)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if not self.made:  # the name of the file, too
            folder = os.open(self.path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        self.made, self.size = True, self.size + len(text)

    def answer(self, look: Mapping[str, Any], yes: bool) -> str:
        """Write the answer to a look, the second of its two writes."""
        told = self.settings.words[0 if yes else 1]
        state = self.state.after(self.settings, look, yes)
        whole = {**look, "answer": told, "state": _plain(state)}
        self.previous, self.state, self.pending = digest(whole), state, None
        end = {"answer": told, "state": whole["state"], "digest": self.previous}
        self.write(b", " + json.dumps(end).encode()[1:] + b"\n")
        return told


def digest(entry: Mapping[str, Any]) -> str:
    """Return the digest of a parsed line, whatever its bytes are."""
    rest = {key: value for key, value in entry.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time look; the file of the lock stays only as long as it is held."""
    lock, began, said = path.with_name(f"{path.name}.lock"), time.monotonic(), False
    while True:
        try:
            file = lock.open("a")
        except OSError as error:
            raise invalid("ledger", str(path), f"cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file.fileno()).st_ino == lock.stat().st_ino:
                break
        except (BlockingIOError, FileNotFoundError):  # held, or just given up
            if not said and time.monotonic() - began > 1:
                said = True
                print(f"meter: another look at {path} is going on: waiting", file=sys.stderr)
            time.sleep(0.005)
        file.close()
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        file.close()


def _known_cases(ledger: Ledger) -> dict[int, set[str]]:
    """Return the cases of each test set: they stand beside the ledger, which has their digests.

    Raises:
        InvalidInput: the file is not there, or not whole.
    """
    found: dict[int, set[str]] = {}
    path, state = ledger.path.with_suffix(".cases"), ledger.state
    for line in path.read_text("utf-8").split("\n") if path.exists() else ():
        with suppress(ValueError):  # a line that was torn, whose digest the ledger does not have
            part = json.loads(line)
            if f'"ids": "{part["ids"]}"'.encode() in ledger.text:
                found.setdefault(part["set"], set()).update(part["cases"])
    if len(found) != state.set or len(found.get(state.set, ())) != state.cases:
        alone = f"the {state.cases:,} known cases alone can be taken"
        raise InvalidInput(f"{path} is not here, or not whole: without it, {alone}")
    return found


def _add_cases(path: Path, state: State, cases: Iterable[str]) -> None:
    """Write cases before the ledger has their digest; until then the line does not count."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        line = json.dumps({"set": state.set, "ids": state.ids, "cases": sorted(cases)})
        file.write(f"\n{line}".encode())  # after a line that was torn, too
        file.flush()
        os.fsync(file.fileno())


def _digest_of(cases: Iterable[str]) -> str:
    """Return one digest of all ids: under a key, nobody can try ids against it."""
    text = json.dumps(sorted(cases)).encode()
    key = os.environ.get("METER_KEY", "").encode()
    return (hmac.new(key, text, "sha256") if key else hashlib.sha256(text)).hexdigest()[:32]


def _out_of_git(path: Path) -> None:
    """Let Git ignore the ids of cases, and never merge two branches of a ledger."""
    if not any((folder / ".git").exists() for folder in path.absolute().parents):
        return
    for name, line in (
        (".gitignore", path.with_suffix(".cases").name),
        (".gitattributes", f"{path.name} merge=binary -text"),
    ):
        file = path.with_name(name)
        text = file.read_text("utf-8") if file.exists() else ""
        if line not in text.splitlines():
            joint = "" if text[-1:] in ("", "\n") else "\n"
            file.write_text(f"{text}{joint}{line}\n", "utf-8")


# --- the gate -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What a look was told: names and public numbers alone.

    Attributes:
        answer: "keep" or "discard"; under not-worse "ok" or "alarm".
        by_hand: Whether OLD was not the model to beat; a keep then moves nothing.
        repeated: Whether it was told before, so that no look was used.
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
        given: dict[str, Any] = {"looks": looks, "missing": missing, "reference": reference}
        given |= {"id": id, "score": score, "cluster": cluster, "reader": reader}
        given |= {"scores": scores or None, "vote": vote or None, "lower": lower_is_better or None}
        if range is not None:
            given["range"] = _ends(range)
        if confidence is not None:
            given["delta"] = 1 - share_of("confidence", confidence)
        if reference is not None:
            given["reference"] = checked_name("reference", reference)
        margins = {_NOT_WORSE: not_worse, _BETTER_BY: better_by, _AT_LEAST: at_least}
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
                given, fixed = _plain(value), _plain(stands)
                raise invalid(name, given, f"{self.path} was made with {fixed}: leave it out")
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
        incumbent = settings.reference or old_name or "main"
        incumbent = start.state.incumbent if start.made else incumbent
        if not start.made and not first:
            needed = "fetch it, or make the first one with --new"
            raise invalid("ledger", str(self.path), f"there is none: {needed}")
        if settings.question == _AT_LEAST and (old is None or new is None):
            old, new = None, old if new is None else new
        if new is None or (old is None) != (settings.question == _AT_LEAST):
            needed = "NEW alone" if settings.question == _AT_LEAST else "OLD and NEW"
            raise invalid("results", "others", f"{settings.question} takes {needed}")
        older = None if old is None else read_results(old, settings, "old")
        newer = self._new(new, settings, older)
        form = (older or newer).form
        found = replace(settings, id=form.id, score=form.score)
        with _locked(self.path):
            ledger = Ledger(self.path)
            if ledger.made and self._settings(ledger) != (settings if start.made else found):
                raise InvalidInput(f"{self.path}: made meanwhile, with other settings")
            if not ledger.made:
                ledger.settings, ledger.state = found, State(incumbent, settings.delta)
                ledger.first = ledger.state
            elif old_name is None and ledger.state.incumbent != incumbent:
                raise InvalidInput(
                    f"the model to beat is {ledger.state.incumbent} by now: ask with its results"
                )
            names = (name, settings.reference or old_name)
            return self._look(ledger, (older, newer), names, (fresh, joined, again))

    def _new(self, source: Source, settings: Settings, old: Results | None) -> Results:
        """Read NEW; a sealed gate charges whatever is wrong with it."""
        form = replace(old.form, cluster=None) if old else settings
        try:
            new = read_results(source, form, "new")
            if old is not None and new.cases.keys() != old.cases.keys():
                lacking = len(old.cases.keys() - new.cases.keys())
                extra = len(new.cases) + lacking - len(old.cases)
                if extra or settings.missing is None:
                    raise InvalidInput(
                        f"new results: {lacking:,} cases missing, {extra:,} that OLD lacks: both "
                        "need the same ones (--missing wrong fills those that NEW lacks)"
                    )
        except InvalidInput:
            if not self.sealed:
                raise
            return Results({}, {}, form, wrong=True)
        return new

    def _look(
        self,
        ledger: Ledger,
        results: tuple[Results | None, Results],
        names: tuple[str | None, str | None],
        how: tuple[bool, bool, bool],
    ) -> Answer:
        old, new = results
        settings, (name, old_name), (fresh, joined, again) = ledger.settings, names, how
        against = None if settings.question == _AT_LEAST else old_name or ledger.state.incumbent
        cases = (old or new).cases
        ids = _digest_of(cases) if cases else ledger.state.ids
        pending = ledger.pending
        if pending is not None:
            mine = (name or f"#{pending['look']}", against, ids)
            if mine != (pending["new"], pending["old"], ledger.state.ids):
                ledger.answer(pending, False)
                pending = None
        label = name or f"#{ledger.state.look + 1}"
        state, placed = ledger.state, None
        if ids != state.ids or not state.set:
            placed = self._place(ledger, new, set(cases), fresh=fresh, joined=joined)
            state = state if placed is None else state.placed(settings, placed)
        if name is not None and not again and pending is None:
            repeat = self._repeat(ledger, state, label, old_name)
            if repeat is not None:
                return repeat
        if label == against:
            raise invalid("name", label, "another name than that of the model to beat")
        level = _check_possible(settings, state, old.clusters if old else {})
        made = not ledger.made
        if pending is None:
            pending = self._intend(ledger, cases, placed, (label, against), level)
        before = needs(settings, ledger.state)
        yes = decide(settings, level, old, new) and not new.wrong
        told = ledger.answer(pending, yes)
        answer = _answer(ledger, {**pending, "answer": told}, before)
        return replace(answer, note=_note(ledger, made, placed))

    def _place(
        self, ledger: Ledger, new: Results, cases: set[str], *, fresh: bool, joined: bool
    ) -> dict[str, Any] | None:
        """Return the line that takes these cases; None for those that are known."""
        state, ids = ledger.state, _digest_of(cases)
        if not cases:
            raise InvalidInput("new results: they cannot be read, and no case is known yet")
        entry = {"set": state.set + 1, "cases": len(cases), "ids": ids, "joined": False}
        if not state.set:
            self._check_budgets(ledger, cases)
            return entry
        known = _known_cases(ledger)
        here = known[state.set]
        if cases == here:  # under another METER_KEY
            return None
        try:
            missing = len(here - cases)
            if missing and any(cases & each for each in known.values()):
                raise InvalidInput(f"results: {missing:,} of {state.cases:,} cases are missing")
            if any(cases & known[number] for number in known if number != state.set):
                raise InvalidInput("results: some cases are of an earlier test set")
            if missing and not fresh:
                needed = "--fresh if this is another test set"
                raise InvalidInput(f"results: none of the {state.cases:,} known cases: {needed}")
            if not missing and not joined:
                needed = "--joined if cases joined, and no result has chosen which"
                raise InvalidInput(f"results: {len(cases - here):,} cases are new: {needed}")
        except InvalidInput:
            if self.sealed and ledger.settings.question == _AT_LEAST:
                new.wrong = True
                return None
            raise
        self._check_budgets(ledger, cases)
        return entry if missing else entry | {"set": state.set, "joined": True}

    def _check_budgets(self, ledger: Ledger, cases: set[str]) -> None:
        """Refuse cases on which another ledger of this folder spends the other kind of budget."""
        for path in self.path.absolute().parent.glob("*.cases"):
            other = Ledger(path.with_suffix(self.path.suffix))
            if path.stem == self.path.stem or not other.made:
                continue
            same = other.settings.words == ledger.settings.words
            if not same and any(cases & each for each in _known_cases(other).values()):
                said = f"{other.path} asks these cases another way"
                raise invalid("ledger", str(self.path), said)

    def _repeat(self, ledger: Ledger, state: State, new: str, old: str | None) -> Answer | None:
        """Return the answer to a name that was asked before on this test set: it is free."""
        voided = ledger.voided()
        for entry in ledger.entries(f'"new": {json.dumps(new)},'.encode()):
            same = entry["state"]["set"] == state.set and old in (None, entry["old"])
            if same and entry["look"] not in voided:
                return _answer(ledger, entry, (), repeated=True)
        return None

    def _intend(
        self, ledger: Ledger, cases: Iterable[str], placed: Any, names: Any, level: Fraction
    ) -> dict[str, Any]:
        """Write what a look stakes, the first of its two writes, before anything is compared."""
        text = b""
        if not ledger.made:
            _out_of_git(self.path)
            first = {"gate": FORMAT, "settings": _plain(ledger.settings)}
            text += ledger.line(first, ledger.state)
        if placed is not None:
            after = ledger.state.placed(ledger.settings, placed)
            _add_cases(self.path.with_suffix(".cases"), after, cases)
            text += ledger.line(placed, after)
        state = ledger.state
        look = {
            "look": state.look + 1,
            "new": names[0],
            "old": names[1],
            "by_hand": names[1] is not None and names[1] != state.incumbent,
            "previous": ledger.previous,
            "share": str(state.share),
            "level": str(level),
        }
        ledger.write(text + json.dumps(look).encode()[:-1])
        return look

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
        yes = settings.words[0]
        kept = [
            entry["new"]
            for entry in ledger.entries(f'"answer": "{yes}"'.encode())
            if entry["state"]["set"] == state.set and entry["look"] not in voided
        ]
        return {
            "ledger": str(self.path),
            "question": settings.question,
            "confidence": float(1 - settings.delta),
            "model_to_beat": None if settings.question == _AT_LEAST else state.incumbent,
            "kept": kept,
            "answers": state.asked,
            "answers_left": _left(settings, state),
            "cases": state.cases,
            "needs": needs(settings, state),
            "text": _next(settings, state, None),
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
        with _locked(self.path):
            ledger = self._opened()
            if ledger.pending is not None:
                ledger.answer(ledger.pending, False)
                ledger = self._opened()
            voided = ledger.voided()
            if not 1 <= look <= ledger.state.look or look in voided:
                raise invalid("void", look, f"a look of 1 to {ledger.state.look} that is not void")
            incumbent = beaten(ledger, {*voided, look}, ledger.state.look)
            state = replace(ledger.state, incumbent=incumbent)
            ledger.write(ledger.line({"void": look, "reason": reason}, state))
            return incumbent

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
        ledger = self._opened()
        settings, previous, heads = ledger.settings, "", []
        state: State | None = None
        voided: set[int] = set()
        for number, entry in enumerate(ledger.entries(), 1):
            try:
                if state is None:
                    expected = State(entry["state"]["incumbent"], settings.delta)
                elif "look" in entry:
                    expected = _followed(settings, state, entry)
                elif "void" in entry:
                    _expect(0 < entry["void"] <= state.look and entry["void"] not in voided, "void")
                    voided.add(entry["void"])
                    expected = replace(state, incumbent=beaten(ledger, voided, state.look))
                else:
                    expected = state.placed(settings, entry)
                _expect(entry["previous"] == previous, "chain")
                _expect(entry["state"] == _plain(expected), "state")
            except (KeyError, TypeError, ValueError) as error:
                said = f"line {number} does not follow from those before ({error})"
                raise BrokenLedger(f"{self.path}: {said}") from None
            state, previous = expected, entry["digest"]
            heads.append(previous)
        if head is not None and not (len(head) >= 8 and any(h.startswith(head) for h in heads)):
            raise BrokenLedger(f"{self.path}: no line {head[:12]}: it was cut, or put back")
        return ledger.state.look


def _followed(settings: Settings, state: State, entry: Mapping[str, Any]) -> State:
    """Return where a look leaves a ledger, once what it says was computed again."""
    level = state.level(settings)
    _expect(Fraction(entry["share"]) == state.share, "share")
    _expect(Fraction(entry["level"]) == level and level > 0, "level")
    _expect(entry["look"] == state.look + 1, "look")
    _expect(entry["answer"] in settings.words, "answer")
    _expect(entry["by_hand"] == (entry["old"] not in (None, state.incumbent)), "by_hand")
    return state.after(settings, entry, entry["answer"] == settings.words[0])


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def gate(old: Source, new: Source, *, confidence: float | str = 0.9, scores: bool = False) -> bool:
    """Decide once whether to keep NEW. One look at these cases, ever; for a second, use `Gate`.

    Raises:
        InvalidInput: the results cannot be compared.
    """
    asked = Gate(os.devnull, looks=1, confidence=confidence, scores=scores)
    settings = Settings(**asked._given)
    older = read_results(old, settings, "old")
    newer = asked._new(new, settings, older)
    return decide(settings, settings.delta, older, newer)


# --- what decides ---------------------------------------------------------------------------------


def decide(settings: Settings, level: Fraction, old: Results | None, new: Results) -> bool:
    """Compare the results: the only lines that do."""
    if old is None:
        right = sum(new.cases.values())
        bar = least_wins(len(new.cases), level, settings.margin)
        return bar is not None and (len(new.cases) - right if settings.lower else right) >= bar
    if settings.scores:
        low, high = settings.range
        exact = max(abs(low), abs(high)) > 4 * (high - low)  # where floats would cancel
        margin, sizes, found = _bets(settings, old, new, Fraction if exact else float)
        floats = list(map(float, found)) if exact else found
        fractions = lambda: _bets(settings, old, new, Fraction)[2]  # noqa: E731
        return bets_pay(floats, fractions, level, margin, sizes)
    wrong = int(settings.lower)  # what a case that is missing counts as
    up = down = 0
    for case, before in old.cases.items():
        change = new.cases.get(case, wrong) - before
        up += change > 0
        down += change < 0
    bar = _bar(settings, len(old.cases), up + down, level)
    return bar is not None and (down if settings.lower else up) >= bar


def _bar(settings: Settings, cases: int, disputed: int, level: Fraction) -> int | None:
    if settings.question == _NOT_WORSE:
        return bar_not_worse(cases, disputed, settings.margin, level)
    if settings.question == _BETTER_BY:
        return bar_better_by(cases, disputed, settings.margin, level)
    return least_wins(disputed, level)


def _bets(
    settings: Settings, old: Results, new: Results, kind: Any
) -> tuple[Fraction, tuple[Fraction, ...], list[Any]]:
    """Return margin, bets and differences, as floats or as the fractions they stand for.

    Of clusters, each is one factor: the sum over its cases, by the size of the largest one.
    """
    value: Any = float if kind is float else lambda score: Fraction(repr(score))
    low, high = map(float, settings.range)
    scale = kind(settings.range[1] - settings.range[0]) * (-1 if settings.lower else 1)
    worst = high if settings.lower else low

    def mean(runs: Any) -> Any:
        return sum(map(value, runs)) / len(runs) if type(runs) is tuple else value(runs)

    found = [
        (mean(new.cases.get(case, worst)) - mean(before)) / scale
        for case, before in old.cases.items()
    ]
    margin = settings.margin * (-1 if settings.question == _NOT_WORSE else 1)
    if not settings.cluster:
        return margin, bet_sizes(len(found), margin), found
    groups: dict[str, list[Any]] = {}
    for case, each in zip(old.cases, found, strict=True):
        groups.setdefault(old.clusters[case], []).append(each - kind(margin))
    largest = max(map(len, groups.values()))
    sizes = tuple(size / (1 + abs(margin)) for size in bet_sizes(len(groups)))
    return Fraction(0), sizes, [sum(values) / largest for values in groups.values()]


def possible(
    settings: Settings, cases: int, level: Fraction, clusters: Mapping[str, str] | None = None
) -> bool:
    """Return whether so many cases could be told "keep" or "ok" at this level."""
    if level <= 0 or cases < 1:
        return False
    if settings.scores:  # if all cases were won by 1; with 1,000 of them a level has 250 zeros
        groups = dict(clusters or {str(case): str(case) for case in range(min(cases, 1000))})
        low, high = (
            Results(dict.fromkeys(groups, float(end)), groups, settings) for end in settings.range
        )
        return decide(settings, level, *((high, low) if settings.lower else (low, high)))
    if settings.question == _AT_LEAST:
        return least_wins(cases, level, settings.margin) is not None
    return any(_bar(settings, cases, disputed, level) is not None for disputed in (cases, 0))


def _first(holds: Any, low: int, high: int) -> int:
    """Return the first whole number from which on something holds."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _check_possible(settings: Settings, state: State, clusters: Mapping[str, str]) -> Fraction:
    """Return the level of the next look; refuse one that could not say yes to any results.

    Raises:
        InvalidInput: at the first look of a test set: it has too few cases.
        Spent: later.
    """
    level = state.level(settings)
    n, again = state.cases, f"A fresh set of {state.cases:,} cases starts again (its own share)."
    if len(state.rung) == len(ALARM_SHARES):
        raise Spent(f"closed: the third alarm. What was told ok stays promised. {again}")
    if level == 0:
        looks = settings.looks or 0
        raise Spent(f"spent: {looks:,} of {looks:,} answers. {again}")
    if possible(settings, n, level, clusters):
        return level
    if not state.asked:
        least = _first(lambda cases: possible(settings, cases, level), n, 10**6)
        run = f" in {settings.looks:,} answers" if settings.looks else ""
        raise InvalidInput(f"{n:,} cases cannot show anything{run}: at least {least:,} are needed")
    luck = ""
    if n < 64 and settings.question == _BETTER and not settings.scores:
        luck = f" ({n} of {n} is luck once in {2**n:,}, the level is once in {1 / level})"
    raise Spent(f"spent: with {n:,} cases no number of wins would do{luck}. {again}")


# --- words: functions of settings, names and answers ----------------------------------------------


def needs(settings: Settings, state: State) -> tuple[tuple[int, int], ...]:
    """Return examples of what the next keep needs, at fixed numbers of disputed cases."""
    level = state.level(settings)
    if settings.scores or settings.question == _NOT_WORSE or not level:
        return ()
    if settings.question == _AT_LEAST:
        bar = least_wins(state.cases, level, settings.margin)
        return () if bar is None else ((bar, state.cases),)

    def bar_of(disputed: int) -> int | None:
        return _bar(settings, state.cases, disputed, level)

    least = _first(lambda disputed: bar_of(disputed) is not None, 1, state.cases + 1)
    shown = [k for k in (least, *_SHOWN) if least <= k <= state.cases]
    bars = ((bar_of(k), k) for k in dict.fromkeys(shown))
    return tuple((bar, k) for bar, k in bars if bar is not None)[:3]


def _gain(settings: Settings, state: State) -> str:
    """Return the least gain of all cases that would pay, as a sentence has it."""
    level = state.level(settings)
    if not settings.scores or settings.cluster or settings.question == _NOT_WORSE or not level:
        return ""
    away = float(settings.margin)
    sizes = [float(size) for size in bet_sizes(state.cases, settings.margin)]

    def pays(thousandths: int) -> bool:
        gain = thousandths / 1000 - away
        logs = [state.cases * math.log1p(size * gain) for size in sizes]
        top = max(logs)
        grown = top + math.log(sum(math.exp(log - top) for log in logs) / len(logs))
        return grown > -math.log(level) + 1e-6

    least = _first(pays, int(1000 * away), 1000)
    width = float(settings.range[1] - settings.range[0])
    return f"an equal gain of {least / 1000 * width:g} on every case"


def _left(settings: Settings, state: State) -> int | None:
    return None if settings.looks is None else settings.looks - state.asked


def _next(settings: Settings, state: State, before: Any) -> str:
    """Say what is left, and what the next look needs; `before`: what this one needed."""
    left = _left(settings, state)
    ends = "No limit of" if left is None else f"{left:,} of {settings.looks:,}"
    ends += " answers." if left is None else " answers left."
    if settings.question == _NOT_WORSE:
        alarms = len(ALARM_SHARES) - len(state.rung)
        return f"{ends} Alarms left: {alarms}." if alarms else "The third alarm: closed."
    bars, gain = needs(settings, state), _gain(settings, state)
    if left == 0:
        return ends
    if not bars and not gain:
        return ends if settings.scores else f"{ends} No number of wins would do by now."
    if bars and bars == before:
        return f"{ends} The bar is as before."
    if settings.question == _AT_LEAST:
        return f"{ends} The next keep needs {bars[0][0]:,} of {bars[0][1]:,} cases right."
    shown = [f"{wins} of {cases}" for wins, cases in bars]
    if shown:
        shown[0] = f"{bars[0][0]} wins of {bars[0][1]} disputed cases"
    listed = " or ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:]))) or gain
    return f"{ends} The next keep needs, for example, {listed}."


def _note(ledger: Ledger, made: bool, placed: Mapping[str, Any] | None) -> str:
    """Say what a look changed besides: a new ledger, a fresh test set, cases that joined."""
    settings, cases, first = ledger.settings, ledger.state.cases, ledger.first.incumbent
    if made:
        looks = "no limit of" if settings.looks is None else f"{settings.looks:,}"
        said = f"New ledger {ledger.path}: {_sure(settings)}, {looks} answers."
        if settings.question != _AT_LEAST:
            said += f" Candidates are compared with {first}; nothing is promised about {first}."
        honour = "Whoever can read results or edit these files can cheat: this is an honour system."
        return f"{said} {honour}"
    if placed is None:
        return ""
    if placed["joined"]:
        return f"{cases:,} cases now: promised if no result has chosen which ones joined."
    return f"Test set {ledger.state.set}: {cases:,} fresh cases, with a share of their own."


def _sure(settings: Settings) -> str:
    return f"{float(100 * (1 - settings.delta)):g} % sure"


def _answer(
    ledger: Ledger, look: Mapping[str, Any], before: Any, *, repeated: bool = False
) -> Answer:
    """Return an answer with its words."""
    settings, state = ledger.settings, ledger.state
    new, old, told = look["new"], look["old"], look["answer"]
    all_keeps = f"{_sure(settings)} of this and of every other {told} of this test set"
    by = f"{float(100 * settings.margin):g} "
    if repeated:
        said = f"as at look {look['look']}: {new} was asked before. No answer was used."
    elif told == "discard":
        than = f"better than {old}" if old else f"right on more than {by}% of cases"
        said = f"{new} is not shown to be {than}. That does not say it is worse."
    elif told == "alarm":
        said = f"{new} is not shown to be as good as {old}; nothing is promised about it."
    else:
        claim = {
            _BETTER: f"is better than {old}",
            _BETTER_BY: f"is better than {old} by more than {by}points",
            _NOT_WORSE: f"is not worse than {old} by more than {by}points",
            _AT_LEAST: f"is right on more than {by}% of cases",
        }[settings.question]
        said = f"{new} {claim}. {all_keeps}, before and after."
    if look["by_hand"] and told == "keep":
        said += f" {old} was named by you: this does not continue the chain."
    after = _next(settings, state, None if told == "keep" else before)
    head = ledger.previous[:12]
    alarms = len(ALARM_SHARES) - len(state.rung) if settings.question == _NOT_WORSE else None
    left, bars, which = _left(settings, state), needs(settings, state), look["look"]
    text, hand = (said, after, f"Head {head}."), look["by_hand"]
    return Answer(told, new, old, which, hand, repeated, left, alarms, bars, head, text)


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
