"""Kraft weights of histories: the elastic budget (pay for what was told).

Fix, before a label is seen, weights w(h) >= 0 of histories h of answers whose sum over the
*consistent* histories is at most 1, wherever the truth lies. If a submission after h is accepted
only while tail(n, eps) <= delta * w(h), the promise fails with probability at most the sum of
tail(n, eps_h) over the consistent histories that accept, so at most delta. A history that the
weights predict well is cheap, and the session goes on.

    w(h) = tail(n, eps_h) / delta                                for t <= T,   t = |h| + 1
    w(h) = (a_1 KT(h) + a_2 S(h)) (T + 1) / (t (t+1))            for t > T

Z, the left side of the planner's inequality, pays for the T promised steps, whatever is answered.
What is left, 1 - Z/delta, is shared by two codes: KT is Krichevsky and Trofimov's sequential
estimate, S a sparse code that expects the usual symbol and pays for each exception. KT(h) and S(h)
each sum to at most 1 over the consistent histories of one length, and (T + 1)/(t(t+1)) sums to 1
over t > T.

Answers are coded as *symbols*: one that is expected (symbol 0) and others, as many as can be
consistent at once, each with a number of equally likely values. Answers that are never consistent
at once may share a symbol.

A test set that counts all histories keeps the weights of version 0.1.0, since they must not change
while it is in use: w(h) = a_0 [t <= T] tail(n, eps_h)/Z + (a_1 KT(h) + a_2 S(h)) / (t(t+1)).
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

    def log_length(self, paid: int = 0) -> float:
        """Return the share of this length of the lengths after `paid` steps: (paid+1) / (t (t+1)).

        For the paid steps themselves it is 1 / (t+1), which only a display asks for.
        """
        t = self.length + 1
        return min(0.0, math.log((paid + 1) / t)) - math.log(t + 1)


def log_weight(
    code: Code,
    shares: tuple[float, float, float],
    log_uniform: float = -math.inf,
    part: float = 1.0,
    paid: int = 0,
) -> float:
    """Return log w(h), rounded down.

    `log_uniform` is the logarithm of what the first share is multiplied by. `part` is the share of
    the two codes that belongs to this tenant, `paid` the steps before which they weigh nothing.
    """
    uniform, kt, sparse = map(_log, shares)
    length = _log(part) + code.log_length(paid)
    terms = (log_uniform + uniform, kt + code.log_kt + length, sparse + code.log_sparse + length)
    weight = log_sum(terms)
    # Each of the sums of `length` terms may lose half a unit in the last place at every step.
    return weight - (1e-12 + 3e-16 * code.length) * (1 + abs(weight)) - 1e-13 * code.length


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
