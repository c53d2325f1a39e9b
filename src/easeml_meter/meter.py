"""`Meter`: a meter in a folder, with the verbs of the command line.

`MeterVerbs` is what a meter in a folder and one at a server have in common.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from easeml_meter.core.differences import Differences
from easeml_meter.core.gate import Gate, Verdict, last_told
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import (
    Batch,
    LabelOrder,
    LabelRequest,
    TestSet,
    ValidationSet,
    Wanted,
)
from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import MeterPlan
from easeml_meter.core.submissions import CheckedSubmission
from easeml_meter.core.views import Audit, Consequence, History, SessionView, Signal
from easeml_meter.errors import Denied, InvalidInput, MeterError, WrongPhase
from easeml_meter.report import looks  # noqa: F401  so that what it returns shows itself
from easeml_meter.scoring.estimators import Estimator, predictions_of
from easeml_meter.scoring.ids import BY_IDS, RowMatching
from easeml_meter.service import audit, handovers, history, meters, validation
from easeml_meter.service.actor import Actor
from easeml_meter.service.place import Clock, Home, Workspace, utc_now
from easeml_meter.service.submissions import answering, checking, noting, promoting
from easeml_meter.service.submissions.kinds import PredictionFiles, Submitted
from easeml_meter.service.submissions.measuring import USUAL, Conditions, Progress
from easeml_meter.service.testsets import (
    delivery,
    differences,
    inputs,
    orders,
    parts,
    release,
    requests,
    windows,
)
from easeml_meter.service.testsets.delivery import Choices
from easeml_meter.service.testsets.reuse import Decisions
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.memory import ID, Data, as_source
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.writing import new_file, new_folder

if TYPE_CHECKING:
    from easeml_meter.vault.manifest import Manifest


class MeterVerbs(Protocol):
    """What can be done with a meter, wherever it is. Raises `MeterError` when it cannot."""

    progress: Progress
    """Told how far sending a test set has got, where it is sent, and what a release waits for."""

    def __str__(self) -> str:
        """Print where the meter stands; its name for those who may not see that."""
        try:
            return str(self.status())
        except MeterError:
            return repr(self)

    def to_dict(self) -> dict[str, Any]:
        """Return where the meter stands as JSON has it, as `meter status --json` does."""
        return self.status().to_dict()

    def _repr_html_(self) -> str | None:
        """Draw where the meter stands, in a notebook; nothing for those who may not see that."""
        try:
            return self.status()._repr_html_()
        except MeterError:
            return None

    @property
    def spec(self) -> MeterSpec:
        """The specification in force."""

    @property
    def plan(self) -> MeterPlan:
        """How many labels each test set needs, and why."""

    @property
    def generations(self) -> tuple[TestSet, ...]:
        """All test sets, the oldest first."""

    def close(self) -> None:
        """Close the database or the connection."""

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
        """Seal labelled rows for the test set that is requested (labelers).

        `columns` are the inputs (None: all), `drop` those that are none. `keep_unknown_labels`
        says that labels outside the class list are meant, `part` that more rows will follow.
        Without `label`, for a loss made of scores, only ids and `columns` are sealed. `cluster` is
        the column that says which rows belong together, for a meter planned with clusters.
        `judge` is the column of a judge's words, where rows without a label have one.
        """

    def add_test_set(
        self, path: str | Path, *, ids_renumbered: bool = False, accept_shared: bool = False
    ) -> TestSet:
        """Add a sealed test set (labelers).

        `ids_renumbered`: ids that earlier sets have with other inputs are other examples.
        `accept_shared`: rows with the inputs of earlier sets were drawn independently.
        """

    def add_part(
        self, path: str | Path, *, ids_renumbered: bool = False, accept_shared: bool = False
    ) -> TestSet:
        """Add some of the rows, sealed; the test set is active when there are enough (labelers)."""

    def requests(self) -> list[LabelRequest]:
        """Return the open requests for labels, and how far they have got (labelers)."""

    def wanted(self) -> Wanted | None:
        """Return the labels that a step waits for, with labels on demand (labelers)."""

    def give_labels(
        self,
        source: Data,
        *,
        label: str,
        id_column: str | None = None,
        keep_unknown_labels: bool = False,
    ) -> LabelOrder:
        """Give the labels that a step waits for, which is then answered (labelers).

        Rows that were not asked for are left out. `id_column`: if it is called something else than
        in the test set. `keep_unknown_labels` says that labels outside the class list are meant.
        """

    def export_inputs(self, destination: str | Path) -> int:
        """Write the test inputs, without labels; developers may if they are public."""

    def notices(self) -> list[dict[str, object]]:
        """Return what only labelers are told."""

    def set_validation(
        self,
        source: Data,
        *,
        label: str | None = None,
        id_column: str | None = None,
        cluster: str | None = None,
    ) -> ValidationSet:
        """Give the first validation set (developers); predictions are joined by its ids, if any."""

    def replace_validation(
        self,
        source: Data,
        *,
        label: str | None = None,
        id_column: str | None = None,
        cluster: str | None = None,
        reset: bool = False,
    ) -> ValidationSet:
        """Replace the validation set, from the next submission on (developers)."""

    def submit(
        self,
        test: Data,
        validation: Data,
        *,
        model: str,
        tenant: int | None = None,
        matching: RowMatching = BY_IDS,
        once: bool = False,
        ask: str = "",
    ) -> Signal:
        """Submit predictions on the test set and on the validation set; get an answer.

        `once`: the answer to an earlier model of this name is good enough. `ask`: which of the
        meter's questions, if it has several; the usual one by default.
        """
        given = _predictions(test, validation, matching)
        with _in_python():
            return self.submit_any(given, model=model, tenant=tenant, once=once, ask=ask)

    def evaluate(
        self,
        estimator: Estimator,
        *,
        model: str,
        tenant: int | None = None,
        once: bool = False,
        ask: str = "",
    ) -> Signal:
        """Let an estimator (anything with `predict`) predict on both sets, and submit that.

        It needs test inputs that you may see. It gets a DataFrame with the columns it was fitted
        with if it knows their names, else an array; `predict_proba` is asked where the loss
        compares probabilities.
        """
        with tempfile.TemporaryDirectory(prefix="easeml-meter-") as name:
            exported = Path(name, "inputs.arrow")
            try:
                self.export_inputs(exported)
            except Denied as error:
                ways = "submit the model itself (submit_any with an OnnxFile or a Command)"
                raise Denied(f"{error}: {ways}") from None
            hidden = open_table(exported)
            given, path = self._copy_validation(Path(name))
            types = dict(zip(hidden.columns, hidden.schema.types, strict=True))
            visible = open_table(path, types=types, texts=[given.label])
            loss = self.spec.loss
            known = self.generations[-1].manifest or {}
            # The names of clusters are no inputs: a model would not have them in use.
            apart = [name for name in (known.get("cluster_column"),) if name]
            inputs = hidden.in_memory().drop_columns(apart)
            test = predictions_of(estimator, inputs, loss, known.get("id_column"))
            apart = [name for name in (given.label, given.cluster) if name]
            inputs_seen = visible.in_memory().drop_columns(apart)
            validation = predictions_of(estimator, inputs_seen, loss, given.id_column)
        return self.submit(test, validation, model=model, tenant=tenant, once=once, ask=ask)

    def _copy_validation(self, folder: Path) -> tuple[ValidationSet, Path]:
        """Write the validation set in use to a folder, as it was given."""

    def submit_any(
        self,
        submitted: Submitted,
        *,
        model: str,
        tenant: int | None = None,
        conditions: Conditions = USUAL,
        once: bool = False,
        ask: str = "",
    ) -> Signal:
        """Submit predictions (`PredictionFiles`) or a model (`OnnxFile`, `Command`, `Function`)."""

    def check(
        self,
        test: Data,
        validation: Data,
        *,
        tenant: int | None = None,
        matching: RowMatching = BY_IDS,
        ask: str = "",
    ) -> CheckedSubmission:
        """Return how the meter understands predictions: free, and without touching a label."""
        given = _predictions(test, validation, matching)
        with _in_python():
            return self.check_any(given, tenant=tenant, ask=ask)

    def check_any(
        self,
        submitted: Submitted,
        *,
        tenant: int | None = None,
        conditions: Conditions = USUAL,
        ask: str = "",
    ) -> CheckedSubmission:
        """Return how the meter understands a submission: free, and without touching a label."""

    def status(self, *, generation: int | None = None, tenant: int | None = None) -> SessionView:
        """Return a session: the answers so far, what they promise, what is left."""

    def history(self, *, tenant: int | None = None) -> History:
        """Return the sessions of all test sets delivered so far."""

    def gate(self, model: str, gate: Gate, *, tenant: int | None = None) -> Verdict:
        """Say whether a model passes, by the newest answer to it: free, and repeatable."""
        return gate.judge(last_told(self.history(tenant=tenant), model))

    def promote(self, model: str, *, tenant: int | None = None) -> int:
        """Compare the next submissions with this model, which has passed; return its step."""

    def note(
        self,
        submission: int | str,
        text: str = "",
        *,
        link: str = "",
        generation: int | None = None,
        tenant: int | None = None,
    ) -> int:
        """Note something on a submission, by its step or the name of its model; return its step.

        The `link` may lead to a commit or a run. Without a text and a link, the note is taken away.
        """

    def hand_over(self, giver: int, receiver: int, *, confirm: bool = False) -> Consequence:
        """Return what it costs if one tenant goes on from another's model; `confirm` requests it.

        It counts once all tenants have agreed that would share the history.
        """

    def handovers(self) -> list[Consequence]:
        """Return the hand-overs that wait for a tenant to agree."""

    def answer_handover(self, giver: int, receiver: int, *, accept: bool) -> Consequence:
        """Agree to a hand-over that was requested, or decline it."""

    def retire(self) -> TestSet:
        """Retire the active test set early, and request the next one (labelers and admins)."""

    def archive(self) -> None:
        """Give the meter up before its first answer, for good (admins)."""

    def release(self) -> Path:
        """Hand out a spent test set in the clear, with the retrospective report (labelers)."""

    def fetch_released(self, generation: int, folder: str | Path) -> Path:
        """Write the files of a released test set to a new folder."""

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
        """Compare two submissions, by their steps, on a released test set, example by example.

        Unless given, these are the first and the last, on the newest test set that is released.
        `better`: the examples that became better, in place of those that became worse.
        """

    def _newest_released(self) -> int:
        """Return the newest released test set, else the newest, whose refusal says why."""
        known = self.generations
        released = [each for each in known if each.phase is Phase.RELEASED]
        return (released or known)[-1].number

    def batches(self) -> list[Batch]:
        """Return the batches that have left the window of a rolling test set."""

    def fetch_batch(self, number: int, destination: str | Path) -> Path:
        """Write a batch that has left a rolling test set, with its labels, to a Parquet file."""

    def audit(self) -> Audit:
        """Verify the chain of everything that was disclosed."""


class Meter(MeterVerbs):
    """A meter in a folder: SQLite, a key, sealed files. Embedded mode is an honour system."""

    def __init__(
        self, workspace: Workspace, role: Role = Role.OWNER, tenant: int = 1, user: str = ""
    ) -> None:
        self.workspace = workspace
        self.progress = USUAL.progress
        self._actor = replace(Actor.embedded(role, tenant), user=user)

    @classmethod
    def create(
        cls, folder: str | Path, spec: MeterSpec, *, name: str = "meter", clock: Clock = utc_now
    ) -> Meter:
        """Create a meter and request its first test set."""
        return cls(meters.create_in_folder(Home(Path(folder)), spec, name, clock))

    @classmethod
    def open(
        cls,
        folder: str | Path = ".",
        *,
        role: Role = Role.OWNER,
        tenant: int = 1,
        clock: Clock = utc_now,
    ) -> Meter:
        """Open the meter in a folder; developers and runners are of one team, the others of all."""
        return cls(Workspace.open(Path(folder), clock), role, tenant)

    def __repr__(self) -> str:
        return f"<Meter in {self.workspace.files.location('')!r}>"

    def close(self) -> None:
        """Close the database."""
        self.workspace.store.close()

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def spec(self) -> MeterSpec:
        """The specification in force."""
        return meters.meter_state(self._actor, self.workspace).spec

    @property
    def plan(self) -> MeterPlan:
        """How many labels each test set needs, and why."""
        return meters.show_meter(self._actor, self.workspace).plan

    @property
    def generations(self) -> tuple[TestSet, ...]:
        """All test sets, the oldest first."""
        return requests.list_test_sets(self._actor, self.workspace)

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
        """Seal labelled rows for the test set that is requested (labelers).

        `columns` are the inputs (None: all), `drop` those that are none. `keep_unknown_labels`
        says that labels outside the class list are meant, `part` that more rows will follow.
        Without `label`, for a loss made of scores, only ids and `columns` are sealed. `cluster` is
        the column that says which rows belong together, for a meter planned with clusters.
        `judge` is the column of a judge's words, where rows without a label have one.
        """
        return delivery.seal_labels(
            self._actor,
            self.workspace,
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
        """Add a sealed test set (labelers).

        `ids_renumbered`: ids that earlier sets have with other inputs are other examples.
        `accept_shared`: rows with the inputs of earlier sets were drawn independently.
        """
        decisions = Decisions(ids_renumbered, accept_shared)
        return delivery.add_test_set(self._actor, self.workspace, Path(path), decisions)

    def add_part(
        self, path: str | Path, *, ids_renumbered: bool = False, accept_shared: bool = False
    ) -> TestSet:
        """Add some of the rows, sealed; the test set is active when there are enough (labelers)."""
        decisions = Decisions(ids_renumbered, accept_shared)
        return parts.add_labels(
            self._actor, self.workspace, Path(path), decisions, part=True
        ).test_set

    def requests(self) -> list[LabelRequest]:
        """Return the open requests for labels, and how far they have got (labelers)."""
        return requests.list_requests(self._actor, self.workspace)

    def wanted(self) -> Wanted | None:
        """Return the labels that a step waits for, with labels on demand (labelers)."""
        return orders.wanted(self._actor, self.workspace)

    def give_labels(
        self,
        source: Data,
        *,
        label: str,
        id_column: str | None = None,
        keep_unknown_labels: bool = False,
    ) -> LabelOrder:
        """Give the labels that a step waits for, which is then answered (labelers).

        Rows that were not asked for are left out. `id_column`: if it is called something else than
        in the test set. `keep_unknown_labels` says that labels outside the class list are meant.
        """
        return orders.give_labels(
            self._actor,
            self.workspace,
            as_source(source, "labels", a_set=True),
            orders.Columns(
                label=label, id_column=id_column, keep_unknown_labels=keep_unknown_labels
            ),
        )

    def export_inputs(self, destination: str | Path) -> int:
        """Write the test inputs, without labels; developers may if they are public."""
        return inputs.export_inputs(self._actor, self.workspace, Path(destination))

    def notices(self) -> list[dict[str, object]]:
        """Return what only labelers are told."""
        return [each.to_json() for each in validation.list_notices(self._actor, self.workspace)]

    def set_validation(
        self,
        source: Data,
        *,
        label: str | None = None,
        id_column: str | None = None,
        cluster: str | None = None,
    ) -> ValidationSet:
        """Give the first validation set (developers); predictions are joined by its ids, if any."""
        return validation.set_validation(
            self._actor,
            self.workspace,
            as_source(source, "validation set", a_set=True),
            label=label,
            id_column=id_column,
            cluster=cluster,
        )

    def replace_validation(
        self,
        source: Data,
        *,
        label: str | None = None,
        id_column: str | None = None,
        cluster: str | None = None,
        reset: bool = False,
    ) -> ValidationSet:
        """Replace the validation set, from the next submission on (developers)."""
        return validation.replace_validation(
            self._actor,
            self.workspace,
            as_source(source, "validation set", a_set=True),
            label=label,
            id_column=id_column,
            cluster=cluster,
            reset=reset,
        )

    def submit_any(
        self,
        submitted: Submitted,
        *,
        model: str,
        tenant: int | None = None,
        conditions: Conditions = USUAL,
        once: bool = False,
        ask: str = "",
    ) -> Signal:
        """Submit predictions (`PredictionFiles`) or a model (`OnnxFile`, `Command`, `Function`)."""
        actor, space = self._acting(tenant), self.workspace
        return answering.answer(actor, space, submitted, model, conditions, once=once, ask=ask)

    def check_any(
        self,
        submitted: Submitted,
        *,
        tenant: int | None = None,
        conditions: Conditions = USUAL,
        ask: str = "",
    ) -> CheckedSubmission:
        """Return how the meter understands a submission: free, and without touching a label.

        A model is run on the validation set.
        """
        return checking.check(self._acting(tenant), self.workspace, submitted, conditions, ask=ask)

    def status(self, *, generation: int | None = None, tenant: int | None = None) -> SessionView:
        """Return a session: the answers so far, what they promise, what is left."""
        return history.show_session(self._acting(tenant), self.workspace, generation)

    def history(self, *, tenant: int | None = None) -> History:
        """Return the sessions of all test sets delivered so far."""
        return History(history.list_sessions(self._acting(tenant), self.workspace))

    def promote(self, model: str, *, tenant: int | None = None) -> int:
        """Compare the next submissions with this model, which has passed; return its step."""
        return promoting.promote(self._acting(tenant), self.workspace, model).step

    def note(
        self,
        submission: int | str,
        text: str = "",
        *,
        link: str = "",
        generation: int | None = None,
        tenant: int | None = None,
    ) -> int:
        """Note something on a submission, by its step or the name of its model; return its step.

        The `link` may lead to a commit or a run. Without a text and a link, the note is taken away.
        """
        return noting.note(
            self._acting(tenant),
            self.workspace,
            submission,
            text=text,
            link=link,
            generation=generation,
        ).step

    def hand_over(self, giver: int, receiver: int, *, confirm: bool = False) -> Consequence:
        """Return what it costs if one tenant goes on from another's model; `confirm` records it.

        Whoever uses a meter in a folder acts for all tenants, so nobody else has to agree.
        """
        return handovers.hand_over(self._actor, self.workspace, giver, receiver, confirm=confirm)

    def handovers(self) -> list[Consequence]:
        """Return the hand-overs that wait for a tenant to agree."""
        return handovers.list_handovers(self._actor, self.workspace)

    def answer_handover(self, giver: int, receiver: int, *, accept: bool) -> Consequence:
        """Agree to a hand-over that was requested, or decline it."""
        return handovers.answer_handover(
            self._actor, self.workspace, giver, receiver, accept=accept
        )

    def retire(self) -> TestSet:
        """Retire the active test set early, and request the next one (labelers and admins)."""
        return requests.retire_test_set(self._actor, self.workspace)

    def archive(self) -> None:
        """Give the meter up before its first answer, for good (admins)."""
        meters.archive_meter(self._actor, self.workspace)

    def release(self) -> Path:
        """Hand out a spent test set in the clear, with the retrospective report (labelers)."""
        from easeml_meter.report.page import html_page

        released = release.release(self._actor, self.workspace, draw=html_page)
        return self._released(released.number)

    def _copy_validation(self, folder: Path) -> tuple[ValidationSet, Path]:
        """Return the validation set in use, where it lies."""
        found = validation.list_validation_sets(self._actor, self.workspace)
        if not found:
            raise WrongPhase("there is no validation set yet: give one with set_validation")
        return found[-1], Path(self.workspace.files.location(found[-1].blob))

    def fetch_released(self, generation: int, folder: str | Path) -> Path:
        """Write the files of a released test set to a new folder."""
        release.released_test_set(self._actor, self.workspace, generation)  # whether there is one
        where = new_folder(Path(folder))
        shutil.copytree(self._released(generation), where, dirs_exist_ok=True)
        return where

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
        """Compare two submissions, by their steps, on a released test set, example by example.

        Unless given, these are the first and the last, on the newest test set that is released.
        `better`: the examples that became better, in place of those that became worse.
        """
        number = self._newest_released() if generation is None else generation
        return differences.compare_submissions(
            self._acting(tenant), self.workspace, number, (first, second), better=better, page=page
        )

    def batches(self) -> list[Batch]:
        """Return the batches that have left the window of a rolling test set."""
        return windows.released_batches(self._actor, self.workspace)

    def fetch_batch(self, number: int, destination: str | Path) -> Path:
        """Write a batch that has left a rolling test set, with its labels, to a Parquet file."""
        name = windows.released_batch(self._actor, self.workspace, number)
        destination = Path(destination)
        destination.parent.mkdir(parents=True, exist_ok=True)
        with new_file(destination) as stream:
            stream.write(self.workspace.files.read(name))
        return destination

    def audit(self) -> Audit:
        """Verify the chain of everything that was disclosed."""
        return audit.verify(self._actor, self.workspace)

    def _released(self, number: int) -> Path:
        return Path(self.workspace.files.location(release.released_folder(number)))

    def _acting(self, tenant: int | None) -> Actor:
        return self._actor if tenant is None else replace(self._actor, tenant=tenant)


def _predictions(test: Data, validation: Data, matching: RowMatching) -> PredictionFiles:
    if matching == BY_IDS and isinstance(test, Mapping) and isinstance(validation, Mapping):
        matching = RowMatching(id_column=ID)  # a dict does not know what its keys are called
    return PredictionFiles(as_source(test, "test"), as_source(validation, "validation"), matching)


_IN_PYTHON = {
    "(--id)": "(matching=RowMatching(id_column=...))",
    "(--no-ids)": "(matching=RowMatching(in_order=True))",
}


@contextmanager
def _in_python() -> Iterator[None]:
    """Name arguments where a refusal, which may come from a server, names options."""
    try:
        yield
    except InvalidInput as error:
        said = str(error)
        for option, argument in _IN_PYTHON.items():
            said = said.replace(option, argument)
        if said == str(error):
            raise
        raise InvalidInput(said) from None
