"""Two development histories, run for real with scikit-learn.

The paper's two traces are not published as numbers. These stand in for them: eight steps each, by
a developer who sees the validation set and wants its score to rise.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easeml_meter.lab.traces import Trace, TracedStep, planned, with_tolerance

Array = NDArray[Any]
SEED = 1


class _Desk:
    """What a developer works with, and a record of what was submitted."""

    def __init__(self, inputs: Array, classes: Array, sizes: tuple[int, int, int]) -> None:
        train, validation, test = np.cumsum(sizes)
        self.train = inputs[:train], classes[:train]
        self.validation = inputs[train:validation], classes[train:validation]
        self._test = inputs[validation:test], classes[validation:test]
        self._fresh = inputs[test:], classes[test:]
        self.steps: list[TracedStep] = []

    def fit(self, model: Any, *more: tuple[Array, Array]) -> Any:
        parts = [self.train, *more]
        model.fit(np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]))
        return model

    def score(self, model: Any) -> float:
        """Return the accuracy on the validation set, which is all that the developer sees."""
        return float(model.score(*self.validation))

    def best(self, models: list[Any]) -> Any:
        """Fit all and keep the one with the best validation score: how validation sets wear out."""
        return max((self.fit(model) for model in models), key=self.score)

    def mistakes(self, model: Any) -> tuple[Array, Array]:
        inputs, classes = self.validation
        wrong = model.predict(inputs) != classes
        return inputs[wrong], classes[wrong]

    def submit(self, change: str, model: Any) -> None:
        self.steps.append(
            TracedStep(
                change=change,
                validation_loss=_loss(model, self.validation),
                test_loss=_loss(model, self._test),
                true_loss=_loss(model, self._fresh) if len(self._fresh[1]) else None,
            )
        )


def _loss(model: Any, data: tuple[Array, Array]) -> float:
    inputs, classes = data
    return float(np.mean(model.predict(inputs) != classes))


@cache
def digits() -> Trace:
    """Handwritten digits, 60 of them for validation, and a developer who is fond of trees."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    inputs, classes = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(classes))
    labels = len(classes) - 180
    desk = _Desk(inputs[order] / 16, classes[order], (120, 60, labels))

    desk.submit("a tree", desk.fit(DecisionTreeClassifier(random_state=SEED)))
    settings = [
        DecisionTreeClassifier(
            max_depth=depth, min_samples_leaf=leaf, criterion=criterion, random_state=SEED
        )
        for depth in (4, 6, 8, 10, None)
        for leaf in (1, 2, 3, 5)
        for criterion in ("gini", "entropy")
    ]
    desk.submit("tune it", desk.best(settings))
    seeds = [DecisionTreeClassifier(max_features=8, random_state=seed) for seed in range(300)]
    lucky = desk.best(seeds)
    desk.submit("best of 300", lucky)

    def again() -> DecisionTreeClassifier:
        return DecisionTreeClassifier(max_features=8, random_state=lucky.random_state)

    mistakes = desk.mistakes(lucky)
    fixed = desk.fit(again(), mistakes)
    desk.submit("train on mistakes", fixed)
    more = desk.mistakes(fixed)
    desk.submit("and on new ones", desk.fit(again(), mistakes, more))
    desk.submit("on all validation", desk.fit(again(), desk.validation))
    forest = RandomForestClassifier(100, random_state=SEED)
    desk.submit("a forest", desk.fit(forest, desk.validation))
    desk.submit("support vectors", desk.fit(SVC(C=10, gamma=0.05), desk.validation))

    return Trace(
        title="Digits (real data)",
        story="scikit-learn's handwritten digits: 120 images to train on, 60 to validate on, "
        f"{labels:,} hidden. The tolerance is the smallest that so few labels can promise.",
        labels=labels,
        meter=with_tolerance((0.05, 0.1, 0.2, 0.3), labels),
        steps=tuple(desk.steps),
    )


def _trees(leaf: int = 1, share: float = 0.4) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(15, min_samples_leaf=leaf, max_features=share, random_state=SEED)


@cache
def made() -> Trace:
    """Made data with as many hidden labels as the plan asks for, and a known truth."""
    from sklearn.base import clone
    from sklearn.datasets import make_classification
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    tolerance = 0.01
    meter, labels = planned((0.02, 0.05, 0.1, 0.2), tolerance)
    train, validation, fresh = 200, 150, 60_000
    inputs, classes = make_classification(
        n_samples=train + 2 * validation + labels + fresh,
        n_features=20,
        n_informative=6,
        class_sep=0.9,
        flip_y=0.1,
        random_state=SEED,
    )
    second = inputs[-validation:], classes[-validation:]
    desk = _Desk(inputs[:-validation], classes[:-validation], (train, validation, labels))

    desk.submit("naive Bayes", desk.fit(GaussianNB()))
    desk.submit("logistic", desk.fit(LogisticRegression()))
    desk.submit("extra trees", desk.fit(_trees()))
    settings = [_trees(leaf, share) for leaf in (1, 2, 3, 5, 8) for share in (0.2, 0.4, 0.7, 1.0)]
    tuned = desk.best(settings)
    desk.submit("tune them", tuned)
    seeds = [clone(tuned).set_params(random_state=seed) for seed in range(40)]
    lucky = desk.best(seeds)
    desk.submit("best of 40", lucky)
    desk.submit("train on mistakes", desk.fit(_trees(), desk.mistakes(lucky)))
    desk.submit("on all validation", desk.fit(_trees(), desk.validation))
    # Told that the validation set is worn out, the developer gets a new one and uses the old one.
    old, desk.validation = desk.validation, second
    desk.submit("new validation set", desk.fit(_trees(), old))

    return Trace(
        title="Made data (known truth)",
        story=f"scikit-learn's make_classification: {train} examples to train on, {validation} to "
        f"validate on, and {labels:,} hidden, the number planned for a tolerance of {tolerance:g}. "
        f"{fresh:,} fresh examples stand for the truth.",
        labels=labels,
        meter=meter,
        steps=tuple(desk.steps),
    )


def histories() -> tuple[Trace, ...]:
    """Run both histories, once."""
    return digits(), made()
