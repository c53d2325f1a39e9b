"""Replay what was recorded; `record` writes it anew."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import random
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import click
from tests.hurry import hurry

from easeml_meter.cli import main
from easeml_meter.cli import meter as commands
from easeml_meter.core.questions.planning import labels_needed, required_labels
from easeml_meter.core.views import Signal
from easeml_meter.errors import MeterError, Waiting
from easeml_meter.meter import Meter
from easeml_meter.server.app import create_app
from easeml_meter.server.settings import Settings
from easeml_meter.spec import MeterSpec
from easeml_meter.vault.draws import Draws
from easeml_meter.vault.keys import Identity

FOLDER = Path(__file__).parent
METERS = FOLDER / "meters"
ANSWERS = FOLDER / "answers"
SHOWN = FOLDER / "shown"
NAMES = sorted(path.stem for path in METERS.glob("*.json"))
KEY = "AGE-SECRET-KEY-1FE5VW7YS9F7PC9H0W9DXUQ0A7KLCH9U3GX7RSZPRRUE3DTNG5AWSRG70W7"
SECRET = "07" * 32
WIDTH = 90

Json = Any


def read(path: Path) -> Json:
    return json.loads(path.read_text("utf-8"))


def lines(data: Json) -> str:
    """Write JSON line by line, so that a diff shows what changed."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


class _Clock:
    """A clock that stands still until something is done."""

    def __init__(self) -> None:
        self.moment = datetime(2027, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment


@contextlib.contextmanager
def _fixed() -> Iterator[_Clock]:
    """Fix clock, key, ids, the secret of drawn edges, and which labels are asked for."""
    clock, numbers = _Clock(), itertools.count()
    identity = Identity.parse(KEY)

    def identifier(size: int | None = None) -> str:
        return f"{next(numbers):0{2 * (size or 32)}x}"

    with ExitStack() as patches:
        for name in ("create", "open"):
            defaults = vars(Meter)[name].__func__.__kwdefaults__
            patches.enter_context(mock.patch.dict(defaults, clock=clock))
        patches.enter_context(mock.patch.object(Identity, "new", return_value=identity))
        patches.enter_context(mock.patch.object(secrets, "token_hex", identifier))
        drawn = random.Random(7)  # noqa: S311
        patches.enter_context(mock.patch.object(secrets, "SystemRandom", return_value=drawn))
        patches.enter_context(mock.patch.object(Draws, "published", return_value=SECRET))
        yield clock


class Replay:
    """One recorded meter: what it answered, and what it showed."""

    def __init__(self, name: str, *, restored: bool = False) -> None:
        """Do everything again; with `restored`, from half-way on in a backup that was restored."""
        told = read(METERS / f"{name}.json")
        self.spec = MeterSpec.from_mapping(told["settings"])
        self.answers: list[Json] = []
        self.shown: dict[str, Json] = {}
        self._restored = restored
        self._teams = range(1, len(self.spec.tenants or (1,)) + 1)
        self._labels: dict[int, int] = {}
        self._validation = dict(enumerate(map(int, told["validation"]), 100_000))
        with tempfile.TemporaryDirectory() as folder, _fixed() as self._clock:
            self._folder = Path(folder).resolve()
            self._home = self._folder / "meter"
            with Meter.create(self._home, self.spec, name=name) as meter:
                self._write("validation", self._validation, "label")
                meter.set_validation(self._folder / "validation.csv", label="label")
                planned = {"labels": meter.plan.labels}
            self.answers.append({"planned": planned})
            self.shown["plan"] = self._printed("plan", "--spec", self._home / "meter.toml")
            for number, each in enumerate(told["story"]):
                self._clock.moment += timedelta(hours=1)
                self.answers.append(self._do(number, **each))
            self._look("at the end")
            if not restored:
                self.shown["audit"] = _without_ids(self._printed("audit", "-C", self._home))

    def _do(self, number: int, do: str, **said: Any) -> Json:
        """Do one thing; return what came of it, and what is left then."""
        if do == "restore":
            self._look("half-way")
            if self._restored:
                self._restore()
            return do
        with Meter.open(self._home) as meter:
            try:
                found = getattr(self, f"_{do}")(meter, f"{number}", **said)
            except Waiting:
                wanted = meter.wanted()
                assert wanted is not None
                found = {"waits for": len(wanted.ids)}
            except MeterError as error:
                found = {"refused": error.word}
            views = [meter.status(tenant=team) for team in self._teams]
            left = {"left": [view.steps_left for view in views], "phase": str(views[0].phase)}
        return {do: found, **left}

    def _deliver(self, meter: Meter, name: str, first: int, labels: str, judge: str = "") -> Json:
        rows = dict(enumerate(map(int, labels), first))
        words = dict(enumerate(map(int, judge), first))
        self._labels |= words | rows
        planned = [each.to_json()["labels_needed"] for each in meter.requests()]
        columns: dict[str, Any] = {"label": None if self.spec.on_demand else "label"}
        if judge:
            columns["judge"] = "judge"
        source = self._write(f"rows-{name}", rows, "label", **({"judge": words} if judge else {}))
        inputs = ["x"] if self.spec.on_demand else None
        sealed = self._folder / f"{name}.sealed"
        meter.seal(source, sealed, id_column="id", columns=inputs, **columns)
        meter.add_test_set(sealed)
        return {"planned": planned}

    def _submit(
        self, meter: Meter, name: str, model: str, team: int = 1, **wrong: list[list[int]]
    ) -> Json:
        first, last = wrong.pop("rows")[0]
        test = {each: self._labels[each] for each in range(first, last)}
        given = {}
        for kind, labels in (("test", test), ("validation", self._validation)):
            guess = dict(labels)
            for begin, end in wrong[kind]:
                guess.update({each: 1 - guess[each] for each in range(begin, end)})
            given[kind] = self._write(f"{kind}-{name}", guess, "prediction")
        # Recorded before this had to be said of the first model.
        first = self.spec.compares and not meter.status(tenant=team).signals
        both = given["test"], given["validation"]
        return _answer(meter.submit(*both, model=model, tenant=team, baseline=first))

    def _command(self, _: Meter, name: str, files: Mapping[str, str], command: str) -> Json:
        for path, text in files.items():
            file = self._folder / path
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        folder = Path(next(iter(files))).parent
        told = ("--model", f"command-{name}", "--seconds", "30", "-C", self._home)
        found = self._printed("submit", "--command", command, "--with", folder, *told)
        return {"answer": found["answer"], "validation_loss": found["validation_loss"]}

    def _promote(self, meter: Meter, _: str, model: str) -> Json:
        return meter.promote(model)

    def _hand_over(self, meter: Meter, _: str, giver: int, receiver: int) -> Json:
        meter.hand_over(giver, receiver)
        found = meter.hand_over(giver, receiver, confirm=True)
        names = ("steps_left_before", "steps_left_after", "labels_planned_shared")
        return {each: getattr(found, each) for each in names}

    def _label(self, meter: Meter, name: str) -> Json:
        wanted = meter.wanted()
        assert wanted is not None
        labels = {int(each): self._labels[int(each)] for each in wanted.ids}
        source = self._write(f"labels-{name}", labels, "label")
        meter.give_labels(source, label="label", id_column="id")
        return len(labels)

    def _retire(self, meter: Meter, _: str) -> Json:
        return str(meter.retire().phase)

    def _release(self, meter: Meter, _: str) -> Json:
        """Release; return the losses of every team's steps, after which all rows are known."""
        meter.release()
        found = []
        newest = [each for each in meter.generations if each.phase == "released"][-1].number
        for team in self._teams:
            truths = meter.status(generation=newest, tenant=team).retrospective
            kept = ("validation_loss", "test_loss", "band", "passed", "change")
            found.append([each and {name: getattr(each, name) for name in kept} for each in truths])
        return found

    def _restore(self) -> None:
        """Go on in a backup that was restored elsewhere, which shows the same."""
        file, elsewhere = self._folder / "backup.zip", self._folder / "restored"
        self._printed("backup", file, "--with-key", "-C", self._home)
        self._printed("restore", file, "-C", elsewhere)
        self._home = elsewhere
        before, self.shown["half-way"] = self.shown["half-way"], None
        self._look("half-way")
        assert self.shown["half-way"] == before

    def _look(self, when: str) -> None:
        self.shown[when] = {
            f"{look} of team {team}": self._printed(look, "--tenant", team, "-C", self._home)
            for look in ("status", "history")
            for team in self._teams
        }

    def _printed(self, *words: object) -> Json:
        """Return the JSON that a command prints."""
        out, code = io.StringIO(), None
        with contextlib.chdir(self._folder), contextlib.redirect_stdout(out):
            try:
                main([*map(str, words), "--json"])
            except SystemExit as stopped:
                code = stopped.code
        assert code == 0, words
        return json.loads(out.getvalue())

    def _write(
        self, name: str, values: Mapping[int, int], column: str, **more: Mapping[int, int]
    ) -> Path:
        """Write a table of ids, an input, and one column or more."""
        path, columns = self._folder / f"{name}.csv", {column: values, **more}
        text = [",".join(["id", "x", *columns])]
        for each in sorted(set().union(*columns.values())):
            found = [str(column.get(each, "")) for column in columns.values()]
            text.append(",".join([str(each), f"{each}.5", *found]))
        path.write_text("\n".join([*text, ""]), encoding="utf-8")
        return path


def _answer(signal: Signal) -> Json:
    return {
        "answer": signal.name,
        "step": signal.step,
        "test set": signal.generation,
        "repeated": signal.repeated,
        "compared with": signal.old,
        "told": signal.told,
        "promised": signal.promised,
        "true loss": [signal.true_loss_at_least, signal.true_loss_at_most],
        "validation loss": signal.validation_loss,
        "left": signal.steps_left,
    }


_IDS = re.compile(r"[0-9a-f]{16,}|age1[0-9a-z]+|\d{4}-\d\d-\d\dT[0-9:.+]+Z?")


def _without_ids(data: Json) -> Json:
    """Leave out ids, times and digests."""
    if isinstance(data, dict):
        return {name: _without_ids(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_without_ids(each) for each in data]
    return _IDS.sub("...", data) if isinstance(data, str) else data


# --- Plans ---

PLANS: list[Json] = read(FOLDER / "plans.json")


def planned(settings: Mapping[str, Any]) -> dict[str, int]:
    """Return how many labels a plan asks for, and how many in all once it was topped up."""
    spec = MeterSpec.from_mapping(settings)
    found = {"labels": required_labels(spec).size}
    if spec.top_up is not None:
        found["then_in_all"] = found["labels"] + labels_needed(spec, 2)
    return found


# --- What programs and people are shown, whatever the meter ---


def help_of_all() -> str:
    """Return the help of all commands."""
    return "\n".join(_helps(commands, None, "meter"))


def _helps(command: click.Command, parent: click.Context | None, name: str) -> Iterator[str]:
    options: dict[str, Any] = {**command.context_settings}
    options |= {"terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(command, info_name=name, parent=parent, **options)
    yield f"--- {context.command_path}\n{command.get_help(context)}\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from _helps(found, context, each)


def document() -> Json:
    """Return the document of the API without its examples."""
    return _without_examples(create_app(None, Settings()).openapi())  # type: ignore[arg-type]


def _without_examples(data: Json) -> Json:
    if isinstance(data, dict):
        left_out = {"example", "examples", "x-codeSamples"}
        return {
            name: _without_examples(each) for name, each in data.items() if name not in left_out
        }
    return [_without_examples(each) for each in data] if isinstance(data, list) else data


# --- Recording ---


def record(*, answers: bool = False) -> None:
    """Write what is shown; `answers` only ever once, before anything is rebuilt."""
    hurry()
    for name in NAMES:
        replay = Replay(name)
        (SHOWN / f"{name}.json").write_text(lines(replay.shown), encoding="utf-8")
        if answers:
            (ANSWERS / f"{name}.json").write_text(lines(replay.answers), encoding="utf-8")
    (SHOWN / "help.txt").write_text(help_of_all(), encoding="utf-8")
    (SHOWN / "openapi.json").write_text(lines(document()), encoding="utf-8")
