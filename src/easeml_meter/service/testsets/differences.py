"""Two submissions side by side on a released test set: which examples got worse, which better.

Before release nothing of this exists: which examples changed would tell their labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easeml_meter.core.history import shown_step
from easeml_meter.core.model import Entry, TestSet
from easeml_meter.core.views import Compared, Differences, DifferingExample
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.scoring.predictions import Accepted, meant
from easeml_meter.scoring.score import losses_of
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.kinds import MODELS, accepted_predictions
from easeml_meter.service.submissions.measuring import Measured, suffix_of
from easeml_meter.service.testsets.release import TEST_SET, released_folder, released_session
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.groups import Clusters, Strata

PAGE = 20
"""Examples that are shown at once."""
_MOST_INPUTS = 12
_NAMED = 3


@needs(Permission.SEE_SIGNALS)
def comparable(actor: Actor, space: Workspace, number: int) -> list[int]:
    """Return the steps of the actor's team that can be compared: those with kept predictions.

    Raises:
        NotFound: there is no such test set, or it was not released yet.
    """
    spec, _, entries = _read(actor, space, number)
    if spec.meter.sample.orders_labels:
        return []  # most rows have no label
    return [shown_step(spec, entry) for entry in entries if _kept_rows(entry)]


@needs(Permission.SEE_SIGNALS)
def compare_submissions(
    actor: Actor,
    space: Workspace,
    number: int,
    steps: tuple[int | None, int | None] = (None, None),
    *,
    better: bool = False,
    page: int = 1,
) -> Differences:
    """Compare two submissions of the actor's team on a released test set, example by example.

    Unless they are given, these are the first and the last that can be compared. `better`: show the
    examples that improved, in place of those that got worse.

    Raises:
        NotFound: there is no such test set, or it was not released yet.
        InvalidInput: a step cannot be compared, or single examples have no loss.
    """
    spec, test_set, entries = _read(actor, space, number)
    sample = spec.meter.sample
    if not sample.counts_rows:
        loss = "estimated with a judge" if sample.estimated else sample.loss
        raise invalid("loss", loss, "one of single examples: this one is of the whole test set")
    if sample.orders_labels:
        raise invalid("labels", "on demand", "most rows of this test set have no label")
    # Only of the actor's own team, also after release: what others predicted stays theirs.
    chosen = [_entry(spec, entries, step) for step in _pair(spec, entries, steps)]
    validation = space.read_state().validation
    if validation is None:  # there are answers, so there was one
        raise InvalidInput("there is no validation set: hand one in")
    with Measured(space, spec, test_set, validation, again=True) as on:
        both = [accepted_predictions(on, entry) for entry in chosen]
        groups = [on.sealed.labels(index) for index in range(on.sealed.row_groups)]
        losses = [losses_of(each, groups) for each in both]
        strata = on.hidden_clusters
    change = losses[1] - losses[0]
    got_worse, got_better = np.flatnonzero(change > 0), np.flatnonzero(change < 0)
    places = got_better if better else got_worse
    if not spec.meter.sample.measured.zero_one:  # what changed most comes first
        places = places[np.argsort(-np.abs(change[places]), kind="stable")]
    shown = places[PAGE * (page - 1) : PAGE * page]
    first, second = (
        Compared(shown_step(spec, entry), entry.model, _mean(each, strata))
        for entry, each in zip(chosen, losses, strict=True)
    )
    return Differences(
        generation=number,
        first=first,
        second=second,
        rows=len(change),
        worse=len(got_worse),
        better=len(got_better),
        zero_one=spec.meter.sample.measured.zero_one,
        page=page,
        pages=max(1, -(-len(places) // PAGE)),
        examples=tuple(_examples(space, test_set, both, losses, [int(row) for row in shown])),
        found=len(places),
    )


def _mean(losses: NDArray[Any], groups: Clusters | None) -> float:
    """Return the loss of a model, given those of all rows; strata have weights."""
    if not isinstance(groups, Strata):
        return float(losses.mean())
    return float(groups.weighed(np.bincount(groups.codes, losses, groups.count)))


def _read(
    actor: Actor, space: Workspace, number: int
) -> tuple[MeterSpec, TestSet, Sequence[Entry]]:
    spec = released_session(actor, space, number).spec  # says so if it is not released
    with space.reading() as books:
        state = space.state(books)
        test_set = state.numbered(number)
        entries = books.entries.all(test_set.meter, number, state.tenant(actor.acting_for))
    return spec, test_set, entries


def _kept_rows(entry: Entry) -> bool:
    """Whether predictions were kept, and not a model that made them, or nothing."""
    models = [suffix for model in MODELS.values() for suffix in model.kept]
    return bool(entry.blob) and suffix_of(entry.blob) not in models


def _pair(
    spec: MeterSpec, entries: Sequence[Entry], steps: tuple[int | None, int | None]
) -> tuple[int, int]:
    """Return the steps to compare: where none is said, the first and the last."""
    first, second = steps
    if first is not None and second is not None:
        return first, second
    kept = [shown_step(spec, entry) for entry in entries if _kept_rows(entry)]
    if len(kept) < 2:
        given = f"{len(kept)} with kept predictions"
        raise invalid("submissions", given, "two are needed to compare: models are not kept by row")
    return first or kept[0], second or kept[-1]


def _entry(spec: MeterSpec, entries: Sequence[Entry], step: int) -> Entry:
    kept = {shown_step(spec, entry): entry for entry in entries if _kept_rows(entry)}
    if step in kept:
        return kept[step]
    known = ", ".join(map(str, kept)) or "none"
    raise invalid("step", step, f"one that predictions were kept of: {known}")


def _examples(
    space: Workspace,
    test_set: TestSet,
    both: Sequence[Accepted],
    losses: Sequence[Any],
    places: list[int],
) -> Iterator[DifferingExample]:
    if not places:
        return
    import pyarrow.parquet as pq

    manifest = test_set.manifest or {}
    label, ids = manifest["label"]["name"], manifest["id_column"]
    with space.files.local(f"{released_folder(test_set.number)}/{TEST_SET}") as path:
        table = _rows(pq.ParquetFile(path), places)
    said = [[_said(value) for value in meant(each.values[places], each.expected)] for each in both]
    inputs = [name for name in table.column_names if name not in (label, ids)][:_MOST_INPUTS]
    for index, (place, row) in enumerate(zip(places, table.to_pylist(), strict=True)):
        yield DifferingExample(
            row=place + 1,
            id=row[ids] if ids else None,
            label=row.get(label),
            predictions=(said[0][index], said[1][index]),
            losses=(float(losses[0][place]), float(losses[1][place])),
            inputs={name: row[name] for name in inputs},
        )


def _rows(file: Any, places: list[int]) -> pa.Table:
    """Read these rows of a file, in this order, and no row group without one."""
    start = 0
    pieces: dict[int, pa.Table] = {}
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        here = [place for place in places if start <= place < start + size]
        if here:
            table = file.read_row_group(group)
            pieces |= {place: table.slice(place - start, 1) for place in here}
        start += size
    return pa.concat_tables([pieces[place] for place in places])


def _said(value: Any) -> str:
    """Return a prediction in words; of probabilities, the classes with the largest."""
    if isinstance(value, dict):
        ranked = sorted(value.items(), key=lambda each: -each[1])[:_NAMED]
        return ", ".join(f"{name} {_said(each)}" for name, each in ranked)
    if isinstance(value, list):
        return ", ".join(map(_said, value))
    if value is None:
        return "missing"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
