"""Stories that a plan can start from, in the words of `meter plan`; both planners offer them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

PRESETS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        # Five bands, ten answers, each test loss within 0.01 of the true loss, 99 % sure.
        "paper": {"steps": 10, "signals": 5, "tolerance": "0.01", "delta": 0.01},
        # A team looks once a week, for a year. None of these is incremental: one bad model, which
        # everybody tries early, would leave nothing to say about all that follow.
        "weekly": {"steps": 52, "tolerance": "0.05", "delta": 0.05},
        # A job lets models through, or does not: one edge.
        "gate": {"steps": 20, "edges": "0.1", "tolerance": "0.05", "delta": 0.05},
        # A coding agent climbs a hundred times; what it keeps is truly better, ten times at most.
        "agent": {
            "steps": 100,
            "ask": "better",
            "tolerance": "0.05",
            "disagreement": 0.2,
            "passes": 10,
            "delta": 0.05,
        },
        # A hundred teams that do not talk to each other, ten submissions each.
        "competition": {
            "tenants": ",".join(["10"] * 100),
            "steps": 1000,
            "tolerance": "0.05",
            "delta": 0.05,
        },
        # A language model on a few hundred questions: a wide tolerance, and few answers.
        "small-eval": {
            "steps": 10,
            "tolerance": "0.1",
            "delta": 0.1,
            "loss": "score[0-1]",
        },
    }
)

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "paper": "The paper's own meter",
        "weekly": "A look every week, for a year",
        "gate": "A gate for models in CI",
        "agent": "A coding agent, 100 times",
        "competition": "A competition of 100 teams",
        "small-eval": "A language model, a few hundred questions",
    }
)
"""What people call them."""


def told() -> dict[str, dict[str, Any]]:
    """Return the stories of a planner's page by their titles: gaps of losses of 0 or 1."""
    bands = {name: each for name, each in PRESETS.items() if not {"loss", "ask"} & {*each}}
    return {TITLES[name]: preset for name, preset in bands.items()}
