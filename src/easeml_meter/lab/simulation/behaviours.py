"""How developers behave, session by session, at a desk."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from easeml_meter.lab.simulation.arena import UNREAD
from easeml_meter.lab.simulation.players import QUANTILES, Player, told
from easeml_meter.lab.simulation.worlds import Flags, Floats, Integers, Models
from easeml_meter.promise.meter import Meter

Play = Callable[[Player], None]
Weigh = Callable[[Player, Floats], Integers]
"""How much a model counts in the combination, given what was learnt about its test loss."""

_CRASH_BELOW = -0.43
"""A third of all test losses lie that many standard deviations below the true loss, or more."""
_CRASH_MEAN = -1.09
"""Where they lie on average."""


def independent(player: Player) -> None:
    """Fresh models, each with the loss that is hardest to measure; answers are ignored."""
    while (ready := player.desk.open).any():
        player.cells.fresh(np.full(player.desk.sessions, player.world.target))
        player.hand_in(player.cells.last(), ready)


def climber(player: Player) -> None:
    """Change a part of the best model; keep it if validation says better and the meter not worse.

    Validation losses are honest: measured on a set of its own, which is used again and again.
    """
    desk, rng = player.desk, player.rng
    share = player.world.share if player.world.share < 1 else 0.1
    best = player.cells
    seen = type(best)(player.world, player.labels, desk.sessions, rng)
    best.fresh()
    seen.fresh()
    measured = seen.last().units
    told_first = desk.submit(seen.last().test, best.last(), desk.open)
    score = np.where(told_first > 0, told_first, desk.meter.question.rungs)
    while (ready := desk.open).any():
        skill = np.minimum(rng.uniform(0, 2 * player.world.loss, desk.sessions), 1.0)
        trial, view = best.copy(), seen.copy()
        trial.fresh(skill, share)
        view.fresh(skill, share)
        candidate = view.last()
        answers = desk.submit(candidate.test, trial.last(), ready)
        better = ready & (candidate.units < measured) & (answers > 0) & (answers <= score)
        best.keep(better, trial)
        seen.keep(better, view)
        measured = np.where(better, candidate.units, measured)
        score = np.where(better, answers, score)


def voter(weigh: Weigh, window: Callable[[Meter], int | None] = lambda _: None) -> Play:
    """Ask about fresh models, weigh them by the answers, and at the end submit the combination.

    With a window, the combination follows after so many questions, and all is forgotten.
    """

    def play(player: Player) -> None:
        for last, asking in player.rounds(window(player.desk.meter)):
            if last.any():
                player.finish(last)
            if asking.any():
                answers, questions = player.ask(asking)
                player.cells.vote(weigh(player, told(questions, answers)))

    return play


def evidence(player: Player, learnt: Floats) -> Integers:
    """Weigh models by how far off their test loss seems to be."""
    unit = 0.4 if player.desk.promised <= 40 else 0.8
    return np.rint(learnt / unit).astype(np.int64)


def opposite(_: Player, learnt: Floats) -> Integers:
    """Keep what looked good; of what looked bad, take the opposite."""
    return np.sign(learnt).astype(np.int64)


def kept(player: Player, learnt: Floats) -> Integers:
    """Keep what looked good, drop the rest (Blum and Hardt 2015, the boosting attack)."""
    signs = np.sign(learnt).astype(np.int64)
    return np.where(signs == (1 if player.world.upward else -1), signs, 0)


def resubmitter(player: Player) -> None:
    """Ask twice about each model: once as it is, then against a validation set moved by the answer.

    The same submission again is answered for free, with the same answer.
    """
    desk = player.desk
    for last, asking in player.rounds():
        if last.any():
            player.finish(last)
        if not asking.any():
            continue
        answers, questions = player.ask(asking)
        same = desk.resubmit()
        learnt = told(questions, same)
        pairs = zip(questions, same.tolist(), strict=True)
        left = [question.kept.get(answer, ()) for question, answer in pairs]
        again = asking & desk.sure & np.array([len(each) > 1 for each in left])
        if again.any():
            closer = player.questions(player.world.loss, player.deviation, left)
            answers, closer = player.ask_about(closer, again)
            learnt = np.where(again, told(closer, answers), learnt)
        player.cells.vote(evidence(player, learnt))


def crasher(player: Player) -> None:
    """Let the measurement fail on purpose, where it can: whether it did is an answer as well."""
    for last, asking in player.rounds():
        if last.any():
            player.finish(last)
        if asking.any():
            player.cells.fresh()
            player.asked += 1
            models = player.cells.last()
            crashes = models.test < models.true + _CRASH_BELOW * player.deviation
            crashes &= player.desk.meter.sample.may_fail
            others = tuple(z for z in QUANTILES if z >= _CRASH_BELOW)
            left = others if player.desk.meter.sample.may_fail else QUANTILES
            questions = player.questions(
                player.world.loss, player.deviation, [left] * player.desk.sessions
            )
            answers, questions = player.ask_about(questions, asking, crashes)
            learnt = np.where(answers == UNREAD, _CRASH_MEAN, told(questions, answers))
            player.cells.vote(evidence(player, learnt))


class Blocks:
    """The examples of each session's test set, settled block by block.

    Developers who upload predictions know which rows are in a block, so its size is known, and
    the answer tells only of their luck there. A model asked about errs on a random half of its
    block. Elsewhere it never errs (or always: predict a class that does not exist); or, where
    losses have grades and no ceiling stands in the way, it has a loss of one half on every example
    ("silent").
    """

    def __init__(self, player: Player, blocks: int) -> None:
        self.player, self.blocks, self.done = player, blocks, 0
        world, question = player.world, player.desk.meter.question
        self.silent = world.grades > 1 and question.limit is None
        rows = player.labels if self.silent else round(2 * world.target * player.labels)
        self.rows = self.left = min(rows, player.labels)
        self.taken = np.zeros(player.desk.sessions, dtype=np.int64)

    def ask(self, which: Flags) -> None:
        """Ask about the next block, and take the half that seems to occur too often."""
        player, grades, labels = self.player, self.player.world.grades, self.player.labels
        size = self.left // (self.blocks - self.done)
        half = player.rng.binomial(size, 0.5, player.desk.sessions)
        elsewhere = grades // 2 * (labels - size) if self.silent else 0
        loss = (size / 2 + elsewhere / grades) / labels
        deviation = math.sqrt(size) / 2 / labels
        questions = player.questions(loss, deviation)
        validation = np.array([question.validation for question in questions])
        models = self._models(grades * half + elsewhere, loss)
        answers = player.desk.submit(validation, models, which)
        questions = player.understood(questions, answers, loss, deviation)
        often = (told(questions, answers) > 0) == player.world.upward
        self.taken += np.where(often, half, size - half)
        self.left -= size
        self.done += 1

    def combined(self) -> Models:
        """Return the models that take the chosen half of each block."""
        player, grades = self.player, self.player.world.grades
        taken = self.taken
        if not self.silent:
            taken = taken + player.rng.binomial(self.left, 0.5, player.desk.sessions)
        elsewhere = grades // 2 * self.left if self.silent else 0
        return self._models(grades * taken + elsewhere, self.rows / 2 / player.labels)

    def _models(self, units: Integers, true: float) -> Models:
        player = self.player
        return Models(units, np.full(player.desk.sessions, true), player.cells.scale)


def by_blocks(player: Player) -> None:
    """Cut the examples into blocks and settle one with each question."""
    most = max(2, player.desk.promised - 1)
    state = Blocks(player, most)
    for last, asking in player.rounds(most):
        if state.done == most and not last.any():
            state = Blocks(player, most)
        if last.any():
            player.hand_in(state.combined(), last)
        if asking.any():
            state.ask(asking)
            player.asked += 1
