"""Losses measured on the two sets. What is measured on hidden labels leaves only as an answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

from easeml_meter.scoring.predictions import Predictions
from easeml_meter.scoring.score import MapFunction, Unscorable, score
from easeml_meter.scoring.validation import Validation
from easeml_meter.service.workspace import Workspace
from easeml_meter.storage.schema import GenerationRow, ValidationRow
from easeml_meter.vault.sealing import SealedTestSet


def open_sealed(space: Workspace, generation: GenerationRow) -> SealedTestSet:
    """Open the sealed rows of a generation."""
    return SealedTestSet.open(
        space.files.location(str(generation.blob)),
        space.identity,
        meter=generation.meter,
        generation=generation.number,
    )


def visible_loss(space: Workspace, validation: ValidationRow, predictions: Predictions) -> Fraction:
    """Score on the validation set, which the developers own."""
    place = (validation.meter, validation.number, validation.digest)
    labels = _VISIBLE.get(place)
    if labels is None:
        with space.files.local(validation.blob) as path:
            table = Validation.open(
                path,
                label=validation.settings["label"],
                loss=predictions.expected.loss,
                classes=predictions.expected.classes,
            )
            if table.rows > _SMALL:
                return table.score(predictions).mean
            labels = list(table.labels())
            table.table.check_unchanged()
        if len(_VISIBLE) >= _SETS:
            _VISIBLE.pop(next(iter(_VISIBLE)), None)
        _VISIBLE[place] = labels
    return score(predictions, labels, revealed=True).mean


_SMALL = 10_000
_SETS = 64
_VISIBLE: dict[tuple[str, int, str], list[Any]] = {}
"""Labels of small validation sets, which anybody may see: reading them took longer than scoring."""


def hidden_loss(
    sealed: SealedTestSet,
    predictions: Predictions,
    *,
    labels: list[Any] | None = None,
    map_function: MapFunction = map,
    progress: Callable[[int, int], None] | None = None,
) -> Fraction | None:
    """Score on the sealed set; None if the loss failed there, which is an answer, too.

    `labels` are those of its row groups, where they were decrypted before.
    """
    # Handles are for workers elsewhere; here the open set is read as it is.
    here = labels or (sealed.labels(index) for index in range(sealed.row_groups))
    counted = _counted(map_function, sealed.rows, progress)
    try:
        return score(
            predictions,
            here if map_function is map else sealed.label_groups(),
            map_function=counted,
        ).mean
    except (Unscorable, SystemExit):
        return None


def _counted(
    map_function: MapFunction, rows: int, progress: Callable[[int, int], None] | None
) -> MapFunction:
    """Tell how many rows are done as tasks come back."""
    if progress is None:
        return map_function

    def counted(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        sizes: deque[int] = deque()

        def sized() -> Iterator[Any]:
            for task in tasks:
                sizes.append(len(task.predictions))
                yield task

        done = 0
        for result in map_function(function, sized()):
            done += sizes.popleft()
            progress(done, rows)
            yield result

    return counted
