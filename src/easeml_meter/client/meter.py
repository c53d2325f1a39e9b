"""`RemoteMeter`: a meter at a server, with the verbs of `MeterVerbs` in `meter.py`.

Sealing happens here, on the labeler's machine: only sealed files are sent.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from easeml_meter.checks import known
from easeml_meter.client import submissions
from easeml_meter.client.connection import Connection
from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import (
    AuditLink,
    Batch,
    LabelOrder,
    LabelRequest,
    MeterRecord,
    TestSet,
    ValidationSet,
    Wanted,
)
from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import Plan, plan_of
from easeml_meter.core.submissions import CheckedSubmission
from easeml_meter.core.views import (
    Audit,
    Consequence,
    Differences,
    History,
    SessionView,
    Signal,
    signal_from_json,
    view_from_json,
)
from easeml_meter.errors import (
    InvalidInput,
    MeterError,
    StorageError,
    Unreachable,
    WrongPhase,
    error_named,
)
from easeml_meter.meter import MeterVerbs
from easeml_meter.service.submissions.answering import Said
from easeml_meter.service.submissions.kinds import Submitted
from easeml_meter.service.submissions.measuring import USUAL, Conditions
from easeml_meter.service.testsets.checking import Asked
from easeml_meter.service.testsets.delivery import Choices, refuse_plain, seal_for
from easeml_meter.service.testsets.orders import Columns, encrypt_labels
from easeml_meter.service.testsets.reuse import LabelerDecisions
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.source import Source, file_digest, stamp_of
from easeml_meter.tables.writing import new_file, new_folder

if TYPE_CHECKING:
    from easeml_meter.vault.manifest import Manifest

_LOOK = 1.0
"""Seconds between two looks at a release that waits for a worker."""
_RELEASING = "models run once more at the server"
# What the readers take a file for goes by its ending; of several the server knows the first.
_ALIASES = {
    "pq": "parquet",
    "arrows": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    "ndjson": "jsonl",
}


class RemoteMeter(MeterVerbs):
    """A meter at a server. What may be done is up to the seats of whoever the token belongs to."""

    def __init__(self, connection: Connection, identifier: str) -> None:
        self._connection = connection
        self._id = identifier
        self.progress = USUAL.progress

    def __repr__(self) -> str:
        return f"<RemoteMeter {self._id} at {self._connection.server}>"

    def close(self) -> None:
        self._connection.close()

    @property
    def id(self) -> str:
        """The meter's id at its server."""
        return self._id

    @cached_property
    def _row(self) -> MeterRecord:
        found = self._get()
        return MeterRecord(found["id"], found["name"], found["settings"], found["created_at"])

    @cached_property
    def _spec(self) -> MeterSpec:
        return MeterSpec.from_mapping(self._row.settings)

    @property
    def spec(self) -> MeterSpec:
        return self._spec

    @property
    def plan(self) -> Plan:
        return plan_of(self.spec)

    @property
    def generations(self) -> tuple[TestSet, ...]:
        found = self._connection.listed(self._at("test-sets"))
        return tuple(TestSet.from_json(self._id, each) for each in found)

    def _seal(
        self, rows: Source, destination: Path, choices: Choices, recipients: Sequence[str]
    ) -> Manifest:
        # What is asked for comes from the server; the rows and their labels stay on this machine.
        requests = self.requests()
        if not requests:
            self._situation().requested()  # says why there is none
        sets = [ValidationSet.from_json(self._id, each) for each in self._validations()]
        asked = Asked.elsewhere(requests[-1], self.spec, sets[-1] if sets else None)
        return seal_for(asked, rows, destination, choices, recipients)

    def requests(self) -> list[LabelRequest]:
        found = self._connection.listed(self._at("requests"))
        return [LabelRequest.from_json(self._id, each) for each in found]

    def wanted(self) -> Wanted | None:
        found = self._connection.listed(self._at("wanted"))
        return next(map(Wanted.from_json, found), None)

    def _give_labels(self, labels: Source, columns: Columns) -> LabelOrder:
        asked = self.wanted()
        if asked is None:
            raise WrongPhase("no step waits for labels: nothing to give")
        stamp_of(labels)
        given = self._connection.call(
            "POST",
            self._at("wanted", "labels"),
            params={
                **_named(asdict(columns)),
                "file_name": labels.name[-200:],
                "kind": _kind(labels),
            },
            content=encrypt_labels(asked, labels),
            slow=True,
        )
        return replace(asked.order, given_at=given["given_at"])

    def export_inputs(self, destination: str | Path) -> int:
        from easeml_meter.tables.opening import open_table
        from easeml_meter.tables.writing import check_ending, write_table

        path = Path(destination)
        check_ending(path)
        active = self._situation().active()
        # The server sends Parquet, whatever the file is to become.
        with tempfile.TemporaryDirectory(prefix="easeml-meter-") as folder:
            sent = Path(folder) / "inputs.parquet"
            self._connection.download(self._at("test-sets", active.number, "inputs"), sent)
            table = open_table(sent)
            return write_table(path, table.schema, table.batches())

    def notices(self) -> list[dict[str, object]]:
        return list(self._connection.listed(self._at("notices")))

    def _validate(
        self, source: Source, columns: dict[str, str | None], *, first: bool
    ) -> ValidationSet:
        there = self._validations()
        if first and there:
            newest = ValidationSet.from_json(self._id, there[-1])
            named = [getattr(newest, name) == each for name, each in columns.items() if each]
            if all(named) and newest.digest == file_digest(source):
                return newest
            raise WrongPhase("there is a validation set already: use meter validation replace")
        if not first and not there:
            raise WrongPhase("there is no validation set yet: give one with meter validation set")
        kind = _kind(source)
        stamp_of(source)
        try:
            added = self._connection.call(
                "POST",
                self._at("validation-sets"),
                params={**_named(columns), "suffix": kind},
                content=source.read_bytes(),
                slow=True,
            )
        except InvalidInput as error:
            raise submissions.renamed(error, {f"validation.{kind}": source}) from None
        return ValidationSet.from_json(self._id, added)

    def submit_any(
        self,
        submitted: Submitted,
        *,
        model: str,
        tenant: int | None = None,
        conditions: Conditions = USUAL,
        **said: Unpack[Said],
    ) -> Signal:
        answer = submissions.submit(
            self._connection,
            self._at("submissions"),
            submitted,
            model=model,
            in_use=self._seen_sets,
            tenant=_tenant(tenant),
            conditions=conditions,
            charged=self.charges_broken_files,
            **said,
        )
        return signal_from_json(answer["signal"], self.spec)

    def charges_broken_files(self) -> bool:
        hidden = not self.spec.meter.sample.public or self.spec.meter.sample.takes_scores
        return hidden and any(seat["role"] == Role.RUNNER for seat in self._seats())

    def _seen_sets(self) -> dict[str, int]:
        numbers = [int(each["number"]) for each in self._validations()]
        found = {"validation_set": numbers[-1]} if numbers else {}
        return {"test_set": int(self._get()["generation"]), **found}

    def check_any(
        self,
        submitted: Submitted,
        *,
        tenant: int | None = None,
        conditions: Conditions = USUAL,
    ) -> CheckedSubmission:
        return submissions.check(
            self._connection,
            self._at("submissions", "check"),
            submitted,
            options=_tenant(tenant),
            conditions=conditions,
        )

    def status(self, *, generation: int | None = None, tenant: int | None = None) -> SessionView:
        chosen = {} if generation is None else {"generation": generation}
        return self._view(self._get("status", params={**chosen, **_tenant(tenant)}))

    def history(self, *, tenant: int | None = None) -> History:
        found = self._connection.listed(self._at("history"), _tenant(tenant))
        return History(self._view(each) for each in found)

    def promote(self, model: str, *, tenant: int | None = None) -> int:
        found = self._connection.call(
            "POST",
            self._at("submissions", "promote"),
            params=_tenant(tenant),
            json={"model": model},
        )
        return int(found["step"])

    def hand_over(self, giver: int, receiver: int, *, confirm: bool = False) -> Consequence:
        asked = {"giver": giver, "receiver": receiver, "confirm": confirm}
        found = self._connection.call("POST", self._at("handovers"), json=asked)
        return Consequence.from_json(found)

    def handovers(self) -> list[Consequence]:
        return list(map(Consequence.from_json, self._connection.listed(self._at("handovers"))))

    def answer_handover(self, giver: int, receiver: int, *, accept: bool) -> Consequence:
        given = {"giver": giver, "receiver": receiver, "accept": accept}
        found = self._connection.call("POST", self._at("handovers", "answer"), json=given)
        return Consequence.from_json(found)

    def retire(self) -> TestSet:
        number = self.generations[-1].number
        retired = self._connection.call("POST", self._at("test-sets", number, "retire"))
        return TestSet.from_json(self._id, retired)

    def archive(self) -> None:
        self._connection.call("POST", self._at("archive"))

    def release(self) -> Path:
        generations = self.generations
        spent = [row.number for row in generations if row.phase is Phase.SPENT]
        # Where none is spent, the server says what the newest one is instead.
        number = spent[0] if spent else generations[-1].number
        # Before the test set is released: a folder that cannot be written is found out in time.
        folder = new_folder(Path("released", str(number)))
        place = self._at("test-sets", number, "release")
        answer = self._connection.call("POST", place, slow=True)
        started = time.monotonic()
        while answer.get("state") == "waiting":  # models run once more, on a worker
            self.progress(_RELEASING, time.monotonic() - started, 0)
            time.sleep(_LOOK)
            answer = self._connection.call("GET", place)
        if answer.get("problem") is not None:
            raise error_named(answer["problem"]["error"], answer["problem"]["message"])
        return self.fetch_released(number, folder)

    def fetch_released(self, generation: int, folder: str | Path) -> Path:
        self._check_released(generation)
        folder = new_folder(Path(folder))
        place = self._at("test-sets", generation, "released")
        self._connection.download(f"{place}/testset.parquet", folder / "testset.parquet")
        tenants = self._get()["tenants"]
        records: list[Any] = []
        for tenant in (seen := self._seen(tenants)):
            name = "report.html" if tenants == 1 else f"report-{tenant}.html"
            self._connection.download(f"{place}/report.html", folder / name, _tenant(tenant))
            records += self._connection.call(
                "GET", f"{place}/retrospective.json", params=_tenant(tenant), kind=list
            )
        if seen:
            with new_file(folder / "retrospective.json") as file:
                file.write(json.dumps(records, indent=2).encode())
        return folder

    def _compare(
        self, number: int, steps: tuple[int | None, int | None], tenant: int | None, **shown: Any
    ) -> Differences:
        asked = _named(dict(zip(("first", "second"), steps, strict=True)))
        place = self._at("test-sets", number, "compare")
        params = {**asked, **shown, **_tenant(tenant)}
        return Differences.from_json(self._connection.call("GET", place, params=params))

    def batches(self) -> list[Batch]:
        return [
            Batch(**known(Batch, each)) for each in self._connection.listed(self._at("batches"))
        ]

    def fetch_batch(self, number: int, destination: str | Path) -> Path:
        destination = Path(destination)
        destination.parent.mkdir(parents=True, exist_ok=True)
        self._connection.download(self._at("batches", number), destination)
        return destination

    def audit(self) -> Audit:
        links: list[AuditLink] = []
        after: str | None = ""
        while after is not None:
            page = self._get("audit", params={"limit": 200, "after": after})
            for each in page["items"]:
                previous = links[-1].digest if links else ""
                own = {"meter": self._id, "previous": previous, "digest": each["digest"] or ""}
                links.append(AuditLink(**known(AuditLink, each, **own)))
            after = page["next"]
        return Audit(tuple(links), tuple(page["problems"]), tuple(page["restored"]))

    def _at(self, *parts: object) -> str:
        return "/".join(["/meters", self._id, *map(str, parts)])

    def _get(self, *parts: object, params: dict[str, Any] | None = None) -> Any:
        return self._connection.call("GET", self._at(*parts), params=params)

    def _situation(self) -> MeterState:
        return MeterState(self._row, self.spec, self.generations, None)

    def _view(self, data: dict[str, Any]) -> SessionView:
        return view_from_json(data, self.spec)

    def _add(self, path: Path, decisions: LabelerDecisions, *, part: bool) -> TestSet:
        def tell(done: float, total: float) -> None:
            self.progress(submissions.SENDING, done, total)

        refuse_plain(path)  # before anything is sent
        upload = self._connection.upload(self._at("uploads"), path, tell)
        self.progress("taking it in", 0, 0)
        asked = {"upload": upload, "part": part, **asdict(decisions)}
        try:
            added = self._connection.call("POST", self._at("test-sets"), json=asked, slow=True)
        except (Unreachable, StorageError):  # it may be taken in all the same
            raise
        except MeterError:
            self._connection.discard(self._at("uploads", upload))
            raise
        return TestSet.from_json(self._id, added)

    def _validations(self) -> list[Any]:
        return list(self._connection.listed(self._at("validation-sets")))

    def _copy_validation(self, folder: Path) -> tuple[ValidationSet, Path]:
        if not (found := self._validations()):
            raise WrongPhase("there is no validation set yet: give one with set_validation")
        newest = ValidationSet.from_json(self._id, found[-1])
        path = folder / f"validation{newest.suffix}"
        place = self._at("validation-sets", newest.number, "file")
        self._connection.download(place, path)
        return newest, path

    def _seen(self, tenants: int) -> list[int]:
        """List the tenants whose signals the caller sees here."""
        here = self._seats()
        if any(seat["role"] == Role.LABELER for seat in here):
            return list(range(1, tenants + 1))
        return sorted(seat["tenant"] for seat in here if seat["role"] == Role.DEVELOPER)

    def _seats(self) -> list[dict[str, Any]]:
        seats = self._connection.call("GET", "/me")["seats"]
        return [seat for seat in seats if seat["meter"] == self._id]


def _tenant(number: int | None) -> dict[str, int]:
    return {} if number is None else {"tenant": number}


def _named(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _kind(source: Source) -> str:
    """Return what readers take a file for, by its ending, as the server calls it."""
    ending = source.suffix.lower().removeprefix(".")
    return _ALIASES.get(ending, ending)
