"""Fields of a meter: declared once, with their help and limits, and read from there by everybody.

`meter.toml`, options, forms and the reference are printed from `settings_of`. A number is `Exact`:
a fraction that was written as a decimal, so that 0.3 means three tenths on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from easeml_meter.errors import InvalidInput, invalid

Exact = Fraction
NO_END = "no end"
_DECIMAL = re.compile(r"[+-]?(\d{0,13})(?:\.(\d{0,40}))?(?:[eE]([+-]?\d{1,3}))?")
_MOST_DIGITS = 12


class Exacts(tuple[Fraction, ...]):
    """One number, or several: a list of one may be written as a number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """What people read about a field, and what it must be."""

    help: str
    above: Fraction | int | None = None
    below: Fraction | int | None = None
    least: Fraction | int | None = None
    most: Fraction | int | None = None

    def problem(self, value: Fraction | int) -> str | None:
        """Say which limit a number breaks."""
        if self.above is not None and not value > self.above:
            return f"above {self.above}"
        if self.least is not None and value < self.least:
            return f"at least {self.least}"
        if self.below is not None and not value < self.below:
            return f"below {self.below}"
        return f"at most {self.most}" if self.most is not None and value > self.most else None


@dataclass(frozen=True, slots=True)
class Field:
    """A field as it was declared."""

    name: str
    type: Any
    setting: Setting
    default: Any


Part = TypeVar("Part", bound="Settings")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every part of a meter: frozen values that were checked when they were made."""

    def __post_init__(self) -> None:
        checked(self)


@lru_cache
def settings_of(cls: type[Settings]) -> Mapping[str, Field]:
    """Return the fields of a part of a meter, in the order in which they are written."""
    hints = get_type_hints(cls, include_extras=True)
    found = {}
    for field in msgspec.structs.fields(cls):
        plain, *notes = get_args(hints[field.name])
        setting = next(note for note in notes if isinstance(note, Setting))
        found[field.name] = Field(field.name, plain, setting, field.default)
    return found


def checked(part: Settings) -> None:
    """Take every number as it is written, and apply the limits of each field.

    Raises:
        InvalidInput: a limit is broken.
    """
    for name, field in settings_of(type(part)).items():
        value = getattr(part, name)
        settled = _settled(name, field.type, value)
        if settled is not value:
            msgspec.structs.force_setattr(part, name, settled)
        numbers = settled if isinstance(settled, tuple) else (settled,)
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int | Fraction):
                continue
            problem = field.setting.problem(number)
            if problem is not None:
                raise invalid(name, shown(number), f"{problem} needed")


def _settled(name: str, kind: Any, value: Any) -> Any:
    """Return a value from Python as the file would have it: floats as decimals, lists as tuples."""
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if Exacts in kinds and value is not None and not isinstance(value, Exacts):
        given = value if isinstance(value, list | tuple) else (value,)
        return Exacts(exact(each, name) for each in given)
    if Exact in kinds and isinstance(value, int | float | str) and not isinstance(value, bool):
        return exact(value, name)
    if isinstance(value, list):
        return tuple(value)
    if tuple[Exact, ...] in kinds and isinstance(value, tuple):
        return tuple(exact(each, name) for each in value)
    return value


def exact(value: object, name: str = "number") -> Fraction:
    """Return a number as its decimal says it.

    The text is checked before it becomes a fraction: "1e-9999999" would take seconds.

    Raises:
        InvalidInput: it is no decimal, or one that is too long.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise invalid(name, value, "a number")
    text = repr(value) if isinstance(value, int | float) else value.strip()
    found = _DECIMAL.fullmatch(text)
    if found is None or not (found[1] or found[2]):
        raise invalid(name, text[:40], "a number, such as 0.05")
    digits = len(found[2] or "") - int(found[3] or 0)
    if digits > _MOST_DIGITS and repr(float(text)) != text:  # what a float is written as is short
        raise invalid(name, text[:40], f"at most {_MOST_DIGITS} digits after the point")
    number = Fraction(text)
    if abs(number) >= 10**13:
        raise invalid(name, text[:40], "a number below 10^13")
    return number


def shown(value: object) -> object:
    """Return a fraction as the decimal that it is, or the nearest one."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value


def decode(cls: type[Part], data: Mapping[str, Any], where: str) -> Part:
    """Read a part of a meter from a table of a file.

    Raises:
        InvalidInput: with the path of what is wrong.
    """
    try:
        return msgspec.convert(data, cls, dec_hook=_hook, strict=True)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        path = path.rstrip("`").lstrip(".")
        raise InvalidInput(f"{where}{'.' + path if path else ''}: {what}") from None


def _hook(kind: type, value: Any) -> Any:
    if kind is Fraction:
        return _number(value)
    if kind is Exacts:
        return Exacts(map(_number, value if isinstance(value, list) else [value]))
    raise ValueError(f"no {kind.__name__} can be read")


def _number(value: Any) -> Fraction:
    try:
        return exact(value)
    except InvalidInput as error:
        raise ValueError(str(error)) from None


def encode(part: Settings) -> dict[str, Any]:
    """Return what of a part of a meter is written into a file: all that is no default."""
    written = {}
    for name, field in settings_of(type(part)).items():
        value = getattr(part, name)
        if value != field.default or field.default is msgspec.NODEFAULT:
            if isinstance(value, tuple):
                plain = [shown(each) for each in value]
                written[name] = plain[0] if isinstance(value, Exacts) and len(plain) == 1 else plain
            elif value is not None:
                written[name] = shown(value)
    return written
