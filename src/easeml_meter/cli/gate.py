"""`meter gate`: keep or discard a new version, by two result files."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import PATH, echo_json, json_option
from easeml_meter.errors import MeterError, invalid

if TYPE_CHECKING:
    from easeml_meter.client.branch import Branch
    from easeml_meter.client.gate import Gate

NOT_GOOD_ENOUGH = 6
_AGAIN = "call again with the same --name"


@click.command()
@click.argument("old", type=PATH, required=False)
@click.argument("new", type=PATH, required=False)
@click.option("--name", help="Name of NEW: a commit, a hash. Default: every call is a new look.")
@click.option("--old-name", metavar="MODEL", help="Name of OLD. Default: the model to beat.")
@click.option("--ledger", type=PATH, help="Default: gate.jsonl.")
@click.option("--branch", metavar="NAME", help="Keep the ledger on this branch of origin.")
@click.option("--looks", type=int, metavar="N", help="How many answers. Default: no end.")
@click.option("--confidence", metavar="95", help="How sure all keeps are together. Default: 90.")
@click.option("--scores", is_flag=True, help="Cases have scores from 0 to 1, or of --range.")
@click.option("--vote", is_flag=True, help="The majority of the runs of a case counts.")
@click.option("--lower-is-better", is_flag=True)
@click.option("--range", metavar="0,10", help="The least and the most that scores can be.")
@click.option("--missing", metavar="wrong", help="Cases that NEW lacks count as wrong.")
@click.option("--id", metavar="COLUMN", help="Column of ids.")
@click.option("--score", metavar="COLUMN", help="Column of scores.")
@click.option("--cluster", metavar="COLUMN", help="Cases that belong together, with --scores.")
@click.option("--from", "reader", metavar="NAME", help="A reader of logs, as of submit --from.")
@click.option("--not-worse", metavar="2%", help="Ask whether NEW is worse than --reference.")
@click.option("--reference", metavar="MODEL", help="The model in OLD, always the same.")
@click.option("--better-by", metavar="2%", help="Ask for a gain of more than this.")
@click.option("--at-least", metavar="80%", help="Ask for more than this, without OLD.")
@click.option("--fresh", is_flag=True, help="These are other cases: a test set of its own.")
@click.option("--joined", is_flag=True, help="Cases joined; no result has chosen which.")
@click.option("--again", is_flag=True, help="Ask a name anew. Charged.")
@click.option("--new", "first", is_flag=True, help="Make the ledger in continuous integration.")
@click.option("--sealed", is_flag=True, help="Whatever is wrong with NEW is a discard. Charged.")
@click.option("--advise", is_flag=True, help="Exit with 0 also for a discard. Charged.")
@click.option("--by-hand", is_flag=True, help="Let a keep against another model exit with 0.")
@click.option("--void", type=int, metavar="LOOK", help="Take a promise back, with --reason.")
@click.option("--reason", metavar="TEXT")
@json_option
def gate(old: Path | None, new: Path | None, *, as_json: bool, **options: Any) -> None:
    """Keep or discard: is NEW better than OLD, for the whole loop?

    Result files are JSON, JSON Lines, CSV or Parquet, with an id and a score for each case, JUnit
    reports of tests, or logs of Inspect, lm-eval and promptfoo. The first look makes the ledger;
    settings are fixed by it. Without files: what was kept, what is left.

    Exit code 0: keep. 6: discard. 3: spent. 2: wrong input; nothing was used.
    """
    from easeml_meter.client.gate import Gate

    one_look = ("name", "old_name", "fresh", "joined", "again")
    of_look = {name: options.pop(name) for name in one_look}
    others = ("ledger", "branch", "first", "advise", "by_hand", "void", "reason")
    ledger, branch, first, advise, by_hand, void, reason = map(options.pop, others)
    folder = click.get_current_context().find_root().params.get("folder") or Path()
    path = ledger or folder / "gate.jsonl"
    if branch is not None:
        path, branch = _fetched(branch, folder, path)
    asked = Gate(path, **options)
    if void is not None or old is None:
        _look_back(asked, void, reason, branch, as_json=as_json)
        return
    if sys.stdout is None:
        raise invalid("output", "closed", "a terminal, a file or a pipe: nothing was asked")
    # What a terminal cannot show must not stop an answer that is charged.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # In continuous integration a ledger that was not fetched would begin at the full share again.
    allowed = first or not os.environ.get("CI")
    try:
        answer = asked.ask(old, new, first=allowed, **of_look)
    except MeterError as error:
        error.args = (_named(str(error), branch),)
        raise
    if branch is not None:
        branch.push(f"look {answer.look}: {answer.answer}")
    good = advise or (answer.yes and (by_hand or not answer.by_hand))
    code = 0 if good else NOT_GOOD_ENOUGH
    try:
        if answer.note:
            click.echo(_named(answer.note, branch), err=True)
        if as_json:
            echo_json(asdict(answer) | {"exit_code": code})
        else:
            _tell(answer.answer, answer.text)
        sys.stdout.flush()
    except OSError as error:  # a full disk, a pipe that was closed: that is no keep
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if code == 0:
            raise MeterError(
                f"the answer could not be shown ({error.strerror}): {_AGAIN}"
            ) from None
    click.get_current_context().exit(code)


def _tell(word: str, lines: Sequence[str]) -> None:
    for first, line in zip((word, *[""] * len(lines)), lines, strict=False):
        click.echo(f"{first:<10}{line}")


def _fetched(name: str, folder: Path, ledger: Path) -> tuple[Path, Branch]:
    """Fetch the ledger of a branch into a folder that goes when this command ends."""
    from tempfile import TemporaryDirectory

    from easeml_meter.client.branch import Branch

    kept = TemporaryDirectory(prefix="meter-")
    click.get_current_context().with_resource(kept)
    path = Path(kept.name) / ledger.name
    return path, Branch(name, folder, path)


def _named(text: str, branch: Branch | None) -> str:
    """Name the ledger as people do: not by the folder that it was fetched to."""
    if branch is None:
        return text
    return text.replace(str(branch.ledger), f"{branch.ledger.name} of branch {branch.name}")


def _look_back(
    asked: Gate, void: int | None, reason: str | None, branch: Branch | None, *, as_json: bool
) -> None:
    """Void a look, or show where the ledger stands."""
    if void is not None:
        if not reason:
            raise invalid("reason", reason, "--reason TEXT says why the look is void")
        model = asked.void(void, reason)
        if branch is not None:
            branch.push(f"look {void} is void")
        said = f"look {void}: {reason}. It stays counted and promises nothing."
        if as_json:
            echo_json({"void": void, "reason": reason, "model_to_beat": model})
        else:
            _tell("void", (said, f"The model to beat is {model}."))
        return
    status = asked.status()
    status["ledger"] = _named(status["ledger"], branch)
    text = status.pop("text")
    if as_json:
        echo_json(status)
        return
    kept = f"{len(status['kept'])} of {status['answers']} said yes"
    names = f": {', '.join(status['kept'][-5:])}" if status["kept"] else ""
    beat = status["model_to_beat"]
    _tell(
        "gate",
        (
            f"{kept}{names}." + (f" The model to beat is {beat}." if beat else ""),
            text,
            f"Head {status['head']}.",
        ),
    )
