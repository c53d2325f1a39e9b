"""Release: a spent test set is handed out in the clear, with what really happened."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from fractions import Fraction

from easeml_meter.core.lifecycle import Phase, advance
from easeml_meter.core.model import Entry, TestSet
from easeml_meter.core.signals import Rules, gap_between
from easeml_meter.core.views import Truth
from easeml_meter.errors import WrongPhase
from easeml_meter.service.history import reconcile
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.keeping import read_kept
from easeml_meter.service.submissions.measuring import Measured, measure_again, open_sealed
from easeml_meter.tables.source import Held


def release(space: Workspace) -> TestSet:
    """Export the oldest spent test set and write down the truth of every step.

    The phase changes last: a release cut short is simply done again.
    """
    with space.writing() as books:
        situation = space.state(books)
        spent = [row for row in situation.generations if row.phase is Phase.SPENT]
        if not spent:
            latest = situation.generations[-1]
            raise WrongPhase(
                f"test set {latest.number} is {latest.phase}: only a spent one is released"
            )
        generation = spent[0]
        entries, unjournaled = reconcile(space, books, generation)
    space.journal(generation).append(unjournaled)
    folder = released_folder(generation.number)
    truths: list[Truth | None] = [None for _ in entries]
    if situation.validation is not None:
        with Measured(space, situation.spec, generation, situation.validation) as on:
            truths = [_truth(on, entry) for entry in entries]
    with (
        open_sealed(space, generation) as sealed,
        space.files.writing(f"{folder}/testset.parquet") as path,
    ):
        sealed.export(path)
    records = [
        {"tenant": entry.tenant, "step": entry.step, "truth": truth and asdict(truth)}
        for entry, truth in zip(entries, truths, strict=True)
    ]
    space.files.put(f"{folder}/retrospective.json", json.dumps(records, indent=2).encode())
    with space.writing() as books:
        now = space.now()
        phase = advance(generation.phase, Phase.RELEASED)
        released = replace(generation, phase=phase, changed_at=now)
        books.testsets.update(released)
        details = {"generation": generation.number, "rows": generation.rows}
        books.audit.append(generation.meter, now, "released", details)
    return released


def released_folder(number: int) -> str:
    """Where a released test set lies."""
    return f"released/{number}"


def truths_of(space: Workspace, generation: TestSet, tenant: int) -> tuple[Truth | None, ...]:
    """Read one tenant's retrospective; empty before release."""
    name = f"{released_folder(generation.number)}/retrospective.json"
    if generation.phase is not Phase.RELEASED or not space.files.exists(name):
        return ()
    records = json.loads(space.files.read(name))
    own = sorted((row for row in records if row["tenant"] == tenant), key=lambda r: r["step"])
    return tuple(Truth(**row["truth"]) if row["truth"] else None for row in own)


def _truth(on: Measured, entry: Entry) -> Truth | None:
    """Measure what was kept once more; None where a model could not be measured."""
    if not entry.blob:
        return None
    content, suffix = read_kept(on.space, entry.blob)
    test_loss = measure_again(Held(f"submission{suffix}", content), on)
    if test_loss is None:
        return None
    validation_loss = Fraction(entry.validation_loss)
    band = Rules(on.spec).band_of(gap_between(validation_loss, test_loss))
    return Truth(validation_loss=float(validation_loss), test_loss=float(test_loss), band=band)
