"""A meter for overfitting: plan, seal and use up a hidden test set without fooling yourself.

>>> from easeml_meter import MeterSpec, required_labels
>>> required_labels(MeterSpec.uniform(tolerance=0.01, steps=10, delta=0.01)).labels
48986
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from easeml_meter.version import __version__ as __version__

if TYPE_CHECKING:
    from easeml_meter.client import RemoteMeter as RemoteMeter
    from easeml_meter.client import Untold as Untold
    from easeml_meter.client import connect as connect
    from easeml_meter.client.gate import Gate as Gate
    from easeml_meter.client.gate import gate as gate
    from easeml_meter.core.people import Role as Role
    from easeml_meter.core.questions.asking import plan_question as plan_question
    from easeml_meter.core.questions.comparison import Forms as Forms
    from easeml_meter.core.questions.comparison import compare_forms as compare_forms
    from easeml_meter.core.questions.planning import Plan as Plan
    from easeml_meter.core.questions.planning import reachable_tolerance as reachable_tolerance
    from easeml_meter.core.questions.planning import required_labels as required_labels
    from easeml_meter.core.questions.planning import supported_steps as supported_steps
    from easeml_meter.core.views import SessionView as SessionView
    from easeml_meter.core.views import Signal as Signal
    from easeml_meter.errors import Denied as Denied
    from easeml_meter.errors import InvalidInput as InvalidInput
    from easeml_meter.errors import MeterError as MeterError
    from easeml_meter.errors import NotFound as NotFound
    from easeml_meter.errors import Spent as Spent
    from easeml_meter.errors import StorageError as StorageError
    from easeml_meter.errors import TooLarge as TooLarge
    from easeml_meter.errors import TooMany as TooMany
    from easeml_meter.errors import TooSoon as TooSoon
    from easeml_meter.errors import Unauthenticated as Unauthenticated
    from easeml_meter.errors import Unreachable as Unreachable
    from easeml_meter.errors import VaultError as VaultError
    from easeml_meter.errors import Waiting as Waiting
    from easeml_meter.errors import WrongPhase as WrongPhase
    from easeml_meter.meter import Meter as Meter
    from easeml_meter.scoring.ids import RowMatching as RowMatching
    from easeml_meter.service.submissions.kinds import Command as Command
    from easeml_meter.service.submissions.kinds import Function as Function
    from easeml_meter.service.submissions.kinds import OnnxFile as OnnxFile
    from easeml_meter.service.submissions.kinds import PredictionFiles as PredictionFiles
    from easeml_meter.service.submissions.measuring import Conditions as Conditions
    from easeml_meter.spec import Band as Band
    from easeml_meter.spec import MeterSpec as MeterSpec

# Where public names live. Resolved on first use, so that `meter --help` imports no numpy.
_HOMES = {
    "client": ("RemoteMeter", "Untold", "connect"),
    "client.gate": ("Gate", "gate"),
    "core.people": ("Role",),
    "core.questions.asking": ("plan_question",),
    "core.questions.comparison": ("Forms", "compare_forms"),
    "core.questions.planning": (
        *("Plan", "reachable_tolerance", "required_labels", "supported_steps"),
    ),
    "core.views": ("SessionView", "Signal"),
    "errors": (
        *("Denied", "InvalidInput", "MeterError", "NotFound", "Spent", "StorageError", "TooLarge"),
        *("TooMany", "TooSoon", "Unauthenticated", "Unreachable", "VaultError", "Waiting"),
        "WrongPhase",
    ),
    "meter": ("Meter",),
    "scoring.ids": ("RowMatching",),
    "service.submissions.kinds": ("Command", "Function", "OnnxFile", "PredictionFiles"),
    "service.submissions.measuring": ("Conditions",),
    "spec": ("Band", "MeterSpec"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __dir__() -> list[str]:
    """Name what is public, also what was not imported yet."""
    return [*_HOME, "__version__"]


def __getattr__(name: str) -> object:
    if name == "__all__":  # computed: type checkers go by the imports above
        return list(_HOME)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _HOME[name] != "client.gate":  # which needs the standard library alone
        import_module("easeml_meter.report.looks")  # so that plans and answers show themselves
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
