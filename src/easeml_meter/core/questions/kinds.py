"""Every kind of question, found by looking: each is a module of this package."""

from __future__ import annotations

import inspect
import pkgutil
from functools import cache, lru_cache
from importlib import import_module

from easeml_meter.core import questions
from easeml_meter.core.questions.question import Question
from easeml_meter.errors import invalid
from easeml_meter.spec import MeterSpec


@cache
def kinds() -> tuple[type[Question], ...]:
    """Return every kind of question, sorted by the names of their modules."""
    found: list[type[Question]] = []
    modules = pkgutil.iter_modules(questions.__path__, f"{questions.__name__}.")
    for module in sorted(each.name for each in modules):
        for value in vars(import_module(module)).values():
            mine = isinstance(value, type) and value.__module__ == module
            if mine and issubclass(value, Question) and not inspect.isabstract(value):
                found.append(value)
    return tuple(found)


@lru_cache(maxsize=256)
def question_of(spec: MeterSpec) -> Question:
    """Return the question that a meter asks."""
    if not isinstance(spec, MeterSpec):
        raise invalid("spec", spec, "a MeterSpec, such as MeterSpec.uniform(tolerance=0.1)")
    asked = _asked(spec, usual=False) or _asked(spec, usual=True)
    if len(asked) != 1:
        raise AssertionError(f"{len(asked)} kinds of question say that a meter asks them: {spec}")
    return asked[0]


def _asked(spec: MeterSpec, *, usual: bool) -> list[Question]:
    found = (kind.of_meter(spec) for kind in kinds() if kind.usual is usual)
    return [question for question in found if question is not None]
