"""What tests of the gate share: results of two systems, and an independent reading of a ledger."""

from __future__ import annotations

import json
from fractions import Fraction
from math import comb
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from easeml_meter.cli import meter
from easeml_meter.client.answers import Answer
from easeml_meter.client.gate import Gate

Results = dict[str, Any]


def pair(cases: int, wins: int, losses: int = 0) -> tuple[Results, Results]:
    """Results of two systems of which the new one wins and loses so many cases."""
    old = {f"case-{n}": int(not n < wins) for n in range(cases)}
    new = {f"case-{n}": int(not wins <= n < wins + losses) for n in range(cases)}
    return old, new


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def read(path: Path) -> list[tuple[str, Fraction, Fraction]]:
    """Read a ledger with fractions alone: each look's answer, share and level, as they must be."""
    first, *rest = lines(path)
    settings = first["settings"]
    delta, looks = Fraction(settings["delta"]), settings["looks"]
    usual = settings["question"] == "not-worse"
    share, asked, since, rung, beat = delta, 0, 0, list[int](), first["state"]["incumbent"]
    found, keeps, void = list[tuple[str, Fraction, Fraction]](), list[tuple[int, str]](), set[int]()
    for line in rest:
        if "look" in line:
            if usual:
                level = delta * [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)][len(rung)]
                for before, at in zip([0, *rung], rung, strict=False):
                    u = at - before
                    level *= 1 if looks else Fraction(10, (9 + u) * (10 + u))
                level /= comb(looks - 1, len(rung)) if looks else 1
            else:
                level = share / (looks - asked if looks else 11 + since)
            found.append((line["answer"], share, level))
            assert (Fraction(line["share"]), Fraction(line["level"])) == (share, level)
            asked += 1
            yes = line["answer"] in ("keep", "ok")
            if usual:
                rung += [] if yes else [asked]
            else:
                share, since = (level, 0) if yes else (share - level, since + 1)
            if yes and line["old"] == beat and not usual:
                beat = line["new"]
                keeps.append((line["look"], beat))
        elif "void" in line:
            void.add(line["void"])
            left = [new for look, new in keeps if look not in void]
            beat = left[-1] if left else first["state"]["incumbent"]
        elif not line["joined"]:
            share, asked, since, rung = delta, 0, 0, []
        state = line["state"]
        assert (Fraction(state["share"]), state["asked"], state["rung"]) == (share, asked, rung)
        assert state["incumbent"] == beat
    assert Gate(path).audit() == len(found)
    return found


def tail(k: int, w: int, share: Fraction = Fraction(1, 2)) -> Fraction:
    """P(Bin(k, share) >= w), by the book."""
    right, wrong = share.numerator, share.denominator - share.numerator
    ways = sum(comb(k, j) * right**j * wrong ** (k - j) for j in range(w, k + 1))
    return Fraction(ways, share.denominator**k)


def sure(delta: str | Fraction) -> Fraction:
    return 1 - Fraction(delta)


class Command:
    """`meter gate`, called as the class is."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.path = path
        self.settings = [
            f"--{name.replace('_', '-')}" + ("" if value is True else f"={_text(value)}")
            for name, value in settings.items()
            if value not in (None, False)
        ]

    def run(self, *arguments: str) -> dict[str, Any]:
        called = ("gate", "--ledger", str(self.path), *arguments, "--new", "--json")
        done = CliRunner().invoke(meter, called, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        told: dict[str, Any] = json.loads(done.stdout)
        assert done.return_value in (None, told.get("exit_code"))
        return told

    def ask(self, *results: Results) -> Answer:
        files = [self.path.with_name(f"results-{number}.json") for number, _ in enumerate(results)]
        for file, content in zip(files, results, strict=True):
            file.write_text(json.dumps(content))
        try:
            told = self.run(*map(str, files), *self.settings)
        finally:
            for file in files:
                file.unlink()
        assert told.pop("exit_code") == (0 if told["answer"] in ("keep", "ok") else 6)
        return Answer(**told)

    def void(self, look: int, reason: str) -> str:
        return str(self.run("--void", str(look), "--reason", reason)["model_to_beat"])


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
