"""Stories that a plan can start from, in the words of `meter plan`; both planners offer them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

PRESETS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        # A team looks once a week, for a year; it wants to know how far it has come at worst.
        "weekly": {
            "steps": 52,
            "tolerance": "0.05",
            "delta": 0.05,
            "protocol": "incremental",
        },
        # A job lets models through, or does not: one edge.
        "gate": {"steps": 20, "edges": "0.1", "tolerance": "0.05", "delta": 0.05},
        # A coding agent climbs a score that it sees, a hundred times.
        "agent": {
            "steps": 100,
            "edges": "0.05,0.1,0.2",
            "tolerance": "0.05",
            "delta": 0.05,
            "protocol": "incremental",
        },
        # A hundred teams that do not talk to each other, ten submissions each.
        "competition": {
            "tenants": ",".join(["10"] * 100),
            "steps": 1000,
            "edges": "0.05,0.1",
            "tolerance": "0.05",
            "delta": 0.05,
        },
        # A language model on a few hundred questions: a wide tolerance, and few answers.
        "small-eval": {
            "steps": 10,
            "edges": "0.2",
            "tolerance": "0.1",
            "delta": 0.1,
            "protocol": "incremental",
            "loss": "score[0-1]",
        },
    }
)

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "weekly": "A look every week, for a year",
        "gate": "A gate for models in CI",
        "agent": "A coding agent, 100 times",
        "competition": "A competition of 100 teams",
        "small-eval": "A language model, a few hundred questions",
    }
)
"""What people call them."""

HAVE = {"want": "steps", "labels": 5000, "tolerance": "0.03", "delta": 0.05}
HAVE |= {"protocol": "incremental"}
"""The story of who asks the other way round: what the labels that there are can do."""
HAVE_TITLE = "I have 5,000 labels"


def told() -> dict[str, dict[str, Any]]:
    """Return the stories that a planner's page can tell by their titles: losses of 0 or 1."""
    found = {TITLES[name]: preset for name, preset in PRESETS.items() if "loss" not in preset}
    return found | {HAVE_TITLE: HAVE}
