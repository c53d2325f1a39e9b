"""The ledger of a gate: JSON Lines with names, bits, share and level of every look.

Nothing of any case stands in it; a line has the digest of the one before it. A look is two writes.
What it stakes is on disk before the results are compared, and its answer is on disk before it
leaves: a process that dies between them has used its look, and gets it back by calling again with
the same names. The cases themselves stand in a file beside it, which is nobody's but the owner's.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import tee
from pathlib import Path
from typing import Any

from easeml_meter.client.results import Form
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise.kernel import AT_LEAST, BETTER, NOT_WORSE, Rules, State, fold

FORMAT = 1


class BrokenLedger(InvalidInput):
    """The lines of a ledger do not follow each other."""


@dataclass(frozen=True)
class Settings(Form, Rules):
    """What the first use of a ledger fixes; given again, it has to be equal.

    Attributes:
        reference: The model whose results OLD has, where it is always the same.
        missing: "wrong" if cases that NEW lacks count as wrong.
    """

    reference: str | None = None
    missing: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delta <= Fraction(1, 4):
            raise invalid("confidence", f"{float(1 - self.delta):g}", "75 % to below 100 %")
        if self.looks is not None and not 1 <= self.looks <= 10**6:
            raise invalid("looks", self.looks, "1 to 1,000,000; without it there is no end")
        if self.question != BETTER and not 0 < self.margin < 1:
            raise invalid(self.question, float(self.margin), "a share between 0 and 1, as 2%")
        if self.question == AT_LEAST and self.scores:
            raise invalid("at-least", "--scores", "a bar is for cases that are right or wrong")
        if self.question == AT_LEAST and self.missing:
            raise invalid("missing", self.missing, "with OLD alone, which says what is missing")
        if (self.question == NOT_WORSE) != (self.reference is not None):
            raise invalid("reference", self.reference, "--not-worse and --reference, or neither")
        if self.missing not in (None, "wrong"):
            raise invalid("missing", self.missing, "wrong, or leave it out")


def plain(value: Any) -> Any:
    """Return settings, a state or a part of them as JSON has it."""
    if isinstance(value, Settings | State):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, Fraction) else value


def _settings_of(data: Mapping[str, Any]) -> Settings:
    exact = {name: Fraction(data[name]) for name in ("delta", "margin")}
    return Settings(**{**data, **exact, "range": tuple(map(Fraction, data["range"]))})


def _state_of(data: Mapping[str, Any]) -> State:
    return State(**{**data, "share": Fraction(data["share"]), "rung": tuple(data["rung"])})


def digest(entry: Mapping[str, Any]) -> str:
    """Return the digest of a parsed line, whatever its bytes are."""
    rest = {key: value for key, value in entry.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Ledger:
    """The lines of a ledger as they are now; only the first, the last and those named are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.suffix != ".jsonl":
            raise invalid("ledger", path.name, "a name that ends in .jsonl")
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            text = b""
        except OSError as error:
            raise invalid("ledger", str(path), f"cannot be read: {error.strerror}") from None
        sys.set_int_max_str_digits(0)  # a share grows by a digit with each keep
        end = text.rfind(b"\n") + 1
        self.text, rest = text[:end], text[end:]
        self.made = end > 0
        self.previous = ""
        self.pending: dict[str, Any] | None = None
        self.size = end
        """Where the next write begins: what is left of a write that failed lies behind it."""
        if not self.made:
            return
        begin = self._begin(end - 1)
        first, last = self._entry(0), self._entry(begin)
        if first.get("gate") != FORMAT:
            raise BrokenLedger(f"{path}: line 1: not the settings of a ledger of this version")
        self.settings = _settings_of(first["settings"])
        self.state, self.previous = _state_of(last["state"]), last["digest"]
        if begin and self._entry(self._begin(begin - 1))["digest"] != last["previous"]:
            raise self._broken(begin, "does not follow from those before (chain)")
        at = rest.find(b'"level": "') + 10  # quotes inside of names are escaped
        rest = rest[: rest.find(b'"', at) + 1]
        with suppress(ValueError):  # half of it: nothing was compared
            begun = json.loads(rest + b"}")
            if begun.get("previous") == self.previous and "level" in begun:
                self.pending, self.size = begun, end + len(rest)

    def _begin(self, at: int) -> int:
        """Return where the line begins that a place is in."""
        return self.text.rfind(b"\n", 0, at) + 1

    def _broken(self, begin: int, what: str) -> BrokenLedger:
        number = self.text.count(b"\n", 0, begin) + 1
        return BrokenLedger(f"{self.path}: line {number} {what}")

    def _entry(self, begin: int) -> dict[str, Any]:
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            found: dict[str, Any] = json.loads(self.text[begin : self.text.index(b"\n", begin)])
            if found["digest"] == digest(found):
                return found
        raise self._broken(begin, "was changed, or is no line of a ledger")

    def entries(self, needle: bytes = b"") -> Iterator[dict[str, Any]]:
        """Yield the lines that have some bytes in them."""
        at = self.text.find(needle)
        while 0 <= at < len(self.text):
            yield self._entry(self._begin(at))
            at = self.text.find(needle, self.text.index(b"\n", at) + 1)

    def voided(self) -> set[int]:
        """Return the looks that are void."""
        return {entry["void"] for entry in self.entries(b'{"void": ')}

    def audit(self, head: str | None = None) -> State:
        """Follow the chain, compute every share and level again; return where it all ends.

        Raises:
            BrokenLedger: a line does not follow, or no line has this head.
        """
        number, previous, known = 0, "", head is None
        entries, lines = tee(self.entries())
        states = fold(self.settings, lines)
        for number, entry in enumerate(entries, 1):
            try:
                follows = entry["previous"] == previous, entry["state"] == plain(next(states))
                if not all(follows):
                    raise ValueError("chain" if follows[1] else "state")
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                said = f"line {number} does not follow from those before ({error})"
                raise BrokenLedger(f"{self.path}: {said}") from None
            previous = entry["digest"]
            known = known or (len(head or "") >= 8 and previous.startswith(head or ""))
        if not known:
            raise BrokenLedger(f"{self.path}: no line {head!s:.12}: it was cut, or put back")
        return self.state

    def line(self, entry: Mapping[str, Any], state: State) -> bytes:
        """Return the next line, and go on from it."""
        whole = {**entry, "previous": self.previous, "state": plain(state)}
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

    def intend(
        self,
        cases: Iterable[str],
        placed: Mapping[str, Any] | None,
        names: tuple[str, str | None],
    ) -> dict[str, Any]:
        """Write what a look stakes, the first of its two writes, before anything is compared."""
        text = b""
        if not self.made:
            _out_of_git(self.path)
            text += self.line({"gate": FORMAT, "settings": plain(self.settings)}, self.state)
        if placed is not None:
            after = self.state.placed(self.settings, placed)
            _add_cases(self.path.with_suffix(".cases"), after, cases)
            text += self.line(placed, after)
        state, (new, old) = self.state, names
        look = {"look": state.look + 1, "new": new, "old": old}
        look |= {"by_hand": old not in (None, state.incumbent), "previous": self.previous}
        look |= {"share": str(state.share), "level": str(state.level(self.settings))}
        self.write(text + json.dumps(look).encode()[:-1])
        return look

    def answer(self, look: Mapping[str, Any], yes: bool) -> str:
        """Write the answer to a look, the second of its two writes."""
        answer = self.settings.words[0 if yes else 1]
        state = self.state.after(self.settings, look, yes)
        whole = {**look, "answer": answer, "state": plain(state)}
        self.previous, self.state, self.pending = digest(whole), state, None
        end = {"answer": answer, "state": whole["state"], "digest": self.previous}
        self.write(b", " + json.dumps(end).encode()[1:] + b"\n")
        return answer

    def known_cases(self) -> dict[int, set[str]]:
        """Return the cases of each test set: they stand beside the ledger, which has their digests.

        Raises:
            InvalidInput: the file is not there, or not whole.
        """
        found: dict[int, set[str]] = {}
        path, state = self.path.with_suffix(".cases"), self.state
        for line in path.read_text("utf-8").split("\n") if path.exists() else ():
            with suppress(
                ValueError
            ):  # a line that was torn, whose digest the ledger does not have
                part = json.loads(line)
                if f'"ids": "{part["ids"]}"'.encode() in self.text:
                    found.setdefault(part["set"], set()).update(part["cases"])
        if len(found) != state.set or len(found.get(state.set, ())) != state.cases:
            alone = f"the {state.cases:,} known cases alone can be taken"
            raise InvalidInput(f"{path} is not here, or not whole: without it, {alone}")
        return found

    def check_budgets(self, cases: Set[str], ids: str) -> None:
        """Refuse cases on which another ledger of this folder spends the other kind of budget.

        Raises:
            InvalidInput: one does.
        """
        for path in self.path.absolute().parent.glob("*.jsonl"):
            with path.open("rb") as file:
                if path.name == self.path.name or not file.read(9).startswith(b'{"gate": '):
                    continue
            other = Ledger(path)
            if not other.made or other.settings.words == self.settings.words:
                continue
            # On a branch there are no ids, but the same cases have the same digest.
            beside = path.with_suffix(".cases").exists()
            known = other.known_cases().values() if beside else ()
            if f'"ids": "{ids}"'.encode() in other.text or any(cases & each for each in known):
                said = f"{other.path} asks these cases another way: each needs cases of its own"
                raise invalid("ledger", str(self.path), said)


@contextmanager
def locked(path: Path) -> Iterator[None]:
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


def digest_of_cases(cases: Iterable[str]) -> str:
    """Return one digest of all ids: under a key, nobody can try ids against it."""
    text = json.dumps(sorted(cases)).encode()
    key = os.environ.get("METER_KEY", "").encode()
    return (hmac.new(key, text, "sha256") if key else hashlib.sha256(text)).hexdigest()[:32]


def _add_cases(path: Path, state: State, cases: Iterable[str]) -> None:
    """Write cases before the ledger has their digest; until then the line does not count."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        line = json.dumps({"set": state.set, "ids": state.ids, "cases": sorted(cases)})
        file.write(f"\n{line}".encode())  # after a line that was torn, too
        file.flush()
        os.fsync(file.fileno())


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
