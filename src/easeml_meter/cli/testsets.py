"""`meter seal`, `testset` and `release`, for labelers and runners, and `meter validation`."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import (
    PATH,
    MeterPlace,
    confirm,
    echo_either,
    echo_json,
    file_argument,
    meter_options,
    next_step,
    open_meter,
    progress_bar,
    seal_step,
    submit_step,
    unanswered,
    validate_step,
)
from easeml_meter.cli.lazy import HelpfulGroup
from easeml_meter.errors import Denied, invalid

if TYPE_CHECKING:
    from easeml_meter.core.model import LabelRequest, TestSet, ValidationSet, Wanted
    from easeml_meter.meter import MeterVerbs
    from easeml_meter.tables.memory import Data


def _names(_: click.Context, __: click.Parameter, given: str | None) -> list[str] | None:
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


@click.command()
@file_argument("data")
@click.option("--label", help="Name of the label column. None for scores, or labels on demand.")
@click.option("--id", "id_column", help="Name of the id column, to check predictions against.")
@click.option("--out", type=PATH, required=True, help="The sealed file.")
@click.option(
    "--recipient",
    "recipients",
    multiple=True,
    help="Public key (or a file with one) of someone else who may open it. Repeatable.",
)
@click.option(
    "--columns", callback=_names, metavar="A,B,...", help="The inputs. Default: all other columns."
)
@click.option(
    "--drop", callback=_names, metavar="A,B,...", help="Columns that are no inputs; left out."
)
@click.option(
    "--keep-unknown-labels",
    is_flag=True,
    help="Labels outside the class list are meant: every model is wrong there.",
)
@click.option("--part", is_flag=True, help="These are some of the rows; more will follow.")
@click.option("--judge", help="Column of a judge's words; rows without a label are the pool.")
@click.option(
    "--cluster",
    metavar="COLUMN",
    help="Column that says which rows belong together, for a meter planned with --clusters.",
)
@click.option(
    "--from",
    "tool",
    metavar="TOOL",
    help="DATA is an export of label-studio, argilla, doccano, prodigy, or a solution of kaggle.",
)
@click.option("--usage", help="With --from kaggle: the rows of this usage, such as Private.")
@click.option(
    "--allow-left-out",
    is_flag=True,
    help="With --from: go on although examples without a clear label are left out.",
)
@meter_options
def seal(data: Path, out: Path, place: MeterPlace, as_json: bool, **options: Any) -> None:
    """Seal labelled rows (CSV, Parquet, Arrow, JSON Lines) as the test set that is needed.

    Where the loss is made of scores, or labels are asked for on demand, there is no --label: the
    ids are sealed, and --columns.

    What the meter would refuse about these rows alone is refused now: too few rows, missing or
    repeated ids, labels out of range. Labels outside the class list are listed.
    """
    options["drop"] = options["drop"] or ()
    rows, left_out = _rows(data, options)
    meter = open_meter(place)
    # Here, also for a server: no rows that are not sealed leave the labeler's machine.
    manifest = meter.seal(rows, out, **options)
    if as_json:
        echo_json(asdict(manifest))
    else:
        if left_out:
            click.echo(left_out)
        of = "" if manifest.clusters is None else f" in {manifest.clusters:,} clusters"
        click.echo(f"sealed {manifest.rows:,} rows{of} as test set {manifest.generation} in {out}")
        if rows is data:
            _note_ids(data, options)
        _note_quota(meter, manifest.rows)
        part = "--part " if options["part"] else ""
        next_step(place, f"testset add {part}{shlex.quote(str(out))}")


def _note_ids(data: Path, options: dict[str, Any]) -> None:
    """Say which column was probably meant for ids: as an input, it finds no rows again."""
    from easeml_meter.tables.choosing import looks_like_id

    if options["id_column"] is None:
        named = [options["label"], options["cluster"], *(options.get("drop") or ())]
        if (name := looks_like_id(data, named)) is not None:
            click.echo(f"note: column {name} looks like an id: --id {shlex.quote(name)}")


def _note_quota(meter: MeterVerbs, rows: int) -> None:
    """Say what more inputs than planned cost, with labels on demand."""
    asked, planned = meter.spec.meter, meter.generations[-1].labels_needed
    if not asked.sample.orders_labels or rows <= planned:
        return
    dearer = f"each step asks for {asked.quota(rows):,} labels, not {asked.quota(planned):,}"
    click.echo(f"note: {rows:,} inputs given, {planned:,} planned: {dearer}")


def _rows(data: Path, options: dict[str, Any]) -> tuple[Data, str]:
    """Read what --from names; without it, the file is taken as it is."""
    tool, usage, allowed = (options.pop(name) for name in ("tool", "usage", "allow_left_out"))
    if tool is None:
        if usage or allowed:
            raise invalid("--usage, --allow-left-out", "no --from", "only together with --from")
        return data, ""
    from easeml_meter.integrations.sourcing import WantedColumns, rows_from

    if options["label"] is None:
        raise invalid("--label", None, "the name of the label in the export needed with --from")
    label, id_column, columns = (options[each] for each in ("label", "id_column", "columns"))
    named = [options[each] for each in ("cluster", "judge") if options[each] is not None]
    wanted = WantedColumns(label, id_column, columns, usage, (*options["drop"], *named))
    return rows_from(tool, data, wanted, allow_left_out=allowed)


@click.group(cls=HelpfulGroup)
def testset() -> None:
    """Test sets: add a sealed one, give labels on demand, see requests, retire one, fetch one."""


@testset.command()
@file_argument("file")
@click.option("--part", is_flag=True, help="These are some of the rows; more will follow.")
@click.option(
    "--ids-renumbered",
    is_flag=True,
    help="Ids that earlier sets have with other inputs are other examples.",
)
@click.option(
    "--accept-shared",
    is_flag=True,
    help="Rows with the inputs of earlier sets were drawn independently.",
)
@click.option("--yes", "accept_fewer", is_flag=True, help="Fewer rows, and a weaker promise, do.")
@meter_options
def add(file: Path, part: bool, place: MeterPlace, as_json: bool, **decisions: bool) -> None:
    """Add a sealed test set; from then on, submissions are answered.

    With --part, and on a server whenever there are fewer rows than needed, they become a part; the
    test set becomes active with the part that completes it, or that --yes says is the last.

    The rows are compared with every earlier test set and validation set of the meter. An id that
    comes again with the same inputs is refused; the rest you decide, and the meter records it.
    """
    from easeml_meter.core.lifecycle import Phase

    meter = open_meter(place)
    with progress_bar(shown=not as_json and place.server is not None) as meter.progress:
        if part and decisions.pop("accept_fewer"):
            raise invalid("--part", "with --yes", "the last part says --yes alone")
        row = (meter.add_part if part else meter.add_test_set)(file, **decisions)
    if row.phase is Phase.REQUESTED:
        here = next(each for each in meter.requests() if each.test_set.number == row.number)
        _show_part(here, as_json)
        return
    view = meter.status()
    about = [each for each in meter.notices() if each["generation"] == row.number]
    # None is not 0: that there was nothing to compare with is told, too.
    told = [each for each in about if each["rows_shared"] != 0]
    if as_json:
        shown = {"generation": row.number, "rows": row.rows, "steps_left": view.steps_left}
        echo_json({**shown, "notices": told})
    else:
        if not meter.spec.meter.renewal.rolls:
            rows = f"{row.table_rows:,} rows"
            rows += f" in {row.rows:,} clusters" if row.cluster_column else ""
            promised = f"{view.steps_left:,} steps promised"
            click.echo(f"test set {row.number} is active: {rows}, {promised}")
            if view.spec.meter.question.tolerances != meter.spec.meter.question.tolerances:
                handed_in = view.spec.meter.sample.handed_in
                click.echo(f"{row.labels_needed:,} {handed_in} were planned: {view.promise}")
            _note_quota(meter, row.table_rows)
            if meter.spec.meter.renewal.stage(row.number):
                click.echo(f"it has the rows of test set {row.number - 1}, and those that joined")
        else:
            _show_window(meter, row)
        for notice in told:
            click.echo(f"note: {notice['sentence']}")
        validated = any(each["validation_set"] is not None for each in about)
        step = submit_step(meter.spec, fresh=True) if validated else validate_step(meter.spec)
        next_step(place, step, reader="developers")


def _show_window(meter: MeterVerbs, row: TestSet) -> None:
    answers = meter.spec.meter.answers() or 0
    click.echo(
        f"window {row.number} is active: {row.rows:,} rows, {answers:,} answer{'s' * (answers > 1)}"
    )
    for each in meter.batches()[-1:]:
        click.echo(f"batch {each.number} has left it and is released: {each.rows:,} rows")


def _show_part(request: LabelRequest, as_json: bool) -> None:
    asked = request.test_set
    numbers = {"labels_here": request.labels_here, "labels_needed": asked.labels_needed}
    line = f"part added: {_progress_of(request)} of test set {asked.number} have arrived"
    echo_either(as_json, {"generation": asked.number, **numbers}, line)


def _progress_of(request: LabelRequest) -> str:
    return f"{request.labels_here:,} of {request.test_set.labels_needed:,} labels"


@testset.command()
@meter_options
def requests(place: MeterPlace, as_json: bool) -> None:
    """Show which labels are needed: how many, how many have arrived, why, until when."""
    meter = open_meter(place)
    found = meter.requests()
    if as_json:
        echo_json([_request_json(each) for each in found])
        return
    if (waited := _wanted(meter)) is not None:
        click.echo(f"a step waits for {waited.order.labels:,} labels")
        next_step(place, "testset wanted --out wanted.csv")
        return
    for each in found:
        asked = each.test_set
        until = f", until {asked.deadline[:10]}" if asked.deadline else ""
        click.echo(f"test set {asked.number}: {_progress_of(each)} have arrived{until}")
        if asked.reason:
            click.echo(f"  {asked.reason}")
        for name, needed in each.strata:
            click.echo(f"  {needed:,} rows of {name} needed")
        for part in each.parts:
            click.echo(f"  part {part.number}: {part.rows:,} rows, {part.added_at[:19]}")
    if not found:
        click.echo("no labels are needed")


def _wanted(meter: MeterVerbs) -> Wanted | None:
    """Return the labels on demand that a step waits for; admins may not know of which rows."""
    with suppress(Denied):
        return meter.wanted() if meter.spec.meter.sample.orders_labels else None
    return None


def _request_json(request: LabelRequest) -> dict[str, Any]:
    shown = request.to_json()
    del shown["recipients"]
    for part in shown["parts"]:
        del part["added_by"]
    return shown


@testset.command()
@click.option(
    "--out",
    type=PATH,
    help="File to write, with a label column to fill in: .csv, .jsonl, .parquet, .arrow.",
)
@meter_options
def wanted(out: Path | None, place: MeterPlace, as_json: bool) -> None:
    """Show the labels that a step waits for, with labels on demand (labelers).

    They are those of rows on which two models differ, and of random others: which is which is not
    shown, so that every label is given in the same way.
    """
    found = open_meter(place).wanted()
    if found is not None and out is not None:
        _write_wanted(found, out)
    if as_json:
        echo_json(None if found is None else found.to_json())
    elif found is None:
        click.echo("no step waits for labels")
    else:
        order = found.order
        click.echo(f"test set {order.generation}, order {order.number}: {order.labels:,} labels")
        if out is None:
            next_step(place, "testset wanted --out wanted.csv")
        else:
            click.echo(f"wrote their ids to {out}: fill in the column label")
            next_step(place, f"testset label {shlex.quote(str(out))} --label label")


def _write_wanted(found: Wanted, out: Path) -> None:
    from easeml_meter.service.testsets.orders import sheet
    from easeml_meter.tables.writing import check_ending, write_table

    check_ending(out)
    table = sheet(found)
    write_table(out, table.schema, iter(table.to_batches()))


@testset.command()
@file_argument("file")
@click.option("--label", required=True, help="Name of the label column.")
@click.option("--id", "id_column", help="Name of the id column. Default: as in the test set.")
@click.option(
    "--keep-unknown-labels",
    is_flag=True,
    help="Labels outside the class list are meant: every model is wrong there.",
)
@meter_options
def label(file: Path, place: MeterPlace, as_json: bool, **options: Any) -> None:
    """Give the labels that a step waits for, from a table (labelers). The step is then answered.

    Rows that were not asked for are left out, so one file may grow from order to order.
    """
    given = open_meter(place).give_labels(file, **options)
    if as_json:
        echo_json(asdict(given))
    else:
        click.echo(f"took {given.labels:,} labels: the submission that waited is answered")
        next_step(place, "history", reader="developers")


@testset.command()
@click.argument("number", type=int)
@click.option("--out", type=PATH, required=True, help="Folder to write to.")
@meter_options
def fetch(number: int, out: Path, place: MeterPlace, as_json: bool) -> None:
    """Fetch a released test set from a server, with what you may see of the retrospective."""
    _show_folder("fetched", open_meter(place).fetch_released(number, out), as_json)


def _show_folder(done: str, where: Path, as_json: bool) -> None:
    files = sorted(path.name for path in where.iterdir())
    line = f"{done} to {where}: {', '.join(files)}"
    echo_either(as_json, {"folder": str(where), "files": files}, line)


@testset.command()
@click.option("--out", type=PATH, help="Folder to write all of them to.")
@meter_options
def batches(out: Path | None, place: MeterPlace, as_json: bool) -> None:
    """Show the batches that have left a rolling test set, or write them as Parquet files.

    Files that are there are left as they are: run it again when another batch has left.
    """
    meter = open_meter(place)
    found = meter.batches()
    files = {} if out is None else {each: out / f"batch-{each.number}.parquet" for each in found}
    missing = {each: path for each, path in files.items() if not path.exists()}
    for each, path in missing.items():
        meter.fetch_batch(each.number, path)
    if as_json:
        echo_json([asdict(each) for each in found])
        return
    for each in found:
        click.echo(f"batch {each.number}: {each.rows:,} rows, released")
    if not found:
        click.echo("no batch has left yet: the oldest one does when a batch joins the window")
    elif out is not None:
        click.echo(f"new files in {out}: {len(missing):,}")


@testset.command()
@click.option(
    "--out",
    type=PATH,
    required=True,
    help="File to write: .parquet, .arrow, .csv, .jsonl.",
)
@meter_options
def inputs(out: Path, place: MeterPlace, as_json: bool) -> None:
    """Write the inputs of the active test set, without labels (if the meter says public)."""
    meter = open_meter(place)
    rows = meter.export_inputs(out)
    if as_json:
        echo_json({"file": str(out), "rows": rows})
    else:
        click.echo(f"wrote the inputs of {rows:,} rows to {out}")
        next_step(place, submit_step(meter.spec, fresh=unanswered(meter)))


@testset.command()
@meter_options
def notices(place: MeterPlace, as_json: bool) -> None:
    """Show what test sets share with validation sets and with each other (labelers only)."""
    found = open_meter(place).notices()
    echo_either(as_json, found, *(str(notice["sentence"]) for notice in found))


@testset.command()
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked.")
@meter_options
def retire(yes: bool, place: MeterPlace, as_json: bool) -> None:
    """Retire the active test set early, and request the next one (labelers and admins).

    Its answers and their promise stay; what it had left is given up. It can then be released.
    """
    meter = open_meter(place)
    active = meter.generations[-1]
    confirm(f"Retire test set {active.number}? It gives no more answers.", yes=yes)
    retired = meter.retire()
    asked = meter.generations[-1]
    if as_json:
        needed = asked.labels_needed if asked.phase == "requested" else 0
        echo_json({**retired.to_json(), "next_labels_needed": needed})
        return
    click.echo(f"test set {retired.number} is retired: it gives no more answers")
    click.echo(f"test set {asked.number} is needed: {asked.labels_needed:,} labels")


@click.command()
@meter_options
def release(place: MeterPlace, as_json: bool) -> None:
    """Release the spent test set to the developers, with the retrospective report."""
    meter = open_meter(place)
    with progress_bar(shown=not as_json and place.server is not None) as meter.progress:
        where = meter.release()
    _show_folder("released", where, as_json)
    if as_json:
        return
    if meter.requests():
        next_step(place, seal_step(meter.spec), reader="labelers")
    else:
        next_step(place, "history")


@click.group(cls=HelpfulGroup)
def validation() -> None:
    """The validation set: hand in the first one, replace it."""


@validation.command(name="set")
@file_argument("file")
@click.option("--label", help="Name of the label column. None for a loss made of scores.")
@click.option("--id", "id_column", help="Name of the id column, to join predictions by.")
@click.option("--cluster", help="Column that says which rows belong together, for --clusters.")
@meter_options
def set_(file: Path, place: MeterPlace, as_json: bool, **options: Any) -> None:
    """Hand in the first validation set."""
    meter = open_meter(place)
    given = meter.set_validation(file, **options)
    if not as_json:
        _note_ids(file, options)
    _show(place, meter, given, as_json)


@validation.command()
@file_argument("file")
@click.option("--label", help="Name of the label column. Default: as before.")
@click.option("--id", "id_column", help='Name of the id column; "" for none. Default: as before.')
@click.option("--cluster", help="Column that says which rows belong together. Default: as before.")
@click.option("--yes", is_flag=True, help="Do not ask what the promise rests on.")
@meter_options
def replace(file: Path, place: MeterPlace, yes: bool, as_json: bool, **options: Any) -> None:
    """Replace the validation set; this takes effect with the next submission.

    It asks first, as the promise rests on how it was drawn, or takes --yes.
    """
    from easeml_meter.promise.assumptions import about_people, assumptions_of

    meter = open_meter(place)
    rests = [
        each for each in about_people(assumptions_of(meter.spec.meter)) if "validation set" in each
    ]
    confirm(
        f"The promise assumes that {' and that '.join(rests)}. Is that so?", yes=yes or not rests
    )
    _show(place, meter, meter.replace_validation(file, **options), as_json)


def _show(place: MeterPlace, meter: MeterVerbs, given: ValidationSet, as_json: bool) -> None:
    from easeml_meter.core.lifecycle import Phase
    from easeml_meter.core.questions.labels import validation_noise

    if as_json:
        echo_json({"validation_set": given.number, "rows": given.rows})
        return
    click.echo(f"validation set {given.number}: {given.rows:,} rows, used from the next submission")
    if noise := validation_noise(given.rows, meter.spec):
        click.echo(noise)
    if meter.generations[-1].phase is Phase.REQUESTED:
        next_step(place, seal_step(meter.spec), reader="labelers")
    elif given.number == 1 and meter.spec.meter.sample.public:
        next_step(place, "testset inputs --out inputs.parquet")
    else:
        next_step(place, submit_step(meter.spec, fresh=unanswered(meter)))
