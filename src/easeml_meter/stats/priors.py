"""Kraft weights of histories: the elastic budget (pay for what was told).

Fix, before a label is seen, weights w(h) >= 0 of all histories h of answers with sum <= 1. If a
submission after h is accepted only while tail(n, eps) <= delta * w(h), the promise fails with
probability at most the sum of tail(n, eps_h) over the histories that accept, so at most delta. A
history that the weights predict well is cheap, and the session goes on.

Three weights are mixed (shares `a`, fixed in the specification):

    w(h) = a_0 [t <= T] tail(n, eps_h)/Z  +  a_1 KT(h)/(t(t+1))  +  a_2 S(h)/(t(t+1)),   t = |h| + 1

The first is uniform over the T-step tree, weighted by tails: Z is the left side of the planner's
inequality, so T steps are promised as soon as Z <= a_0 delta. KT is Krichevsky and Trofimov's
sequential estimate, S a sparse code that expects the usual symbol and pays for each exception.
KT(h) and S(h) each sum to at most 1 over the histories of one length, and 1/(t(t+1)) sums to 1.

Answers are coded as *symbols*: one that is expected (symbol 0) and others, as many as the rule of
the meter makes possible at that point, each with a number of equally likely values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from easeml_meter.stats.counting import log_sum


@dataclass(frozen=True, slots=True)
class Code:
    """The two adaptive weights of a history, updated symbol by symbol."""

    length: int = 0
    seen: Mapping[int, int] = field(default_factory=dict)
    log_kt: float = 0.0
    exceptions: int = 0
    log_values: float = 0.0
    """Cost of naming which exception came, summed over the exceptions."""

    def after(self, symbol: int, choices: Mapping[int, int]) -> Code:
        """Append a symbol; `choices` maps every symbol possible here to its number of values."""
        weight = {each: self.seen.get(each, 0) + 0.5 for each in choices}
        kt = math.log(weight[symbol] / math.fsum(weight.values())) - math.log(choices[symbol])
        exception = symbol != 0
        others = sum(values for each, values in choices.items() if each != 0)
        return Code(
            length=self.length + 1,
            seen={**self.seen, symbol: self.seen.get(symbol, 0) + 1},
            log_kt=self.log_kt + kt,
            exceptions=self.exceptions + exception,
            log_values=self.log_values - (math.log(others) if exception else 0.0),
        )

    @property
    def log_sparse(self) -> float:
        """Uniform in the number of exceptions, then in their positions, then in their values."""
        return (
            -math.log(self.length + 1)
            - _log_binomial(self.length, self.exceptions)
            + self.log_values
        )

    @property
    def log_length(self) -> float:
        """The share of this length, 1 / (t (t+1))."""
        return -math.log((self.length + 1) * (self.length + 2))


def log_weight(
    code: Code, shares: tuple[float, float, float], log_uniform: float, part: float = 1.0
) -> float:
    """Return log w(h), rounded down.

    `log_uniform` is log(tail/Z) while steps are promised, else minus infinity. `part` is the share
    of the two adaptive weights that belongs to this tenant; the uniform one is shared through Z.
    """
    terms = [log_uniform + _log(shares[0])]
    for share, log_code in zip(shares[1:], (code.log_kt, code.log_sparse), strict=True):
        terms.append(_log(share) + _log(part) + log_code + code.log_length)
    weight = log_sum(terms)
    # Each of the sums of `length` terms may lose half a unit in the last place at every step.
    return weight - (1e-12 + 3e-16 * code.length) * (1 + abs(weight)) - 1e-13 * code.length


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
