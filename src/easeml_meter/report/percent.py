"""Sentences of a promise as pages say them: an error in percent, and answers instead of steps.

Commands and JSON have the same sentences with fractions, for programs. Their figures are rounded
outwards already; what is rounded here to fewer digits is rounded further outwards.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from easeml_meter.promise.numbers.rounding import percent_at_least, percent_at_most
from easeml_meter.report.words import is_error
from easeml_meter.spec import MeterSpec

_FRACTION = r"-?(?:0\.\d+|[01]|\d(?:\.\d+)?e-\d+)(?![\w%]|\.\d)"
_SURE = re.compile(r"With probability at least (0\.\d+)")
_BETWEEN = re.compile(rf"between ({_FRACTION}) and ({_FRACTION})")
# One percent of an error is something else than one percentage point.
_DISTANCE = re.compile(rf"(within|by (?:more|less) than) ({_FRACTION})(?: to ({_FRACTION}))?")
_UP = re.compile(rf'(at most |below |less than |another |floor(?:",| \()[ ]?)({_FRACTION})')
_DOWN = re.compile(rf'(at least |above |more than |ceiling(?:",| \()[ ]?)({_FRACTION})')


def in_percent(sentence: str, spec: MeterSpec) -> str:
    """Say a sentence about a promise of this meter to people.

    Only an error is a share. Of other losses the sentence keeps the figures. Commands, which stand
    in `backticks`, stay as they are typed.
    """
    parts = enumerate(sentence.split("`"))
    return "`".join(part if n % 2 else _in_percent(part, spec) for n, part in parts)


def _in_percent(sentence: str, spec: MeterSpec) -> str:
    def certain(found: re.Match[str]) -> str:
        return f"With {(100 * Decimal(found[1])).normalize():f} % certainty"

    said = _SURE.sub(certain, sentence)
    said = re.sub(r"\bsteps\b", "answers", said).replace("its one step", "its one answer")
    if not is_error(spec):
        return said
    said = _BETWEEN.sub(lambda found: f"between {_least(found[1])} and {_most(found[2])} %", said)
    said = _DISTANCE.sub(_points, said)
    said = _UP.sub(lambda found: f"{found[1]}{_most(found[2])} %", said)
    said = _DOWN.sub(lambda found: f"{found[1]}{_least(found[2])} %", said)
    return re.sub(r"\bloss(es)?\b", lambda found: "errors" if found[1] else "error", said)


def _points(found: re.Match[str]) -> str:
    rounded = _least if found[1] == "by more than" else _most
    amounts = [rounded(each) for each in found.groups()[1:] if each is not None]
    unit = "percentage point" if amounts == ["1"] else "percentage points"
    return f"{found[1]} {' to '.join(amounts)} {unit}"


def _most(figure: str) -> str:
    return percent_at_most(Fraction(figure))


def _least(figure: str) -> str:
    return percent_at_least(Fraction(figure))
