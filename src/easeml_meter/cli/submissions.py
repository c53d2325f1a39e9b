"""`meter submit`: predictions, an ONNX model, or a command; `meter promote`."""

from __future__ import annotations

import shlex
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import (
    PATH,
    MeterPlace,
    at_terminal,
    confirm,
    echo_either,
    echo_json,
    json_option,
    next_step,
    open_meter,
    place_options,
    print_rich,
    progress_bar,
    seal_step,
    tenant_option,
)
from easeml_meter.cli.verdicts import close, gate_options
from easeml_meter.errors import Denied, InvalidInput, MeterError, invalid

if TYPE_CHECKING:
    from easeml_meter.core.gate import Gate
    from easeml_meter.core.views import Signal
    from easeml_meter.integrations.reporting import Report
    from easeml_meter.meter import MeterVerbs
    from easeml_meter.service.submissions.kinds import Submitted
    from easeml_meter.spec import MeterSpec

_EXAMPLE = "meter submit --test PREDICTIONS --validation PREDICTIONS"


@click.command(context_settings={"allow_extra_args": True})
@click.option("--test", type=PATH, help="Predictions for the test set, with --validation.")
@click.option("--validation", type=PATH, help="Predictions for the validation set.")
@click.option(
    "--from",
    "reader",
    metavar="TOOL",
    help="Both files are logs of a tool: inspect, lm-eval, promptfoo; or scores (id, score).",
)
@click.option("--onnx", type=PATH, help="A model in ONNX format, instead of predictions.")
@click.option("--command", help='A command, such as "python predict.py", run in a sandbox.')
@click.option(
    "--with",
    "files",
    type=PATH,
    multiple=True,
    help="A file or folder the command needs, besides those it names. Repeatable.",
)
@click.option("--id", "id_column", help="Id column of both files. Default: as in each set.")
@click.option("--no-ids", is_flag=True, help="Rely on the order of the rows; ignore ids.")
@click.option(
    "--missing",
    type=click.Choice(["refuse", "wrong"]),
    default="refuse",
    show_default=True,
    help="Rows without a prediction: refuse the file, or count them as wrong.",
)
@click.option(
    "--once",
    is_flag=True,
    help="If a model of this name was answered before, repeat that answer at no cost, without "
    "looking at the files.",
)
@click.option(
    "--baseline",
    is_flag=True,
    help="The next models are compared with this one, such as the deployed one; free. A fresh test "
    "set needs it, or the name of the last model that was kept.",
)
@click.option("--model", help="Name of the model. Default: the name of the file or command.")
@click.option("--note", default="", metavar="TEXT", help="A line to show with the answer.")
@click.option("--link", default="", metavar="URL", help="To a commit or a run: http or https.")
@click.option("--executor", help="inline (default), processes[:N] or dask:tls://HOST:PORT.")
@click.option(
    "--seconds",
    type=float,
    help="Time a model gets on the test set; the answer comes when it is up. Default: based on "
    "its time on the validation set.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Submit nothing: show, at no cost, how the files are understood. Touches no label.",
)
@click.option("--yes", is_flag=True, help="Do not ask at a terminal before an answer is used.")
@click.option(
    "--report",
    "reporters",
    multiple=True,
    metavar="NAME[=WHERE]",
    help="Report the answer: mlflow or wandb[=RUN], markdown=FILE, github. Repeatable.",
)
@gate_options
@tenant_option
@place_options
@json_option
def submit(
    model: str | None, place: MeterPlace, tenant: int | None, as_json: bool, **options: Any
) -> None:
    """Submit predictions for both sets, or a model to run on both, and get an answer.

    A command reads its inputs as an Arrow IPC stream from stdin and writes predictions to stdout
    as another. Until the answer is entered, Ctrl-C cancels a submission at no cost.

    Predictions are joined to the rows of a set by its ids, in any order; without ids in the set,
    they are in its order.

    Exit code 3: the test set is spent, and fresh labels are needed. 6: the answer is "fail", or
    worse than --fail-above or --most-loss allow; it was given, and it is charged.
    """
    from easeml_meter.client import Untold
    from easeml_meter.service.submissions.measuring import Conditions

    if unnamed := click.get_current_context().args:
        given = " ".join(map(shlex.quote, unnamed))[:200]
        raise InvalidInput(f"{given}: say what they are: {_EXAMPLE}")
    # Whatever can be wrong with the options is found before an answer is used up.
    reporters = _reporters(options)
    submitted, name = _submitted(options)
    meter = open_meter(place)
    if options["reader"] is not None:
        submitted = _read_logs(meter, options)
    _check_told(meter, tenant, options)
    gate = _gate(options, meter.spec)
    if options["check"]:
        _check(meter, submitted, tenant, options, as_json=as_json)
        return
    model = name if model is None else model
    # A person may have mistyped, and an answer cannot be given back. Pipelines are not asked.
    if at_terminal() and not (options["yes"] or options["baseline"] or as_json):
        _ask(meter, model, tenant, once=options["once"])
    try:
        with progress_bar(shown=not as_json) as progress:
            conditions = Conditions(
                executor=options["executor"], seconds=options["seconds"], progress=progress
            )
            signal = meter.submit_any(
                submitted,
                model=model,
                tenant=tenant,
                conditions=conditions,
                once=options["once"],
                baseline=options["baseline"],
                note=options["note"].strip(),
                link=options["link"].strip(),
            )
    except Untold as told:
        echo_either(as_json, told.receipt, str(told))
        return  # whatever the answer is
    except KeyboardInterrupt as stopped:  # at a server, it says what became of the submission
        raise Interrupted(str(stopped) or "interrupted") from None
    if as_json:
        echo_json(signal.to_dict())
    else:
        print_rich(signal)
        if signal.steps_left == 0 and _spent(meter, signal.generation):
            goes_on = signal.spec.meter.renewal.joins(signal.generation + 1)
            step = seal_step(signal.spec) if goes_on else "release"
            next_step(place, step, reader="labelers")
        elif gate is None:  # a gate has the last word
            next_step(place, "status", reader="what this rests on", tenant=tenant)
    if reporters:
        # What trackers print must not follow the JSON.
        with redirect_stdout(sys.stderr if as_json else sys.stdout):
            _report(meter, signal, reporters)
    if gate is not None:
        close(gate.judge(signal), options, shown=not as_json)


def _read_logs(meter: MeterVerbs, options: dict[str, Any]) -> Submitted:
    """Read the logs of a tool here, before anything is sent: they may hold the answers."""
    from easeml_meter.integrations.reading import read_both
    from easeml_meter.integrations.registry import Group, find
    from easeml_meter.service.submissions.kinds import PredictionFiles
    from easeml_meter.tables.source import Held

    find(Group.READERS, options["reader"])  # a name that is mistyped is none of a broken log
    try:
        return read_both(options["reader"], options["test"], options["validation"], meter.spec)
    except InvalidInput:
        if not meter.charges_broken_files():
            raise
        return PredictionFiles(Held("test", b""), Held("validation", b""))


def _ask(meter: MeterVerbs, model: str, tenant: int | None, *, once: bool) -> None:
    """Ask a person before an answer is used, and say which."""
    try:
        view = meter.status(tenant=tenant)
    except MeterError:  # runners see no budget; anything else the submission itself will say
        return
    told = len(view.signals)
    free = once and any(each.model == model for each in view.signals)
    if free or view.phase != "active":
        return
    promised = (
        f" of {told + view.steps_left:,}" if view.steps_left else ", beyond the promised ones"
    )
    confirm(f"Uses answer {told + 1:,}{promised}, unless it repeats one. Submit?", yes=False)


def _spent(meter: MeterVerbs, number: int) -> bool:
    """Whether no team is answered by this test set any more, as far as can be learned now."""
    from easeml_meter.core.lifecycle import Phase

    try:
        generations = meter.generations
    except MeterError:  # the answer is given and charged: a hint must not take its exit code
        return False
    return any(each.number == number and each.phase is Phase.SPENT for each in generations)


_OF_VERDICTS = ("fail_above", "most_loss", "summary", "junit")
"""Options that need the answer: files are written of a verdict only, so they ask for one, too."""


def _check_told(meter: MeterVerbs, tenant: int | None, options: dict[str, Any]) -> None:
    """Refuse what needs the answer, before anything is sent, to a caller who is not told it."""
    named = [f"--{each.replace('_', '-')}" for each in _OF_VERDICTS if options[each] is not None]
    if not named:
        return
    try:
        meter.status(tenant=tenant)
    except Denied:
        needed = "leave it out, and run meter status --model with a developer's token"
        raise Denied(f"{named[0]}: the answer is not told to this caller: {needed}") from None
    except MeterError:  # anything else the submission itself will say
        return


def _gate(options: dict[str, Any], spec: MeterSpec) -> Gate | None:
    """Read the options of a gate before anything is submitted; a condition is one by itself.

    The model that others are compared with is no candidate.
    """
    from easeml_meter.core.gate import Gate

    by_itself = spec.meter.question.verdict and not options["baseline"]
    if not by_itself and all(options[name] is None for name in _OF_VERDICTS):
        return None
    gate = Gate(options["fail_above"], options["most_loss"])
    gate.check(spec)
    return gate


def _reporters(options: dict[str, Any]) -> dict[str, Report]:
    """Get reporters ready before anything is submitted."""
    if not options["reporters"]:
        return {}
    from easeml_meter.integrations.reporting import prepare

    return prepare(options["reporters"])


def _report(meter: MeterVerbs, signal: Signal, reporters: dict[str, Report]) -> None:
    """Report an answer; what fails is a warning, since the answer is given and charged."""
    from easeml_meter.integrations.reporting import report_all

    try:
        view = meter.status(generation=signal.generation, tenant=signal.tenant)
        failed = report_all(reporters, signal, view)
    except MeterError as error:
        failed = [f"not reported: {error}"]
    for line in failed:
        click.echo(f"meter: warning: {line}", err=True)


def _check(
    meter: MeterVerbs,
    submitted: Submitted,
    tenant: int | None,
    options: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    from easeml_meter.report.checked import checked_lines
    from easeml_meter.service.submissions.measuring import Conditions

    with progress_bar(shown=not as_json) as progress:
        conditions = Conditions(seconds=options["seconds"], progress=progress)
        checked = meter.check_any(submitted, tenant=tenant, conditions=conditions)
    echo_either(as_json, checked.to_json(), *checked_lines(checked, meter.spec))


@click.command()
@click.argument("model")
@tenant_option
@place_options
@json_option
def promote(model: str, tenant: int | None, place: MeterPlace, as_json: bool) -> None:
    """Compare the next submissions with MODEL, which has passed: it is the new "o" of "n - o".

    Nothing is charged. A ladder (question = "better") does this by itself.
    """
    step = open_meter(place).promote(model, tenant=tenant)
    line = f"the next models are compared with {model}, step {step:,}"
    echo_either(as_json, {"model": model, "step": step}, line)


class Interrupted(MeterError):
    """Ctrl-C."""

    exit_code = 130


def _submitted(options: dict[str, Any]) -> tuple[Submitted, str]:
    """Find out what is submitted, and give it a name."""
    from easeml_meter.scoring.ids import BY_IDS, RowMatching
    from easeml_meter.service.submissions.kinds import Command, OnnxFile, PredictionFiles

    test, validation = options["test"], options["validation"]
    given = [
        name
        for name, found in (
            ("predictions", test or validation),
            ("--onnx", options["onnx"]),
            ("--command", options["command"]),
        )
        if found
    ]
    if len(given) != 1:
        ways = f"{_EXAMPLE}, or --onnx MODEL, or --command COMMAND"
        if not given:
            raise InvalidInput(f"nothing to submit: {ways}")
        raise invalid("submission", " and ".join(given), f"one of them: {ways}")
    matching = RowMatching(
        options["id_column"],
        in_order=options["no_ids"],
        missing_wrong=options["missing"] == "wrong",
    )
    if options["reader"] is not None and (given != ["predictions"] or matching != BY_IDS):
        needed = "--test and --validation, and no other way to submit or to match rows"
        raise invalid("--from", options["reader"], needed)
    if matching != BY_IDS and given != ["predictions"]:
        raise invalid("--id, --no-ids, --missing", given[0], "only together with predictions")
    if options["files"] and given != ["--command"]:
        raise invalid("--with", str(options["files"][0]), "only together with --command")
    if options["onnx"]:
        return OnnxFile(options["onnx"]), options["onnx"].stem
    if options["command"]:
        from easeml_meter.scoring.bundle import Bundle

        bundle = Bundle.collect(options["command"], options["files"])
        return Command(bundle), bundle.command[:200]
    if not (test and validation):
        missing = "--validation" if test else "--test"
        raise invalid(missing, None, "predictions for both sets are needed")
    return PredictionFiles(test, validation, matching), test.stem
