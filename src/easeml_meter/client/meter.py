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
from typing import TYPE_CHECKING, Any

from easeml_meter.checks import known
from easeml_meter.client import submissions
from easeml_meter.client.connection import Connection
from easeml_meter.core.differences import Differences
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
from easeml_meter.service.submissions.kinds import Submitted
from easeml_meter.service.submissions.measuring import USUAL, Conditions
from easeml_meter.service.testsets.checking import Asked
from easeml_meter.service.testsets.delivery import Choices, refuse_plain, seal_for
from easeml_meter.service.testsets.orders import encrypt_labels
from easeml_meter.service.testsets.reuse import LabelerDecisions
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.files import stamp_of
from easeml_meter.tables.memory import Data, as_source
from easeml_meter.tables.source import Source
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
        """Told how far the upload of a test set has got."""

    def __repr__(self) -> str:
        return f"<RemoteMeter {self._id} at {self._connection.server}>"

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> RemoteMeter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        """The meter's id at its server."""
        return self._id

    @cached_property
    def _row(self) -> MeterRecord:
        """What never changes of a meter."""
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

    def seal(
        self,
        source: Data,
        destination: str | Path,
        *,
        label: str | None = None,
        id_column: str | None = None,
        recipients: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        keep_unknown_labels: bool = False,
        part: bool = False,
        cluster: str | None = None,
        judge: str | None = None,
    ) -> Manifest:
        # What is asked for comes from the server; the rows and their labels stay on this machine.
        requests = self.requests()
        if not requests:
            self._situation().requested()  # says why there is none
        sets = [ValidationSet.from_json(self._id, each) for each in self._validations()]
        return seal_for(
            Asked.elsewhere(requests[-1], self.spec, sets[-1] if sets else None),
            as_source(source, "rows", a_set=True),
            Path(destination),
            Choices(
                label=label,
                id_column=id_column,
                columns=columns,
                drop=drop,
                keep_unknown_labels=keep_unknown_labels,
                part=part,
                cluster=cluster,
                judge=judge,
            ),
            recipients,
        )

    def add_test_set(
        self, path: str | Path, *, ids_renumbered: bool = False, accept_shared: bool = False
    ) -> TestSet:
        return self._add(Path(path), LabelerDecisions(ids_renumbered, accept_shared), part=False)

    def add_part(
        self, path: str | Path, *, ids_renumbered: bool = False, accept_shared: bool = False
    ) -> TestSet:
        return self._add(Path(path), LabelerDecisions(ids_renumbered, accept_shared), part=True)

    def requests(self) -> list[LabelRequest]:
        found = self._connection.listed(self._at("requests"))
        return [LabelRequest.from_json(self._id, each) for each in found]

    def wanted(self) -> Wanted | None:
        found = self._connection.listed(self._at("wanted"))
        return next(map(Wanted.from_json, found), None)

    def give_labels(
        self,
        source: Data,
        *,
        label: str,
        id_column: str | None = None,
        keep_unknown_labels: bool = False,
    ) -> LabelOrder:
        path = as_source(source, "labels", a_set=True)
        asked = self.wanted()
        if asked is None:
            raise WrongPhase("no step waits for labels: nothing to give")
        ending = path.suffix.lower().removeprefix(".")
        stamp_of(path)
        chosen = _named(label=label, id_column=id_column, file_name=path.name[-200:])
        given = self._connection.call(
            "POST",
            self._at("wanted", "labels"),
            params={
                **chosen,
                "kind": _ALIASES.get(ending, ending),
                "keep_unknown_labels": keep_unknown_labels,
            },
            content=encrypt_labels(asked, path),
            slow=True,
        )
        return replace(asked.order, given_at=given["given_at"])

    def export_inputs(self, destination: str | Path) -> int:
        from easeml_meter.tables.opening import open_table
        from easeml_meter.tables.table_file import check_ending, write_table

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

    def set_validation(
        self,
        source: Data,
        *,
        label: str | None = None,
        id_column: str | None = None,
        cluster: str | None = None,
    ) -> ValidationSet:
        if self._validations():
            raise WrongPhase("there is a validation set already: use meter validation replace")
        return self._validate(source, _named(label=label, id_column=id_column, cluster=cluster))

    def replace_validation(
        self,
        source: Data,
        *,
        label: str | None = None,
        id_column: str | None = None,
        cluster: str | None = None,
    ) -> ValidationSet:
        if not self._validations():
            raise WrongPhase("there is no validation set yet: give one with meter validation set")
        return self._validate(source, _named(label=label, id_column=id_column, cluster=cluster))

    def submit_any(
        self,
        submitted: Submitted,
        *,
        model: str,
        tenant: int | None = None,
        conditions: Conditions = USUAL,
        once: bool = False,
        note: str = "",
        link: str = "",
    ) -> Signal:
        answer = submissions.submit(
            self._connection,
            self._at("submissions"),
            submitted,
            model=model,
            note=note,
            link=link,
            seen=self._seen_sets,
            options=({"once": True} if once else {}) | _tenant(tenant),
            tenant=_tenant(tenant),
            conditions=conditions,
        )
        return signal_from_json(answer["signal"], self.spec)

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

    def differences(
        self,
        first: int | None = None,
        second: int | None = None,
        *,
        generation: int | None = None,
        better: bool = False,
        page: int = 1,
        tenant: int | None = None,
    ) -> Differences:
        number = self._newest_released() if generation is None else generation
        steps = {"first": first, "second": second}
        asked = {name: step for name, step in steps.items() if step is not None}
        found = self._connection.call(
            "GET",
            self._at("test-sets", number, "compare"),
            params={**asked, "better": better, "page": page, **_tenant(tenant)},
        )
        return Differences.from_json(found)

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
        return Audit(tuple(links), tuple(page["problems"]))

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
        """Download the validation set in use."""
        if not (found := self._validations()):
            raise WrongPhase("there is no validation set yet: give one with set_validation")
        newest = ValidationSet.from_json(self._id, found[-1])
        path = folder / f"validation{newest.suffix}"
        place = self._at("validation-sets", newest.number, "file")
        self._connection.download(place, path)
        return newest, path

    def _validate(self, given: Data, params: dict[str, Any]) -> ValidationSet:
        path = as_source(given, "validation set", a_set=True)
        ending = path.suffix.lower().removeprefix(".")
        suffix = _ALIASES.get(ending, ending)
        try:
            added = self._connection.call(
                "POST",
                self._at("validation-sets"),
                params={**params, "suffix": suffix},
                content=_content(path),
                slow=True,
            )
        except InvalidInput as error:
            raise submissions.renamed(error, {f"validation.{suffix}": path}) from None
        return ValidationSet.from_json(self._id, added)

    def _seen(self, tenants: int) -> list[int]:
        """List the tenants whose signals the caller sees here."""
        seats = self._connection.call("GET", "/me")["seats"]
        here = [seat for seat in seats if seat["meter"] == self._id]
        if any(seat["role"] == Role.LABELER for seat in here):
            return list(range(1, tenants + 1))
        return sorted(seat["tenant"] for seat in here if seat["role"] == Role.DEVELOPER)


def _tenant(number: int | None) -> dict[str, int]:
    return {} if number is None else {"tenant": number}


def _named(**columns: str | None) -> dict[str, str]:
    """Return the columns that were named."""
    return {name: value for name, value in columns.items() if value is not None}


def _content(path: Source) -> bytes:
    stamp_of(path)
    return path.read_bytes()
