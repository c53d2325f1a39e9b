"""Renewals: which rows the next test set has, and so how many trees of histories share delta."""

from __future__ import annotations

from typing import Annotated

from easeml_meter.promise.schema import Setting, Settings


class Fresh(Settings, frozen=True, kw_only=True):
    """A new test set when one is spent: each has a delta of its own."""


class EveryStep(Settings, frozen=True, kw_only=True):
    """A new test set for every step: the paper's resampling, a baseline and no meter."""

    every_step: Annotated[bool, Setting("a new test set for every step (a baseline)")] = True


class Window(Settings, frozen=True, kw_only=True):
    """A rolling test set: the last batches, of which the oldest leaves when one arrives."""

    window: Annotated[int, Setting("batches in use at a time", least=1, most=10_000)]
    answers: Annotated[int, Setting("answers for each batch", least=1, most=10_000)] = 1


class TopUp(Settings, frozen=True, kw_only=True):
    """Fresh labels join a spent test set once, and it answers again."""

    then: Annotated[int, Setting("answers after fresh labels have joined", least=1, most=10**9)]


Renewal = Fresh | EveryStep | Window | TopUp
