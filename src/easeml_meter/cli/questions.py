"""The options of `meter plan` for questions other than the gap: each question has its own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from easeml_meter.core.questions import asking
from easeml_meter.errors import invalid

if TYPE_CHECKING:
    from easeml_meter.core.questions.planning import Plan
    from easeml_meter.core.questions.question import Option
    from easeml_meter.spec import MeterSpec

Command = TypeVar("Command", bound=Callable[..., Any])


def question_options(command: Command) -> Command:
    """Add the options that ask for something else than the gap."""
    for option in reversed(asking.options()):
        command = _click_option(option)(command)
    return command


def _click_option(option: Option) -> Callable[[Command], Command]:
    name = f"--{option.name.replace('_', '-')}"
    if option.kind is bool:
        return click.option(name, is_flag=True, help=option.about)
    kind = str if option.kind is list else option.kind
    return click.option(name, type=kind, help=option.about)


def planned_question(
    options: dict[str, Any], labels: int | None, *, for_meter: bool
) -> tuple[Plan, str] | None:
    """Plan the question that options ask, and say what was not given; None: they ask the gap."""
    asked = _asked(options)
    if asked is None:
        return None
    for option in asking.options():
        if option.of_meter and option.name in asked and not for_meter:
            raise invalid(option.name, asked[option.name], "only with --toml")
    return asking.answered(**asked, labels=labels)


def meter_asked(options: dict[str, Any], plan: Plan | None = None) -> MeterSpec | None:
    """Return the meter whose question the options ask; None: they ask for the gap."""
    asked = _asked(options)
    if asked is None:
        return None
    return asking.meter_of(plan or asking.plan_question(**asked), asked)


def _asked(options: dict[str, Any]) -> dict[str, Any] | None:
    """Return the options given, with the numbers that they stand for; None: they ask the gap."""
    # Not "in (.., False)": no passes, 0, would be left out with the flags.
    asked = {
        name: value for name, value in options.items() if value is not None and value is not False
    }
    if not asking.asks(asked):
        return None
    for name in ("tolerance", "weights", "edges"):
        if name in asked:
            asked[name] = numbers(name, asked[name])
    if "tolerance" in asked:
        asked["tolerance"] = _one(asked["tolerance"])
    asked["delta"] = delta_of(asked)
    asked.pop("confidence", None)
    return asked


def _one(tolerances: list[float]) -> float:
    """Return the tolerance of a question; bands with one each are for the gap."""
    if len(tolerances) > 1:
        raise invalid("tolerance", tolerances, "one number")
    return tolerances[0]


def numbers(option: str, text: str) -> list[float]:
    """Read one number or a comma list."""
    # Neither a tolerance nor an inner edge nor a weight may be 0, so this is no list.
    if re.fullmatch(r"\s*0,\d+\s*", text):
        raise invalid(
            option, text, f"is that a decimal comma? Write {text.strip().replace(',', '.')}"
        )
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise invalid(option, text, "a number, or numbers with commas between them") from None


def delta_of(given: dict[str, Any]) -> float:
    """Return delta, or what is left of the confidence, or the default."""
    if "confidence" not in given:
        return float(given.get("delta", 0.01))
    confidence = given["confidence"]
    if "delta" in given:
        raise invalid("confidence", confidence, "give delta or confidence, not both")
    # 1 - 0.99 is 0.010000000000000009: keep what the user meant.
    return round(1 - confidence, 15) if math.isfinite(confidence) else float(confidence)
