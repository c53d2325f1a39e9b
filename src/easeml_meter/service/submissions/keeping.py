"""What is kept of submissions, encrypted, until the test set is released.

Where the loss is the distance of two ROC curves, the one on the validation set is kept with the
submission.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from easeml_meter.core.model import Entry, ValidationSet
from easeml_meter.corpus import Corpus
from easeml_meter.scoring.corpora import RocCurve
from easeml_meter.scoring.score import Score
from easeml_meter.service.place import Workspace
from easeml_meter.spec import MeterSpec
from easeml_meter.tables import archive
from easeml_meter.tables.archive import File
from easeml_meter.vault.keys import unwrap, wrap

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
    return 8 * validation.rows + _AROUND if spec.curve else 0


def split_curve(corpus: Corpus, content: bytes) -> tuple[bytes, Score]:
    """Return the bytes of a submission, and the curve that was kept with it."""
    files = archive.unpack(content, 2)
    curve = RocCurve.from_bytes(corpus, files[_CURVE].content)
    return files[_SUBMISSION].content, Score(curve, curve.counted)


def suffix_of(name: str) -> str:
    """Return the ending of what an entry names, which says what the bytes are."""
    return PurePosixPath(PurePosixPath(name).stem).suffix
