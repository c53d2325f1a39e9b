"""Where integrations are found by name: those of this package, and those that others install.

A package adds its own with entry points, in one of the groups below. Its module is imported only
when its name is asked for: other people's tools are heavy, and most commands need none of them.

| group | called as | by `meter` |
| --- | --- | --- |
| `easeml_meter.readers` | `read(path, spec) -> Reading` | `submit --from NAME` |
| `easeml_meter.sources` | `rows(path, wanted) -> (table, left out)` | `seal --from NAME` |
| `easeml_meter.reporters` | `reporter(where) -> report(signal, view)` | `submit --report NAME` |
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.source import excerpt


class Group(StrEnum):
    """A kind of integration; its value is the group of entry points."""

    READERS = "easeml_meter.readers"
    SOURCES = "easeml_meter.sources"
    REPORTERS = "easeml_meter.reporters"

    @property
    def word(self) -> str:
        """What one of this kind is called in a sentence."""
        return self.value.rpartition(".")[2].removesuffix("s")


BUILT_IN: dict[Group, dict[str, str]] = {
    Group.READERS: {
        "inspect": "inspect:read",
        "lm-eval": "lm_eval:read",
        "promptfoo": "promptfoo:read",
        "scores": "scores:read",
    },
    Group.SOURCES: {
        "argilla": "argilla:rows",
        "doccano": "doccano:rows",
        "kaggle": "kaggle:rows",
        "label-studio": "label_studio:rows",
        "prodigy": "prodigy:rows",
    },
    Group.REPORTERS: {
        "github": "summaries:github",
        "markdown": "summaries:markdown",
        "mlflow": "mlflow:reporter",
        "wandb": "wandb:reporter",
    },
}
"""Name -> "module:function" below `easeml_meter.integrations`."""


def names(group: Group) -> tuple[str, ...]:
    """Return the names that can be asked for, in alphabetical order."""
    return tuple(sorted({*BUILT_IN[group], *(each.name for each in _foreign(group))}))


def find(group: Group, name: str) -> Callable[..., Any]:
    """Return the function of an integration; one of this package comes before all others.

    Raises:
        InvalidInput: nothing has this name, two packages have it, or its module cannot be imported.
    """
    if place := BUILT_IN[group].get(name):
        module, _, function = place.partition(":")
        found: Callable[..., Any] = getattr(
            import_module(f"easeml_meter.integrations.{module}"), function
        )
        return found
    matching = [each for each in _foreign(group) if each.name == name]
    if not matching:
        known = names(group)
        near = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {near[0]!r}? Known: " if near else "known: "
        listed = ", ".join(known) or "none is installed"
        raise InvalidInput(f"{group.word}: {excerpt(name)} given, {meant}{listed}")
    if len({each.value for each in matching}) > 1:
        packages = " and ".join(sorted({each.value.partition(":")[0] for each in matching}))
        raise InvalidInput(f"{group.word}: {packages} both call themselves {name}: uninstall one")
    entry = matching[0]
    try:
        found = entry.load()
    except Exception as error:  # a stranger's module may raise anything while it is imported
        reason = excerpt(f"{type(error).__name__}: {error}", 120)
        raise InvalidInput(
            f"{group.word}: {entry.name} ({entry.value}) cannot be imported: {reason}"
        ) from None
    if not callable(found):
        raise InvalidInput(f"{group.word}: {entry.name} ({entry.value}) is no function")
    return found


def _foreign(group: Group) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group.value))
