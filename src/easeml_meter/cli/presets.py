"""Stories that a plan can start from: `meter plan --preset NAME`; what is typed counts more."""

from __future__ import annotations

from typing import Any

import click

from easeml_meter.errors import invalid
from easeml_meter.report.presets import PRESETS


def preset_option(command: Any) -> Any:
    """Add --preset, whose settings are the defaults of all other options."""

    def lay_under(context: click.Context, _: click.Parameter, name: str | None) -> None:
        if name is not None:
            context.default_map = {**(context.default_map or {}), **PRESETS[name]}
            context.meta["preset"] = name

    return click.option(
        "--preset",
        type=click.Choice(list(PRESETS)),
        is_eager=True,  # before the options whose defaults it sets
        expose_value=False,
        callback=lay_under,
        help="Start from a story; options that you give count more.",
    )(command)


def check_alone(path: object) -> None:
    """Refuse a preset beside a meter.toml, which is a story of its own."""
    name = click.get_current_context().meta.get("preset")
    if name is not None and path is not None:
        raise invalid("preset", name, "without --spec: the file has all of it")
