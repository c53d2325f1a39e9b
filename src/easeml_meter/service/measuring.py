"""Losses measured on the two sets. What is measured on hidden labels leaves only as an answer."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from fractions import Fraction

from easeml_meter.scoring.predictions import Predictions
from easeml_meter.scoring.score import Unscorable, score
from easeml_meter.scoring.validation import Validation
from easeml_meter.service.workspace import Workspace
from easeml_meter.storage.schema import GenerationRow, ValidationRow
from easeml_meter.vault.sealing import SealedTestSet


def open_sealed(space: Workspace, generation: GenerationRow) -> SealedTestSet:
    """Open the sealed rows of a generation."""
    return SealedTestSet.open(
        space.folder / str(generation.blob),
        space.identity,
        meter=generation.meter,
        generation=generation.number,
    )


def visible_loss(space: Workspace, validation: ValidationRow, predictions: Predictions) -> Fraction:
    """Score on the validation set, which the developers own."""
    table = Validation.open(
        space.folder / validation.blob,
        label=validation.settings["label"],
        loss=predictions.expected.loss,
        classes=predictions.expected.classes,
    )
    return table.score(predictions).mean


def hidden_loss(
    space: Workspace, generation: GenerationRow, predictions: Predictions
) -> Fraction | None:
    """Score on the sealed set; None if the loss failed there, which is an answer, too."""
    with open_sealed(space, generation) as sealed, _silence():
        groups = (sealed.labels(index) for index in range(sealed.row_groups))
        try:
            return score(predictions, groups).mean
        except (Unscorable, SystemExit):
            return None


@contextmanager
def _silence() -> Iterator[None]:
    """Drop what a loss of one's own prints or warns of: on hidden labels it would tell of them."""
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield
