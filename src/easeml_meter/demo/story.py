"""The story that `meter demo` tells: a real meter in a real folder, with made-up mails.

A developer tunes a made-up mail filter to the validation set without noticing. Beside it stand the
files of the tutorial (docs/embedded.md): a mail filter, its data, four models.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easeml_meter.core.questions.labels import plan_alarm
from easeml_meter.core.views import SessionView, Signal, Truth
from easeml_meter.errors import InvalidInput
from easeml_meter.meter import Meter
from easeml_meter.report.palette import band_colours
from easeml_meter.scoring.ids import IN_ORDER
from easeml_meter.spec import MeterSpec

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

TRAIN, VALIDATION = 600, 150
"""Mails that the developer has."""
_STEPS, _LABELS = 10, 500
_WIDTH = 40
"""Characters for an error of 25 %."""


def tell(folder: Path, console: Console, pause: Callable[[], None]) -> None:
    """Tell the story in a new folder; `pause` waits until the reader wants to go on.

    Raises:
        InvalidInput: the folder exists already.
    """
    if folder.exists():
        look = f"look at it with meter -C {folder} status, or: meter demo {folder.name}-2"
        raise InvalidInput(f"{folder}: exists already: {look}")
    world = MailWorld()
    train, validation, fresh = world.draw(TRAIN), world.draw(VALIDATION), world.draw(VALIDATION)
    alarm_spec = plan_alarm(_LABELS, steps=_STEPS, classes=(0, 1), inputs="public").spec
    with (
        Meter.create(folder, meter_for(_STEPS), name="demo") as meter,
        Meter.create(folder / "alarm", alarm_spec, name="alarm") as alarm,
    ):
        console.print(
            f"[bold]A mail filter, {_STEPS} answers.[/bold] A labeler seals {_LABELS} hidden mails "
            f"for an alarm, and {meter.plan.labels:,} for the paper's meter, which tells a band of "
            f"the gap. A developer sees {VALIDATION} validation mails and never the hidden ones. "
            "<=: the true error is at most that.\n"
        )
        both = _Both(alarm, world, meter, world.draw(meter.plan.labels))
        both.begin(folder / "hidden.sealed", validation)
        console.print("[bold]The developer improves the filter.[/bold]")
        pause()
        for each in honest(train):
            console.print(both.line(each))
        console.print("\nThe easy wins are gone. [bold]Now the validation score rules.[/bold]")
        pause()
        for each in tuned(train, validation):
            console.print(both.line(each))
        console.print(
            "\nThe validation error fell all the way; the alarm rang, and the meter marched. "
            "[bold]A fresh validation set brings it down.[/bold]"
        )
        pause()
        both.replace(fresh)
        *_, plain = honest(train)
        for last, name in ((each, "the same filter"), (plain, "no lucky columns")):
            console.print(both.line(replace(last, name=name)))
        console.print("\n[bold]The test set is spent, so it can be released: the truth.[/bold]")
        pause()
        released = meter.release()
        _reveal(meter.status(generation=1), console)
        write_tutorial(folder / "tutorial")
        console.print(f"\nA picture of it: [bold]{released / 'report.html'}[/bold]")
        console.print(
            f"Next: [bold]meter -C {folder} status[/bold], or plan your own: "
            "[bold]meter plan 500[/bold]. "
            f"The files of the tutorial are in {folder / 'tutorial'}."
        )


def meter_for(steps: int) -> MeterSpec:
    """Return the meter of a mail filter that is improved in so many steps."""
    return MeterSpec.uniform(
        signals=4,
        edges=[0.05, 0.1, 0.2],
        tolerance=0.025,
        steps=steps,
        delta=0.05,
        classes=(0, 1),
        inputs="public",
    )


def deliver(meter: Meter, hidden: Mails, path: Path) -> None:
    """Seal mails as the test set that a meter asks for."""
    meter.seal(hidden.table, path, label="spam")
    meter.add_test_set(path)
    path.unlink()


def submit(meter: Meter, filter_: Filter, hidden: Mails, validation: Mails) -> Signal:
    """Submit what a filter predicts."""
    test, visible = filter_.predict(hidden.inputs), filter_.predict(validation.inputs)
    return meter.submit(test, visible, model=filter_.name, matching=IN_ORDER)


class _Both:
    """An alarm and the paper's meter, which are asked about the same filters."""

    def __init__(self, alarm: Meter, world: MailWorld, meter: Meter, hidden: Mails) -> None:
        self._meters = [(alarm, world.draw(_LABELS)), (meter, hidden)]

    def begin(self, path: Path, validation: Mails) -> None:
        """Seal both test sets, and give both the validation mails."""
        self._validation = validation
        for meter, hidden in self._meters:
            deliver(meter, hidden, path)
            meter.set_validation(validation.table, label="spam")

    def replace(self, validation: Mails) -> None:
        """Give both fresh validation mails."""
        self._validation = validation
        for meter, _ in self._meters:
            meter.replace_validation(validation.table)

    def line(self, filter_: Filter) -> Text:
        """Submit a filter to both; return what they say of it."""
        alarm, band = (
            submit(meter, filter_, hidden, self._validation) for meter, hidden in self._meters
        )
        return _line(alarm, band)


def _line(alarm: Signal, signal: Signal) -> Text:
    from rich.text import Text

    line = Text(f"  {signal.step:>2}  {signal.model:<17}", no_wrap=True)
    if signal.band is None or signal.validation_loss is None or signal.true_loss_at_most is None:
        return line
    line.append(f"validation {signal.validation_loss:6.1%}  ")
    if alarm.true_loss_at_most is None:
        line.append(f"{'ALARM':<15}", style="bold red")
    else:
        line.append(f"ok, <= {_up(alarm.true_loss_at_most)} %  ")
    for band, colour in enumerate(band_colours(signal.spec.meter.question.rungs), 1):
        told = band == signal.band  # in brackets, for a terminal without colours
        line.append(f"[{band}]" if told else f" {band} ", style=f"bold {colour}" if told else "dim")
    return line.append(f" <= {_up(signal.true_loss_at_most)} %")


def _up(loss: float) -> str:
    return f"{math.ceil(1000 * loss) / 10:4.1f}"


def _reveal(view: SessionView, console: Console) -> None:
    """Draw both errors, step by step, and say what would have been believed."""
    from rich.text import Text

    console.print(
        "      [blue]v[/blue] validation error   [red]T[/red] error on the hidden mails\n"
    )
    known = [(s, t) for s, t in zip(view.signals, view.retrospective, strict=True) if t is not None]
    for signal, truth in known:
        console.print(Text.assemble(f"  {signal.step:>2}  ", _marks(truth)))
    believed = min(known, key=lambda pair: pair[1].validation_loss)[1]
    console.print(
        f"\n[bold]You thought {believed.validation_loss:.0%} error; it was "
        f"{believed.test_loss:.0%}.[/bold] The meter showed no label and no test "
        "loss, and told you on the way."
    )


def _marks(truth: Truth) -> Text:
    from rich.text import Text

    losses = {"validation_loss": truth.validation_loss, "test_loss": truth.test_loss}
    at = {name: round(loss * 4 * _WIDTH) for name, loss in losses.items()}
    cells = ["·"] * (max(at.values()) + 1)
    low, high = sorted(at.values())
    cells[low:high] = ["─"] * (high - low)
    line = Text("".join(cells), style="dim")
    for name, letter, style in (
        ("validation_loss", "v", "bold blue"),
        ("test_loss", "T", "bold red"),
    ):
        place = at[name]
        line = Text.assemble(line[:place], (letter, style), line[place + 1 :])
    return line.append(f"  {truth.validation_loss:.1%} and {truth.test_loss:.1%}")


Numbers = NDArray[Any]

REAL, NOISE = 12, 300
"""Columns that say something about a mail, and columns that say nothing."""
_STRENGTH = 0.4
_TUNED_WEIGHT = 0.4


@dataclass(frozen=True)
class Mails:
    """Mails: what is known of each, and whether it is spam."""

    inputs: Numbers
    spam: Numbers

    @property
    def table(self) -> pa.Table:
        """The columns that mean something, some of them; all would only fill the disk."""
        columns = {f"column_{at}": self.inputs[:, at] for at in range(3)}
        return pa.table({**columns, "spam": self.spam})

    def error(self, filter_: Filter) -> float:
        """Return the share of mails that a filter gets wrong."""
        return float(np.mean(filter_.predict(self.inputs) != self.spam))


@dataclass(frozen=True)
class Filter:
    """A linear filter on some of the columns."""

    name: str
    columns: Numbers
    weights: Numbers

    def predict(self, inputs: Numbers) -> Numbers:
        """Return which mails are spam."""
        return (inputs[:, self.columns] @ self.weights > 0).astype(np.int64)


class MailWorld:
    """Draws mails: columns are independent given whether a mail is spam."""

    def __init__(self, seed: int = 3) -> None:
        self._rng = np.random.default_rng(seed)

    def draw(self, count: int) -> Mails:
        """Draw fresh mails."""
        spam = self._rng.integers(0, 2, count)
        inputs = self._rng.normal(size=(count, REAL + NOISE))
        inputs[:, :REAL] += _STRENGTH * (2 * spam[:, None] - 1)
        return Mails(inputs, spam)


def honest(train: Mails) -> Iterator[Filter]:
    """Yield filters that get better: more columns, weights from the training mails."""
    for count in (3, 6, REAL):
        yield _fitted(f"{count} good columns", train, np.arange(count))


def tuned(train: Mails, validation: Mails) -> Iterator[Filter]:
    """Yield filters with columns that happen to look good on the validation mails."""
    base = _fitted("", train, np.arange(REAL))
    weights = base.weights / np.abs(base.weights).mean()
    luck = (2 * validation.spam - 1) @ validation.inputs[:, REAL:] / len(validation.spam)
    best = np.argsort(-np.abs(luck))
    for count in (5, 15, 30, 50, 80):
        chosen = best[:count]
        yield Filter(
            f"{count} lucky columns",
            np.concatenate([base.columns, REAL + chosen]),
            np.concatenate([weights, _TUNED_WEIGHT * np.sign(luck[chosen])]),
        )


def _fitted(name: str, train: Mails, columns: Numbers) -> Filter:
    """Fit by least squares, with a little ridge."""
    inputs, target = train.inputs[:, columns], 2 * train.spam - 1
    weights = np.linalg.solve(inputs.T @ inputs + np.eye(len(columns)), inputs.T @ target)
    return Filter(name, columns, weights)


_OTHER = {"spam": "ham", "ham": "spam"}

SETTINGS = """\
[question]
ask = "gap"                   # how far validation and test loss are apart, in bands
tolerance = 0.1
edges = [0.05, 0.12]

[budget]
steps = 4                     # promised answers

[sample]
loss = "0-1"
inputs = "public"             # developers see the test inputs, never the labels
classes = ["ham", "spam"]

[meter]
delta = 0.05                  # the promise may fail with this probability
"""
"""The meter.toml of the tutorial."""


def write_tutorial(folder: Path) -> None:
    """Write the files to a new folder."""
    folder.mkdir(parents=True)
    (folder / "meter.toml").write_text(SETTINGS, encoding="utf-8")
    hidden = _mails(folder / "labelled.csv", 300, seed=1)
    validation = _mails(folder / "validation.csv", 50, seed=2)
    fresh = _mails(folder / "fresh.csv", 50, seed=3)
    # From model to model the validation loss falls, and the test loss does not.
    for number, (on_test, on_validation) in enumerate([(48, 8), (45, 4), (51, 1)], 1):
        _predict(folder / f"v{number}-test.csv", hidden, on_test)
        _predict(folder / f"v{number}-validation.csv", validation, on_validation)
    _predict(folder / "v4-test.csv", hidden, 39)
    _predict(folder / "v4-validation.csv", fresh, 7)


def _mails(path: Path, count: int, seed: int) -> list[str]:
    """Write made-up mails with labels; return the labels."""
    draw = random.Random(seed)  # noqa: S311  data, no secrets
    labels = ["spam" if draw.random() < 0.4 else "ham" for _ in range(count)]
    rows: list[list[object]] = [
        [number, draw.randrange(10**6), draw.randrange(9), label]
        for number, label in enumerate(labels, 1)
    ]
    _rows(path, ["id", "bytes", "links", "label"], rows)
    return labels


def _predict(path: Path, labels: list[str], wrong: int) -> None:
    """Write the predictions of a model that gets so many wrong."""
    missed = set(random.Random(wrong).sample(range(len(labels)), wrong))  # noqa: S311
    rows: list[list[object]] = [
        [at + 1, _OTHER[label] if at in missed else label] for at, label in enumerate(labels)
    ]
    _rows(path, ["id", "prediction"], rows)


def _rows(path: Path, header: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
