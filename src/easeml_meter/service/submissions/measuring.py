"""Measuring a submission on both sets, which is where hidden rows are touched.

The sets as a submission finds them, and the losses of predictions on them. What a model predicts is
found out in `running`.

What is kept of submissions is encrypted, until the test set is released. Where the loss is the
distance of two ROC curves, the one on the validation set is kept with the submission.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Protocol

import numpy as np

from easeml_meter.conditions import Comparison
from easeml_meter.core.model import Entry, TestSet, ValidationSet
from easeml_meter.corpus import Corpus
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.scoring.classes import Classes, classes_in_force
from easeml_meter.scoring.columns import ColumnForm, form_of, form_of_both
from easeml_meter.scoring.corpora import RocCurve
from easeml_meter.scoring.executors import open_executor
from easeml_meter.scoring.ids import CommittedIds
from easeml_meter.scoring.judged import hidden_loss
from easeml_meter.scoring.losses import Custom, Loss, Output
from easeml_meter.scoring.outputs import Expected, read_labels
from easeml_meter.scoring.predictions import Content, Predictions
from easeml_meter.scoring.running import SHARD_ROWS, shards
from easeml_meter.scoring.score import MapFunction, Score, Unscorable, score
from easeml_meter.scoring.validation import Validation, open_labels, strata_of
from easeml_meter.service.place import Workspace
from easeml_meter.spec import MeterSpec
from easeml_meter.tables import archive
from easeml_meter.tables.archive import File
from easeml_meter.tables.groups import Clusters
from easeml_meter.vault.containers import Closing, Location
from easeml_meter.vault.keys import unwrap, wrap
from easeml_meter.vault.sealing import SealedTestSet

LONGEST = 24 * 3600.0
"""Seconds that a run may be given."""

VISIBLE_SECONDS = 600.0
"""Seconds for a run on visible rows, unless said otherwise: one that fails there costs nothing."""

_FEW = 100_000
"""Rows of a set whose labels are held in memory while submissions are measured together."""

_TASK_BYTES = 8 << 20
"""Bytes of predictions that go along with a task, unless one row group has more."""

_REHEARSED = 10
"""Labels that developers know, to try predictions with."""

Progress = Callable[[str, float, float], None]
"""Told what is going on, how much of it is done, and how much there is (rows, or seconds)."""


@dataclass(frozen=True)
class Losses:
    """What was measured; it exists in memory only, until the answer is computed."""

    validation: Fraction | None
    """None: the model was given up before it was run once more, which is no reading."""
    test: Score | None
    """None: the loss or the model failed on the hidden rows, which is an answer, too."""
    of_model: bool = False
    """Whether a stranger's model ran on the hidden rows."""
    against: Comparison | None = None
    """The model beside the old one, where the question compares them."""
    visible: Score | None = field(default=None, repr=False)
    """All that was measured on the validation set; the test loss may be a distance from it."""

    @classmethod
    def of(
        cls, seen: Fraction, visible: Score, test: Score | None, *, of_model: bool = False
    ) -> Losses:
        """Take the validation loss, which is known before a hidden row is touched, and the rest."""
        told = None if test is None else test.beside(visible)
        return cls(seen, told, of_model, visible=visible)


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """How a submission is measured."""

    executor: str | None = None
    """Where row groups are scored: None for here, or as `scoring.executors.open_executor` says."""
    seconds: float | None = None
    """What a model may take on the hidden rows; None: decided by its run on the visible ones."""
    visible_seconds: float = VISIBLE_SECONDS
    """What a model may take on the visible rows, if `seconds` does not say it."""
    hopeless: bool = False
    """The model was started too often and never finished: answer "no reading" without a try."""
    reached: tuple[int, int] | None = None
    """The test set and validation set with which an earlier try reached hidden rows: the same."""
    reach: Callable[[Measured], None] = field(default=lambda on: None, repr=False)
    """Writes down that a model is about to see hidden rows: no crash may make that free."""
    progress: Progress = field(default=lambda what, done, total: None, repr=False)

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0.1 <= self.seconds <= LONGEST:
            raise invalid("seconds", self.seconds, f"a number from 0.1 to {LONGEST:g}")
        open_executor(self.executor)  # a wrong name is found before any work is done


USUAL = Conditions()


class Attempt(Protocol):
    """A submission that passed its checks."""

    @property
    def identity(self) -> str:
        """What makes two attempts the same: a digest of bytes, or of what is predicted."""

    @property
    def suffix(self) -> str:
        """What kind of bytes `content` is."""

    def content(self) -> bytes:
        """Return what is kept, encrypted, for the retrospective."""

    @property
    def predictions(self) -> dict[str, Predictions]:
        """The files of predictions, by the set they are for; none for a model."""

    def validation_loss(self, on: Measured) -> Fraction:
        """Measure on the visible rows alone, for a check."""

    def measure(self, on: Measured) -> Losses:
        """Measure on the visible rows, and then on the hidden ones."""

    def compare(self, on: Measured, old: Content) -> Comparison | None:
        """Compare with an old model on the hidden rows; None if the loss failed there."""


@dataclass(frozen=True)
class Measured(Closing):
    """The two sets that submissions are measured on, and how; the sealed one is opened once."""

    space: Workspace
    spec: MeterSpec
    generation: TestSet
    validation: ValidationSet
    conditions: Conditions = USUAL
    again: bool = False
    """For a release: what was accepted once is read as it was then, even if it is refused now."""

    @cached_property
    def loss(self) -> Loss:
        """The loss of the meter."""
        return self.space.loss(self.spec)

    @cached_property
    def sealed(self) -> SealedTestSet:
        """The opened test set."""
        return open_sealed(self.space, self.generation)

    @cached_property
    def few_labels(self) -> list[Any] | None:
        """The labels of a small test set by row group: for several submissions decrypted once."""
        if self.sealed.rows > _FEW:
            return None
        return [self.sealed.labels(index) for index in range(self.sealed.row_groups)]

    @contextmanager
    def open_validation(self) -> Iterator[Validation]:
        """Open the validation set."""
        with self.space.files.local(self.validation.blob) as path:
            yield Validation.reopen(
                path,
                label=self.validation.settings["label"],
                loss=self.loss,
                classes=self.classes,
                form=self.form,
                rows=self.validation.rows,
                digest=self.validation.digest,
                id_column=self.validation.id_column,
                cluster=self.validation.cluster,
                strata=strata_of(self.spec),
            )

    @cached_property
    def visible_clusters(self) -> Clusters | None:
        """The clusters of the validation set, where one example is a cluster, or its strata."""
        if not (self.spec.meter.sample.grouped or self.spec.meter.sample.parts is not None):
            return None
        with self.open_validation() as table:
            return table.clusters()

    @cached_property
    def hidden_clusters(self) -> Clusters | None:
        """The clusters of the test set, where one example is a cluster, or its strata."""
        strata = strata_of(self.spec)
        if strata is not None:
            return strata.of(self.sealed.batches([strata.column]))
        return self.sealed.clusters() if self.spec.meter.sample.grouped else None

    @cached_property
    def visible_labels(self) -> list[Any] | None:
        """The labels of a small validation set: for several submissions read once."""
        if self.validation.rows > _FEW:
            return None
        with self.open_validation() as table:
            labels = list(table.labels())
            table.table.check_unchanged()
        return labels

    def close(self) -> None:
        """Let go of the test set."""
        if "sealed" in vars(self):
            self.sealed.close()

    @cached_property
    def classes(self) -> Classes | None:
        """The class list in force."""
        found = classes_in_force(self.spec, self.validation)
        return replace(found, declared=True) if found and self.again else found

    @cached_property
    def form(self) -> ColumnForm | None:
        """The form in which a loss that takes any gets the labels of both sets."""
        loss, label = self.loss, self.validation.settings["label"]
        if loss.output is not Output.ANY:
            return None
        hidden = self.sealed.schema.field(self.sealed.manifest.label.name).type
        with self.space.files.local(self.validation.blob) as path:
            visible = open_labels(path, label, loss).require(label)
        try:
            return form_of_both(form_of(hidden), form_of(visible))
        except InvalidInput:
            if self.again:
                return None
            raise

    def first_edge(self, entry: Entry) -> Fraction | None:
        """Draw where the bands of an answer begin; None if the edges of this meter are fixed."""
        apart = self.spec.meter.question.draws
        return None if apart is None else self.sealed.draws.first_edge(entry, apart)

    @property
    def hidden_loss(self) -> Loss:
        """The loss on the test set: with a judge, an estimate."""
        return hidden_loss(self.loss, self.spec)

    def expected(self, rows: int, *, hidden: bool = False) -> Expected:
        """What predictions on so many rows must look like."""
        loss = self.hidden_loss if hidden else self.loss
        return Expected(rows, loss, self.classes, self.form)

    def hidden_ids(self, *, told: bool) -> CommittedIds | None:
        """The ids of the test set, if it was sealed with any; `told`: the sender may know them."""
        manifest = self.generation.manifest or {}
        column, digest = manifest.get("id_column"), manifest.get("order_digest")
        if column is None or digest is None:
            return None

        def read() -> Iterator[Any]:
            return (batch.column(0) for batch in self.sealed.batches([column]))

        return CommittedIds("the test set", column, digest, read, told)

    @property
    def visible_ids(self) -> CommittedIds | None:
        """The ids of the validation set, if it was given with any."""
        column, digest = self.validation.id_column, self.validation.settings.get("order_digest")
        if column is None or digest is None:
            return None

        def read() -> Iterator[Any]:
            with self.open_validation() as table:
                yield from table.ids()

        return CommittedIds("the validation set", column, digest, read)


def digest_of(text: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def open_sealed(
    space: Workspace, generation: TestSet, location: Location | None = None
) -> SealedTestSet:
    """Open the rows of a test set, or another file that was sealed for it."""
    return SealedTestSet.open(
        location or space.files.location(str(generation.blob)),
        space.identity,
        meter=generation.meter,
        generation=generation.number,
    )


def visible_score(on: Measured, predictions: Predictions) -> Score:
    """Return the losses on the validation set, which the developers own."""
    if on.visible_labels is not None:
        clusters = on.visible_clusters
        return score(predictions, on.visible_labels, revealed=True, clusters=clusters)
    with on.open_validation() as table:
        return table.score(predictions)


def rehearse(on: Measured, predictions: Predictions) -> None:
    """Try a loss of one's own on the hidden predictions, with labels that developers know.

    Where a prediction has no loss with any of them, its format is wrong. Found out on the hidden
    labels, that would be the answer "no reading", and cost a step.
    """
    loss = predictions.expected.loss
    if not isinstance(loss, Custom):
        return
    with on.open_validation() as table:
        expected = table.expected
        column = next(table.labels())
        labels = read_labels(column, loss, expected.classes, form=expected.form, secret=False)
    few = labels[np.linspace(0, len(labels) - 1, _REHEARSED).astype(int)]
    row, left = 1, predictions.rows
    sizes = [min(_FEW, left - at) for at in range(0, left, _FEW)]
    for values in predictions.batches(sizes):
        place = loss.unfit(values, few)
        if place is not None:
            name = predictions.table.name
            needed = "check that both files have the same format"
            raise InvalidInput(f"{name}: row {row + place}: no loss in [0, 1] found: {needed}")
        row += len(values)


def hidden_score(
    sealed: SealedTestSet,
    predictions: Content,
    *,
    labels: list[Any] | None = None,
    clusters: Clusters | None = None,
    map_function: MapFunction = map,
    progress: Callable[[int, int], None] | None = None,
) -> Score | None:
    """Return the losses on the sealed set; None if the loss failed there, which is an answer, too.

    `labels` are those of its row groups, where they were decrypted before.
    """
    # Whatever the loss does with a hidden label, nothing of it is shown: an error message or a line
    # on stdout could hold the label. `score` silences it, and what it raises becomes "no reading".
    # Handles are for workers elsewhere; here the open set is read as it is.
    here = labels or (sealed.labels(index) for index in range(sealed.row_groups))
    counted = _counted(map_function, sealed.rows, progress)
    try:
        return score(
            predictions,
            here if map_function is map else sealed.label_groups(_gathered(sealed, predictions)),
            map_function=counted,
            clusters=clusters,
        )
    except (Unscorable, SystemExit):
        return None


def _gathered(sealed: SealedTestSet, predictions: Content) -> list[range]:
    """Gather row groups for tasks: each opens the set again, and takes its predictions along."""
    expected = predictions.expected
    if expected.shape is None:  # predictions of any size
        return shards(sealed.group_rows, most=1)
    each = expected.dtype.itemsize * math.prod(expected.shape)
    return shards(sealed.group_rows, most=min(SHARD_ROWS, _TASK_BYTES // each))


def _counted(
    map_function: MapFunction, rows: int, progress: Callable[[int, int], None] | None
) -> MapFunction:
    """Report how many rows are done as tasks come back."""
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


_SUBMISSION, _CURVE = "submission", "curve"
_AROUND = 16 << 10
"""Bytes that archives have around what is in them, at most."""


@dataclass(frozen=True)
class Kept:
    """The bytes of a submission, and the ending that tells what they are."""

    stem: str
    """What its file is called."""
    suffix: str
    content: bytes = field(repr=False)

    @classmethod
    def of(cls, entry: Entry, suffix: str, content: bytes) -> Kept:
        """Take the bytes of the submission that an entry is about.

        The same files are kept otherwise for other sets: in the order of the test set, with the
        rows that are missing there, and with their curve on the validation set. So the name has
        both sets, or the next test set would replace what this one was answered on.
        """
        sets = f"{entry.generation}-{entry.validation_set[:16]}"
        return cls(f"{sets}-{entry.submission[:32]}", suffix, content)


class Keeping:
    """Writes a submission into its file in the background."""

    def __init__(self, space: Workspace, kept: Kept | None) -> None:
        # Encrypting and syncing go on beside the transaction, which waits for both before it ends.
        self._pool = ThreadPoolExecutor(1)
        self._written: Future[str] | None = None
        # It may be written again after a crash.
        self.name = "" if kept is None else f"predictions/{kept.stem}{kept.suffix}.age"
        """What an entry says to find it again."""
        if kept is not None:
            self._written = self._pool.submit(_write, space, self.name, kept.content)

    def wait(self) -> None:
        """Wait until it is on disk; raise what went wrong."""
        if self._written is not None:
            self._written.result()

    def __enter__(self) -> Keeping:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


def _write(space: Workspace, name: str, content: bytes) -> str:
    space.check_key()  # before a file of the same name is replaced that the new key opens
    return space.files.put(name, wrap(content, [space.identity.recipient]))


def read_kept(space: Workspace, name: str) -> tuple[bytes, str]:
    """Return the bytes of a submission that was kept, and their ending."""
    content = unwrap(space.files.read(name), space.identity, "the kept submission")
    return content, suffix_of(name)


def with_curve(kept: Kept, visible: Score | None) -> Kept:
    """Add the ROC curve on the validation set, if the loss is a distance from it."""
    if visible is None or not isinstance(visible.sums, RocCurve):
        return kept
    files = {_SUBMISSION: File(kept.content), _CURVE: File(visible.sums.to_bytes())}
    return replace(kept, content=archive.pack(files))


def room_of_curve(spec: MeterSpec, validation: ValidationSet) -> int:
    """Return how many bytes `with_curve` adds at most."""
    return 8 * validation.rows + _AROUND if spec.meter.sample.measured.curve else 0


def split_curve(corpus: Corpus, content: bytes) -> tuple[bytes, Score]:
    """Return the bytes of a submission, and the curve that was kept with it."""
    files = archive.unpack(content)
    curve = RocCurve.from_bytes(corpus, files[_CURVE].content)
    return files[_SUBMISSION].content, Score(curve, curve.counted)


def suffix_of(name: str) -> str:
    """Return the ending of what an entry names, which says what the bytes are."""
    return PurePosixPath(PurePosixPath(name).stem).suffix
