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
    from easeml_meter.client import RemoteMeter, Untold, connect
    from easeml_meter.core.gate import Gate
    from easeml_meter.core.people import Role
    from easeml_meter.core.questions.asking import plan_question
    from easeml_meter.core.questions.comparison import Forms, compare_forms
    from easeml_meter.core.questions.planning import (
        Plan,
        reachable_tolerance,
        required_labels,
        supported_steps,
    )
    from easeml_meter.core.views import SessionView, Signal
    from easeml_meter.errors import (
        Denied,
        InvalidInput,
        MeterError,
        NotFound,
        Spent,
        StorageError,
        TooLarge,
        TooMany,
        TooSoon,
        Unauthenticated,
        Unreachable,
        VaultError,
        Waiting,
        WrongPhase,
    )
    from easeml_meter.meter import Meter
    from easeml_meter.scoring.ids import RowMatching
    from easeml_meter.service.submissions.kinds import Command, Function, OnnxFile, PredictionFiles
    from easeml_meter.service.submissions.measuring import Conditions
    from easeml_meter.spec import Band, MeterSpec

# Where each public name lives. Resolved on first use, so that `meter --help` imports no numpy.
_HOME = {
    "Band": "easeml_meter.spec",
    "Command": "easeml_meter.service.submissions.kinds",
    "Conditions": "easeml_meter.service.submissions.measuring",
    "Denied": "easeml_meter.errors",
    "Forms": "easeml_meter.core.questions.comparison",
    "Function": "easeml_meter.service.submissions.kinds",
    "Gate": "easeml_meter.core.gate",
    "InvalidInput": "easeml_meter.errors",
    "Meter": "easeml_meter.meter",
    "MeterError": "easeml_meter.errors",
    "MeterSpec": "easeml_meter.spec",
    "NotFound": "easeml_meter.errors",
    "OnnxFile": "easeml_meter.service.submissions.kinds",
    "Plan": "easeml_meter.core.questions.planning",
    "PredictionFiles": "easeml_meter.service.submissions.kinds",
    "RemoteMeter": "easeml_meter.client",
    "Role": "easeml_meter.core.people",
    "RowMatching": "easeml_meter.scoring.ids",
    "SessionView": "easeml_meter.core.views",
    "Signal": "easeml_meter.core.views",
    "Spent": "easeml_meter.errors",
    "StorageError": "easeml_meter.errors",
    "TooLarge": "easeml_meter.errors",
    "TooMany": "easeml_meter.errors",
    "TooSoon": "easeml_meter.errors",
    "Unauthenticated": "easeml_meter.errors",
    "Unreachable": "easeml_meter.errors",
    "Untold": "easeml_meter.client",
    "VaultError": "easeml_meter.errors",
    "Waiting": "easeml_meter.errors",
    "WrongPhase": "easeml_meter.errors",
    "compare_forms": "easeml_meter.core.questions.comparison",
    "connect": "easeml_meter.client",
    "plan_question": "easeml_meter.core.questions.asking",
    "reachable_tolerance": "easeml_meter.core.questions.planning",
    "required_labels": "easeml_meter.core.questions.planning",
    "supported_steps": "easeml_meter.core.questions.planning",
}

__all__ = [
    "Band",
    "Command",
    "Conditions",
    "Denied",
    "Forms",
    "Function",
    "Gate",
    "InvalidInput",
    "Meter",
    "MeterError",
    "MeterSpec",
    "NotFound",
    "OnnxFile",
    "Plan",
    "PredictionFiles",
    "RemoteMeter",
    "Role",
    "RowMatching",
    "SessionView",
    "Signal",
    "Spent",
    "StorageError",
    "TooLarge",
    "TooMany",
    "TooSoon",
    "Unauthenticated",
    "Unreachable",
    "Untold",
    "VaultError",
    "Waiting",
    "WrongPhase",
    "compare_forms",
    "connect",
    "plan_question",
    "reachable_tolerance",
    "required_labels",
    "supported_steps",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("easeml_meter.report.looks")  # so that plans and answers show themselves
    return getattr(import_module(_HOME[name]), name)
