"""The options of `meter plan` for questions other than the gap: each question has its own."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from easeml_meter.checks import read_confidence, read_share, read_shares, read_whole
from easeml_meter.core.questions import asking
from easeml_meter.errors import invalid
from easeml_meter.promise.schema import NO_END
from easeml_meter.spec import DEFAULT_DELTA, Protocol

if TYPE_CHECKING:
    from easeml_meter.core.questions.planning import Plan
    from easeml_meter.core.questions.question import Option
    from easeml_meter.spec import MeterSpec

Command = TypeVar("Command", bound=Callable[..., Any])


class _Read(click.ParamType):  # type: ignore[type-arg]
    """A number as people write it."""

    def __init__(self, kind: type, read: Callable[[str, str], Any]) -> None:
        self.name, self._read = {int: "integer", float: "number"}[kind], read

    def convert(self, value: Any, param: click.Parameter | None, _: click.Context | None) -> Any:
        """Read what was typed; what a preset says is a number already."""
        field = "" if param is None or param.name is None else param.name
        return self._read(field.replace("_", "-"), value) if isinstance(value, str) else value


WHOLE = _Read(int, read_whole)
_STEPS = _Read(int, lambda name, text: text if text == NO_END else read_whole(name, text))
_KINDS: dict[type, Any] = {
    int: WHOLE,
    float: _Read(float, read_share),
    list: str,
    Protocol: click.Choice([str(name) for name in Protocol]),
}


def meter_options(command: Command) -> Command:
    """Add the options that describe a meter for the gap."""
    return _added(command, asking.OF_METERS)


def question_options(command: Command) -> Command:
    """Add the options that ask for something else than the gap."""
    return _added(command, asking.options())


def _added(command: Command, options: Sequence[Option]) -> Command:
    for option in reversed(options):
        name, kind = f"--{option.name.replace('_', '-')}", option.kind
        typed = {"is_flag": True} if kind is bool else {"type": _KINDS.get(kind, kind)}
        if option.name == "steps":
            typed = {"type": _STEPS}
        command = click.option(name, help=option.about, **typed)(command)
    return command


def retyped(options: Mapping[str, Any], *left_out: str) -> str:
    """Write the options that were typed once more, for another command."""
    typed = []
    for option in (*asking.OF_METERS, *asking.options()):
        value = options.get(option.name)
        if value not in (None, False) and option.name not in left_out:
            name = f"--{option.name.replace('_', '-')}"
            typed.append(name if option.kind is bool else f"{name} {shlex.quote(str(value))}")
    return " ".join(dict.fromkeys(typed))


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
            asked[name] = read_shares(name, asked[name])
    if len(tolerances := asked.get("tolerance", [])) > 1:  # bands with one each are for the gap
        raise invalid("tolerance", tolerances, "one number")
    if tolerances:
        asked["tolerance"] = tolerances[0]
    asked["delta"] = delta_of(asked)
    asked.pop("confidence", None)
    return asked


def delta_of(given: Mapping[str, Any]) -> float:
    """Return delta, or what is left of the confidence, or the default."""
    if "confidence" not in given:
        return float(given.get("delta", DEFAULT_DELTA))
    if "delta" in given:
        raise invalid("confidence", given["confidence"], "give delta or confidence, not both")
    return read_confidence(given["confidence"])
