"""The planner, which is open to everybody, and losses that a server would import."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from redteam import attack
from redteam.target import Client, hold, refused, small_spec

BANDS_20 = [number / 20 for number in range(1, 20)]
WORST_20 = {"question": {"edges": BANDS_20, "worst": True, "ceiling": 0.5}}
HEAVY: dict[str, dict[str, Any]] = {
    "a million steps, 20 bands, a ceiling": WORST_20 | {"budget": {"steps": 10**6}},
    "10,000 steps, 50 bands, memory": {
        "question": {"edges": [number / 50 for number in range(1, 50)], "worst": True},
        "budget": {"steps": 10_000, "memory": 9_000},
    },
    "a small delta": {"meter": {"delta": 1e-300}, "budget": {"steps": 10**6}},
    "steps without end": {"budget": {"steps": 10**18}},
    "500 teams of one size": WORST_20 | {"budget": {"teams": [1_500] * 500}},
    "many teams, each of another size": {
        "question": {"worst": True, "ceiling": 0.5},
        "budget": {"teams": list(range(500, 900))},
    },
}


def settings(**tables: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a small meter, with those of some tables laid over them unchecked."""
    found = small_spec().to_mapping()
    budget = tables.pop("budget", found["budget"])
    return {name: found[name] | tables.get(name, {}) for name in found} | {"budget": budget}


@attack(who="outsider", finding="planning costs everybody much", attempts=[30], seconds=20)
def heavy_plans(client: Client) -> None:
    hold(client.post("/plans", json={"settings": settings()}).status_code == 200, "no plan at all")
    for name, heavy in HEAVY.items():
        before = client.target.measure()
        started = time.monotonic()
        client.post("/plans", json={"settings": settings(**heavy)})
        cost, waited = client.target.measure().since(before), time.monotonic() - started
        told = f"{name}: {cost.seconds:.1f} s and {waited:.1f} s, {cost.megabytes:.0f} MB"
        # A child of a child plans: what it costs shows by the clock.
        hold(cost.seconds < 1 and waited < 5 and cost.megabytes < 300, told)


@attack(who="outsider", finding="a judge without bounds ends in an assertion")
def extreme_judges(client: Client) -> None:
    for error, pool, steps in ((0.05, 10**12, 10**6), (0.999, 10**6, 10), (1e-15, 10**18, 9)):
        asked = {"judge_error": error, "pool": pool, "tolerance": 0.01, "steps": steps}
        answer = client.post("/plans", json={"question": asked})
        hold(answer.status_code in (200, 422), f"{asked}: {answer.status_code}")


@attack(who="outsider", finding="a setting that no program can compute with", attempts=[30])
def tolerances_near_zero(client: Client) -> None:
    for tolerance in (1e-300, 5e-324, -0.0, 1e300):
        given = settings(question={"tolerance": tolerance})
        refused(client.post("/plans", json={"settings": given}), 422)


@attack(who="outsider", finding="the planner's page costs much", attempts=[31], seconds=10)
def heavy_forms(client: Client) -> None:
    page = f"{client.target.address}/planner/answer"
    form = {"steps": "10", "signals": "3", "tolerance": "0.1", "confidence": "0.9"}
    form["protocol"] = "regular"
    for wrong in (
        *({"steps": "1" + "0" * number} for number in (4, 9, 400)),
        *({"tolerance": each} for each in ("1e-300", "nan", "inf", "-1", "0", "1e400")),
        *({"confidence": each} for each in ("0.9999999999999999", "1", "2", "x" * 10_000)),
        *({"signals": each} for each in ("20", "10000", "-5", "1e3")),
        {"steps": "10000", "signals": "20", "protocol": "incremental", "tolerance": "0.001"},
        {"steps": "10000", "ceiling": "0.5", "tenants": "100", "handover": "on"},
    ):
        answer = client.get(page, params=form | wrong)
        hold(answer.status_code < 500, f"{wrong}: {answer.status_code}")


FUNCTIONS = ("cProfile:run", "os:system", "builtins:exec", "subprocess:run")


@attack(who="outsider", finding="planning imports what a loss names", attempts=[32])
def a_module_as_loss_of_a_plan(client: Client) -> None:
    for loss in FUNCTIONS:
        client.post("/plans", json={"settings": settings(sample={"loss": loss})})
    maps = "".join(Path(f"/proc/{each}/maps").read_text() for each in client.target.processes)
    hold("_lsprof" not in maps, "cProfile was imported")


@attack(who="admin", finding="an admin runs code in the server", attempts=[35])
def a_function_as_loss(client: Client) -> None:
    for loss in FUNCTIONS:
        refused(
            client.post("/meters", json={"name": "m", "settings": settings(sample={"loss": loss})})
        )
    made = client.post("/meters", json={"name": "m", "settings": settings(sample={"loss": "0-1"})})
    hold(made.status_code == 201, "no meter can be made at all")
