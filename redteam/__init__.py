"""Attacks on a running server and on a meter in a folder, with what each of them cost the server.

`make redteam` starts a server, runs all attacks and prints a table: held or broken. The attempts
of the security review are all here: each number leads to attacks, or to tests (`attempts.py`).

To add one, write a function in a module of `redteam/attacks` and decorate it:

    @attack(who="developer", finding="the holes of a sparse file are written out")
    def sparse_tar(client: Client) -> None:
        answer = client.target.ground.submit(client, sparse_member(2 << 30))
        hold(answer.status_code == 422, f"status {answer.status_code}")
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from redteam.target import Broken, Client, Cost, Target

WORST_SECONDS = 5.0
WORST_MEGABYTES = 200.0


@dataclass(frozen=True)
class Attack:
    """What an intruder tries."""

    name: str
    run: Callable[[Client], str | None]
    """Gives a figure to be printed, if it has one."""
    who: str
    """The intruder: somebody in `Target.people`, "outsider" (no token) or "owner" (of a folder)."""
    finding: str
    """What would be wrong if it worked."""
    attempts: tuple[int, ...]
    """Numbers of the review's attempts that it repeats."""
    seconds: float
    """The most processor time that it may cost the server."""
    megabytes: float
    """The most memory that it may cost the server."""
    small: bool
    """Whether it is quick enough for `make test`."""


@dataclass(frozen=True)
class Verdict:
    """How an attack went."""

    attack: Attack
    cost: Cost
    wrong: str
    """What the intruder achieved; empty: nothing."""
    figure: str = ""

    @property
    def held(self) -> bool:
        return not self.wrong


_ATTACKS: list[Attack] = []
_Run = TypeVar("_Run", bound=Callable[[Client], str | None])


def attack(
    *,
    who: str,
    finding: str,
    attempts: Iterable[int] = (),
    seconds: float = WORST_SECONDS,
    megabytes: float = WORST_MEGABYTES,
    small: bool = True,
) -> Callable[[_Run], _Run]:
    """Add a function to the suite; it raises `Broken`, by `hold`, where it gets its way."""

    def add(run: _Run) -> _Run:
        name = run.__name__.replace("_", " ")
        _ATTACKS.append(Attack(name, run, who, finding, tuple(attempts), seconds, megabytes, small))
        return run

    return add


def all_attacks() -> list[Attack]:
    """Return the attacks of all modules."""
    package = import_module("redteam.attacks")
    for module in iter_modules(package.__path__, "redteam.attacks."):
        import_module(module.name)
    return list(_ATTACKS)


def judge(attack: Attack, target: Target, *, timed: bool = True) -> Verdict:
    """Run an attack, and see what it achieved and cost; unless `timed`, seconds do not count."""
    before, figure = target.measure(), ""
    try:
        with target.client(attack.who) as client:
            figure = attack.run(client) or ""
        wrong = ""
    except Broken as error:
        wrong = str(error)
    except Exception as error:
        # An attack that does not work any more shows nothing, so it must not pass for held.
        place = traceback.extract_tb(error.__traceback__)[-1]
        wrong = f"the attack failed: {error!r:.300} ({place.name}, line {place.lineno})"
    cost = target.measure().since(before)
    wrong = wrong or target.trouble()
    if not wrong and timed and cost.seconds > attack.seconds:
        wrong = f"cost {cost.seconds:.1f} s, at most {attack.seconds:g}"
    if not wrong and cost.megabytes > attack.megabytes:
        wrong = f"cost {cost.megabytes:.0f} MB, at most {attack.megabytes:g}"
    return Verdict(attack, cost, wrong, figure)


def table(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """Yield the lines of a plain table, and how many held."""
    layout = "{:<58} {:<10} {:>10} {:>8} {:>8}  {}"
    yield layout.format("attack", "who", "KB sent", "CPU s", "MB", "")
    count = held = 0
    for verdict in verdicts:
        count, held = count + 1, held + verdict.held
        held_with = f"held: {verdict.figure}" if verdict.figure else "held"
        broken = f"BROKEN: {verdict.attack.finding}: {verdict.wrong}"
        result = held_with if verdict.held else broken
        sent = f"{verdict.cost.sent / 1024:.1f}"
        seconds, memory = (
            (f"{verdict.cost.seconds:.2f}", f"{verdict.cost.megabytes:.0f}")
            if verdict.cost.known
            else ("-", "-")
        )
        yield layout.format(verdict.attack.name, verdict.attack.who, sent, seconds, memory, result)
    yield f"{count} attacks: {held} held, {count - held} broken"
