"""The domain's values: meters, test sets, validation sets, entries, hand-overs, audit links."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from easeml_meter.checks import known
from easeml_meter.core.lifecycle import Phase


class Event(StrEnum):
    """What the audit chain records; the words are stored, so they never change."""

    CREATED = "created"
    REQUESTED = "requested"
    REQUEST_DESCRIBED = "request described"
    PART_ADDED = "part added"
    PART_WITHDRAWN = "part withdrawn"
    TEST_SET_ADDED = "test set added"
    BATCH_RELEASED = "batch released"
    TOPPED_UP = "topped up"
    REUSE_REFUSED = "reuse refused"
    SEALING_FAILED = "too few counted rows"
    RETIRED = "retired"
    SPENT = "spent"
    RELEASED = "released"
    ARCHIVED = "archived"
    VALIDATION_SET = "validation set"
    VALIDATION_REPLACED = "validation replaced"
    LABELS_ASKED = "labels asked for"
    LABELS_GIVEN = "labels given"
    TOLD = "told"
    PROMOTED = "promoted"
    PROMOTION_MISSING = "promotion was missing"
    HANDED_OVER = "handed over"
    HAND_OVER_REQUESTED = "hand-over requested"
    HAND_OVER_AGREED = "hand-over agreed"
    HAND_OVER_DECLINED = "hand-over declined"
    HAND_OVER_MISSING = "hand-over was missing"
    BOOKS_BEHIND = "books were behind the journal"
    RESTORED = "restored"
    KEY_CHANGED = "key changed"
    MEMBER_ADDED = "member added"
    MEMBER_REMOVED = "member removed"
    PASSWORD_SET = "password set by an admin"  # noqa: S105 - an event, not a password
    INVITATION_REDEEMED = "password chosen by invitation"
    ACCOUNT_DISABLED = "account disabled"
    ACCOUNT_ENABLED = "account enabled"


DRAWS = "draws"
"""In the links of a test set with drawn edges: the digest of the secret, at release the secret."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the labels that were asked for."""

    meter: str
    generation: int
    number: int
    rows: int
    digest: str
    blob: str
    added_by: str
    added_at: str


@dataclass(frozen=True, slots=True)
class Batch:
    """The labels that left a rolling test set after one of its windows, and are released."""

    number: int
    """That of the window whose oldest batch it was."""
    rows: int


@dataclass(frozen=True, slots=True)
class LabelOrder:
    """Labels of an active test set that a step waits for, or has waited for."""

    generation: int
    number: int
    """From 1, on each test set."""
    labels: int
    at: str
    given_at: str = ""
    """Empty: they have not come yet."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a labeler is asked for now: the label of each of these rows."""

    order: LabelOrder
    id_column: str
    ids: tuple[str, ...]
    """In the order of the test set: nothing tells in which of these rows two models differ."""
    recipients: tuple[str, ...]
    """Public keys (age) to encrypt the labels to."""

    def to_json(self) -> dict[str, Any]:
        """Return what labelers may know."""
        return {
            "generation": self.order.generation,
            "number": self.order.number,
            "labels": self.order.labels,
            "since": self.order.at,
            "id_column": self.id_column,
            "ids": list(self.ids),
            "recipients": list(self.recipients),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Wanted:
        """Return what `to_json` told."""
        order = LabelOrder(data["generation"], data["number"], data["labels"], data["since"])
        return cls(order, data["id_column"], tuple(data["ids"]), tuple(data["recipients"]))


@dataclass(frozen=True, slots=True)
class Upload:
    """A sealed file that is being sent in pieces."""

    id: str
    meter: str
    user: str
    name: str
    size: int
    created_at: str
    digest: str | None = None
    """Of the file, once it was taken in; until the upload is swept, it says what became of it."""


@dataclass(frozen=True, slots=True)
class MeterRecord:
    """A meter."""

    id: str
    name: str
    settings: dict[str, Any]
    created_at: str


@dataclass(frozen=True, slots=True, repr=False)
class TestSet:
    """A test set, requested or delivered. The books call it a generation of its meter."""

    __test__: ClassVar[bool] = False  # its name looks like a test to pytest
    meter: str
    number: int
    phase: Phase
    labels_needed: int
    changed_at: str
    rows: int | None = None
    """How many examples it has, which the promise counts: rows, or clusters of rows."""
    fingerprint: str | None = None
    manifest: dict[str, Any] | None = None
    blob: str | None = None
    reason: str | None = None
    """Why it was asked for, in the labelers' words."""
    deadline: str | None = None

    def __post_init__(self) -> None:
        # Databases and backups hold the word.
        object.__setattr__(self, "phase", Phase(self.phase))

    def __repr__(self) -> str:
        rows = f"{self.table_rows:,} rows"
        size = rows if self.table_rows else f"{self.labels_needed:,} labels needed"
        return f"<TestSet {self.number}: {self.phase}, {size}>"

    @property
    def needs_labels(self) -> bool:
        """Whether labelers were asked for it, and it was not delivered yet."""
        return self.phase is Phase.REQUESTED

    @property
    def active(self) -> bool:
        """Whether it answers submissions."""
        return self.phase is Phase.ACTIVE

    @property
    def released(self) -> bool:
        """Whether it was handed out in the clear."""
        return self.phase is Phase.RELEASED

    @property
    def table_rows(self) -> int:
        """How many rows predictions on it have; 0: it was not delivered yet."""
        return int((self.manifest or {}).get("rows", self.rows) or 0)

    @property
    def cluster_column(self) -> str | None:
        """Name of the column of clusters, where one example is a cluster of rows."""
        return (self.manifest or {}).get("cluster_column")

    def to_json(self) -> dict[str, Any]:
        """Return what everyone with a seat may know; the fingerprint and the blob stay here."""
        manifest = self.manifest or {"columns": [], "label": {"name": None}, "id_column": None}
        return {
            "generation": self.number,
            "phase": str(self.phase),
            "rows": self.rows,
            "labels_needed": self.labels_needed,
            "changed_at": self.changed_at,
            "columns": manifest["columns"],
            "label": manifest["label"]["name"],
            "id_column": manifest["id_column"],
            "cluster_column": self.cluster_column,
            "table_rows": self.table_rows,
        }

    @classmethod
    def from_json(cls, meter: str, data: dict[str, Any]) -> TestSet:
        """Return what `to_json` told of a test set."""
        manifest = None
        if data["columns"]:
            label = next(each for each in data["columns"] if each["name"] == data["label"])
            manifest = {"columns": data["columns"], "label": label, "id_column": data["id_column"]}
            manifest["cluster_column"] = data["cluster_column"]
            manifest["rows"] = data["table_rows"]
        return cls(
            meter=meter,
            number=data["generation"],
            phase=Phase(data["phase"]),
            labels_needed=data["labels_needed"],
            changed_at=data["changed_at"],
            rows=data["rows"],
            manifest=manifest,
        )


@dataclass(frozen=True, slots=True)
class LabelRequest:
    """A request for the labels of a test set, with what was delivered for it so far."""

    test_set: TestSet
    recipients: tuple[str, ...]
    """Public keys (age) to seal the labels to."""
    parts: tuple[Part, ...]
    strata: tuple[tuple[str, int], ...] = ()
    """How many rows each stratum has to have, by its name; empty: there are no strata."""

    @property
    def labels_here(self) -> int:
        """Rows delivered so far."""
        return self.test_set.rows or sum(part.rows for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        """Return what labelers may know."""
        asked = self.test_set
        shown = ("number", "rows", "added_by", "added_at")
        return {
            "generation": asked.number,
            "labels_needed": asked.labels_needed,
            "labels_here": self.labels_here,
            "reason": asked.reason,
            "deadline": asked.deadline,
            "recipients": list(self.recipients),
            "since": asked.changed_at,
            "strata": dict(self.strata) or None,
            "parts": [{name: getattr(part, name) for name in shown} for part in self.parts],
        }

    @classmethod
    def from_json(cls, meter: str, data: dict[str, Any]) -> LabelRequest:
        """Return what `to_json` told of a request."""
        number = data["generation"]
        asked = TestSet(
            meter=meter,
            number=number,
            phase=Phase.REQUESTED,
            labels_needed=data["labels_needed"],
            changed_at=data["since"],
            reason=data["reason"],
            deadline=data["deadline"],
        )
        own = {"meter": meter, "generation": number, "digest": "", "blob": ""}
        parts = (Part(**known(Part, each, **own)) for each in data["parts"])
        strata = tuple((data.get("strata") or {}).items())
        return cls(asked, tuple(data["recipients"]), tuple(parts), strata)


@dataclass(frozen=True, slots=True, repr=False)
class ValidationSet:
    """A validation set; the one with the highest number is in use."""

    meter: str
    number: int
    digest: str
    rows: int
    settings: dict[str, Any]
    blob: str
    added_at: str

    def __repr__(self) -> str:
        return f"<ValidationSet {self.number}: {self.rows:,} rows>"

    @property
    def identity(self) -> str:
        """What losses on it follow from: the digest of its file, and of which columns are which."""
        columns = [self.settings["label"], self.id_column, self.cluster]
        if columns == ["label", None, None]:
            return self.digest
        return hashlib.sha256(json.dumps([self.digest, *columns]).encode()).hexdigest()

    @property
    def label(self) -> str:
        """Name of the label column."""
        return str(self.settings["label"])

    @property
    def id_column(self) -> str | None:
        """Name of the id column; None: rows are known by their order alone."""
        return self.settings.get("id_column")

    @property
    def cluster(self) -> str | None:
        """Name of the column of clusters, where one example is a cluster of rows."""
        return self.settings.get("cluster")

    @property
    def suffix(self) -> str:
        """The ending of its file, which says the format."""
        return os.path.splitext(self.blob)[1]

    def to_json(self) -> dict[str, Any]:
        """Return what those who may read the file may know of it."""
        shown = ("number", "rows", "digest", "label", "id_column", "cluster", "added_at", "suffix")
        named = {name: getattr(self, name) for name in shown}
        return {**named, "classes": self.settings["classes"]}

    @classmethod
    def from_json(cls, meter: str, data: dict[str, Any]) -> ValidationSet:
        """Return what `to_json` told of a validation set."""
        told = {name: data[name] for name in ("number", "rows", "digest", "added_at")}
        settings = {name: data[name] for name in ("label", "id_column", "classes", "cluster")}
        blob = f"validation{data['suffix']}"
        return cls(meter=meter, settings=settings, blob=blob, **told)


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer that was told."""

    meter: str
    generation: int
    tenant: int
    """From 1, as everywhere."""
    step: int
    answer: str
    model: str
    submission: str
    validation_number: int
    validation_set: str
    """Digest of the validation set it was measured against."""
    validation_loss: str
    blob: str
    told_at: str
    user: str = ""
    """Id of whoever submitted it, where people have accounts."""
    first_edge: str = ""
    """Where the bands of this answer begin, as a fraction, if a band was told of drawn edges."""
    old: int = 0
    """The step of the model that it was compared with; 0: with none."""
    token: str = ""
    """Id of the token it was submitted with, if that has a pace: its answers are counted."""
    note: str = ""
    """What its sender noted on it, for all who see the answer."""
    link: str = ""
    """Where that leads, such as to a commit; empty: nowhere."""


@dataclass(frozen=True, slots=True)
class AuditLink:
    """One link of the audit chain."""

    meter: str
    number: int
    at: str
    event: str
    details: dict[str, Any]
    previous: str
    digest: str


@dataclass(frozen=True, slots=True)
class HandOver:
    """A checkpoint that one tenant gave to another: from then on they share one history."""

    meter: str
    generation: int
    giver: int
    receiver: int
    at: str


@dataclass(frozen=True, slots=True)
class Promotion:
    """A model that a tenant's next ones are compared with, as the journal keeps it."""

    tenant: int
    step: int
    model: str
    at: str


@dataclass(frozen=True, slots=True)
class HandOverRequest:
    """A hand-over that waits until every tenant whose budget it spends has agreed."""

    meter: str
    generation: int
    giver: int
    receiver: int
    agreed: list[int]
    """The tenants that have agreed; whoever requested it is among them."""
    at: str


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """A release that waits for a worker, because models have to run once more for it."""

    id: str
    meter: str
    generation: int
    user: str
    """Id of whoever asked for it."""
    turn: int
    """When it is its turn among all that wait for a worker."""
    attempts: int
    problem: dict[str, str] | None
    """Why it was given up, in the words of an error; None: it waits, or is under way."""
    at: str


def stamp(moment: datetime) -> str:
    """Write a moment as text that sorts in time."""
    return moment.isoformat(timespec="microseconds")
