"""Stories that a plan can start from: `meter plan --preset NAME`; what is typed counts more."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import click

from easeml_meter.errors import invalid

PRESETS = MappingProxyType(
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


def preset_option(command: Any) -> Any:
    """Add --preset, whose settings are the defaults of all other options."""

    def lay_under(context: click.Context, _: click.Parameter, name: str | None) -> None:
        if name is not None:
            context.default_map = {**(context.default_map or {}), **PRESETS[name]}
            context.meta["preset"] = name

    return click.option(
        "--preset",
        type=click.Choice(list(PRESETS)),
        is_eager=True,
        expose_value=False,
        callback=lay_under,
        help="Start from a story; options that you give count more.",
    )(command)


def check_alone(path: object) -> None:
    """Refuse a preset beside a meter.toml, which is a story of its own."""
    name = click.get_current_context().meta.get("preset")
    if name is not None and path is not None:
        raise invalid("preset", name, "without --spec: the file has all of it")
