"""Release: a spent test set is handed out in the clear, with what really happened."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

from easeml_meter.core.lifecycle import Phase, WrongPhase, advance
from easeml_meter.core.signals import Rules, gap_between
from easeml_meter.core.views import Truth
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.scoring.outputs import Expected
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.service.measuring import hidden_loss, open_sealed
from easeml_meter.service.sessions import Situation, reconcile
from easeml_meter.service.workspace import Workspace, unusable
from easeml_meter.storage.schema import EntryRow, GenerationRow
from easeml_meter.vault.keys import unwrap


def release(space: Workspace) -> Path:
    """Export the oldest spent test set and write down the truth of every step.

    The phase changes last: a release cut short is simply done again.
    """
    with space.store.writing() as books:
        situation = Situation.read(books)
        spent = [row for row in situation.generations if row.phase is Phase.SPENT]
        if not spent:
            latest = situation.generations[-1]
            raise WrongPhase(
                f"test set {latest.number} is {latest.phase}: only a spent one is released"
            )
        generation = spent[0]
        entries, unjournaled = reconcile(space, books, generation)
    space.journal(generation).append(unjournaled)
    folder = released_folder(space, generation.number)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(folder, error) from error
    truths = [_truth(space, situation, generation, entry) for entry in entries]
    with open_sealed(space, generation) as sealed:
        target = folder / "testset.parquet"
        target.unlink(missing_ok=True)
        sealed.export(target)
    records = [
        {"tenant": entry.tenant + 1, "step": entry.step, "truth": truth and asdict(truth)}
        for entry, truth in zip(entries, truths, strict=True)
    ]
    space.keep(json.dumps(records, indent=2).encode(), folder, "retrospective.json")
    with space.store.writing() as books:
        now = space.now()
        phase = advance(generation.phase, Phase.RELEASED)
        books.update_generation(replace(generation, phase=phase, changed_at=now))
        details = {"generation": generation.number, "rows": generation.rows}
        books.append_audit(generation.meter, now, "released", details)
    return folder


def released_folder(space: Workspace, number: int) -> Path:
    """Where a released test set lies."""
    return space.folder / "released" / str(number)


def truths_of(space: Workspace, generation: GenerationRow, tenant: int) -> tuple[Truth | None, ...]:
    """Read one tenant's retrospective; empty before release."""
    path = released_folder(space, generation.number) / "retrospective.json"
    if generation.phase is not Phase.RELEASED or not path.exists():
        return ()
    records = json.loads(path.read_text(encoding="utf-8"))
    own = sorted((row for row in records if row["tenant"] == tenant + 1), key=lambda r: r["step"])
    return tuple(Truth(**row["truth"]) if row["truth"] else None for row in own)


def _truth(
    space: Workspace, situation: Situation, generation: GenerationRow, entry: EntryRow
) -> Truth | None:
    """Score the kept predictions once more; None where a model could not be measured."""
    blob = space.folder / entry.blob
    content = unwrap(blob.read_bytes(), space.identity, "the kept predictions")
    loss = parse_loss(situation.spec.loss)
    listed = situation.validation.settings["classes"] if situation.validation else None
    expected = Expected(generation.rows or 0, loss, Classes.of(listed) if listed else None)
    suffix = Path(blob.stem).suffix
    with tempfile.TemporaryDirectory() as folder:  # a developer's own predictions, no labels
        path = Path(folder) / f"predictions{suffix}"
        path.write_bytes(content)
        test_loss = hidden_loss(space, generation, Predictions.open(path, expected=expected))
    if test_loss is None:
        return None
    validation_loss = Fraction(entry.validation_loss)
    band = Rules(situation.spec).band_of(gap_between(validation_loss, test_loss))
    return Truth(validation_loss=float(validation_loss), test_loss=float(test_loss), band=band)
