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
from typing import TYPE_CHECKING, Any, Protocol, Required, Self, Unpack

from easeml_meter.core.gate import Gate, GateVerdict, last_told
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
from easeml_meter.core.questions.labels import (
    plan_alarm,
    plan_labels,
    starts_with_alarm,
)
from easeml_meter.core.questions.planning import Plan
from easeml_meter.core.submissions import CheckedSubmission
from easeml_meter.core.views import Audit, Consequence, Differences, History, SessionView, Signal
from easeml_meter.errors import (
    IN_PYTHON,
    Denied,
    InvalidInput,
    MeterError,
    NotFound,
    WrongPhase,
    invalid,
    spoken,
)
from easeml_meter.report import looks  # noqa: F401  so that what it returns shows itself
from easeml_meter.scoring.estimators import Estimator, predictions_of
from easeml_meter.scoring.ids import BY_IDS, RowMatching
from easeml_meter.service import audit, handovers, history, meters, validation
from easeml_meter.service.actor import Actor
from easeml_meter.service.place import Clock, Home, Workspace, utc_now
from easeml_meter.service.submissions import answering, checking, deciding
from easeml_meter.service.submissions.answering import Said
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
from easeml_meter.service.testsets.reuse import LabelerDecisions
from easeml_meter.spec import DEFAULT_DELTA, DEFAULT_STEPS, MeterSpec
from easeml_meter.tables.memory import ID, Data, as_source, was_frame
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.source import Source
from easeml_meter.tables.writing import new_file, new_folder

if TYPE_CHECKING:
    from easeml_meter.vault.manifest import Manifest


class Named(Said, total=False):
    """What is said of a submission by name, as `MeterVerbs.submit` explains."""

    model: Required[str]
    tenant: int | None


class MeterVerbs(Protocol):
    """What can be done with a meter, in a folder (`Meter`) or at a server (`RemoteMeter`).

    Both do and raise what each verb says here; what they raise are `MeterError`s. Besides, every
    verb raises `Denied` if it is not for the role (or for another team), and `StorageError` if the
    database cannot be used. At a server every verb may raise `Unauthenticated` (no valid token),
    `NotFound` (no seat at the meter), `TooMany` (too often) and `Unreachable`.
    """

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
    def plan(self) -> Plan:
        """How many labels each test set needs, and why."""

    @property
    def generations(self) -> tuple[TestSet, ...]:
        """All test sets, the oldest first; of one at a server, what everybody may know."""

    def close(self) -> None:
        """Close the database or the connection; the end of a `with` does."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        """Seal labelled rows on this machine for the test set that is requested (labelers).

        Nothing is sent; a server is asked how many rows it needs, and for the class list.

        `columns` are the inputs (None: all), `drop` those that are none. `keep_unknown_labels`
        says that labels outside the class list are meant, `part` that more rows will follow.
        Without `label`, for a loss made of scores, only ids and `columns` are sealed. `cluster` is
        the column that says which rows belong together, for a meter planned with clusters.
        `judge` is the column of a judge's words, where rows without a label have one.

        Raises:
            InvalidInput: the rows cannot be read, or have no such columns, or lack a label; an id
                repeats; there are too few rows; or labels are outside the class list.
            WrongPhase: no test set is requested.
        """
        choices = Choices(
            label=label,
            id_column=id_column,
            columns=columns,
            drop=drop,
            keep_unknown_labels=keep_unknown_labels,
            part=part,
            cluster=cluster,
            judge=judge,
        )
        rows = as_source(source, "rows", a_set=True)
        return self._seal(rows, Path(destination), choices, recipients)

    def _seal(
        self, rows: Source, destination: Path, choices: Choices, recipients: Sequence[str]
    ) -> Manifest: ...

    def add_test_set(
        self,
        path: str | Path,
        *,
        ids_renumbered: bool = False,
        accept_shared: bool = False,
        accept_fewer: bool = False,
    ) -> TestSet:
        """Add a sealed test set (labelers). At a server, one with too few rows becomes a part.

        `ids_renumbered`: ids that earlier sets have with other inputs are other examples.
        `accept_shared`: rows with the inputs of earlier sets were drawn independently.
        `accept_fewer`: there are no more rows, and their weaker promise will do.

        Raises:
            InvalidInput: the file is not sealed; too few rows for the plan, rows that may not be
                used, wrong columns, or something that the labeler has to decide.
            TooLarge: the file decodes to more than a server takes.
            VaultError: the file does not open, or was sealed for another meter. From a server it
                comes as a `MeterError`.
            WrongPhase: no test set is requested.
        """
        decided = LabelerDecisions(ids_renumbered, accept_shared, accept_fewer)
        return self._add(Path(path), decided, part=False)

    def add_part(
        self, path: str | Path, *, ids_renumbered: bool = False, accept_shared: bool = False
    ) -> TestSet:
        """Add some of the rows, sealed; the test set is active when there are enough (labelers).

        Raises:
            InvalidInput: rows that may not be used or came before, other columns than before, or
                something that the labeler has to decide.
            TooLarge, VaultError, WrongPhase: as `add_test_set`.
        """
        return self._add(Path(path), LabelerDecisions(ids_renumbered, accept_shared), part=True)

    def _add(self, path: Path, decisions: LabelerDecisions, *, part: bool) -> TestSet: ...

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
        To a server they are sent encrypted.

        Raises:
            InvalidInput: the file cannot be read, a label is missing, stands twice, or is no class.
            WrongPhase: no step waits for labels.
        """
        chosen = orders.Columns(
            label=label, id_column=id_column, keep_unknown_labels=keep_unknown_labels
        )
        return self._give_labels(as_source(source, "labels", a_set=True), chosen)

    def _give_labels(self, labels: Source, columns: orders.Columns) -> LabelOrder: ...

    def export_inputs(self, destination: str | Path) -> int:
        """Write the test inputs, without labels, in the format that the file's name says.

        Return the number of rows. Developers may if the inputs are public.

        Raises:
            Denied: the role does not see test inputs, and the meter does not say public.
            InvalidInput: the name says no format that is written, or one that cannot hold them.
            WrongPhase: no test set is in use.
        """

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
        """Hand in the first validation set (developers); predictions are joined by its ids, if any.

        Raises:
            InvalidInput: the table cannot be read, its labels do not fit the loss, or ids are
                missing or repeated.
            TooLarge: there is no room for it.
            WrongPhase: there is a validation set already.
        """
        named = {"label": label, "id_column": id_column, "cluster": cluster}
        return self._validate(as_source(source, "validation set", a_set=True), named, first=True)

    def replace_validation(
        self,
        source: Data,
        *,
        label: str | None = None,
        id_column: str | None = None,
        cluster: str | None = None,
    ) -> ValidationSet:
        """Replace the validation set, from the next submission on (developers).

        Where teams are counted apart, not because of an answer: see what the promise assumes.

        Raises:
            InvalidInput: the table cannot be read, or its labels or ids do not fit.
            TooLarge: there is no room for it.
            WrongPhase: there is no validation set yet.
        """
        named = {"label": label, "id_column": id_column, "cluster": cluster}
        return self._validate(as_source(source, "validation set", a_set=True), named, first=False)

    def _validate(
        self, source: Source, columns: dict[str, str | None], *, first: bool
    ) -> ValidationSet: ...

    def submit(
        self,
        test: Data,
        validation: Data,
        *,
        matching: RowMatching = BY_IDS,
        **named: Unpack[Named],
    ) -> Signal:
        """Submit predictions on the test set and on the validation set; get an answer.

        `once`: the answer to an earlier model of this name is good enough. `baseline`: the models
        after it are compared with it; a fresh test set needs one. `note`, a line, and `link`, to a
        commit or a run, are shown with the answer; a repetition keeps the first.

        Raises:
            What `submit_any` raises.
        """
        given = _predictions(test, validation, matching)
        with _in_python():
            return self.submit_any(given, **named)

    def charges_broken_files(self) -> bool:
        """Whether files of the caller's are answered even if they are absent or broken.

        So it is at a server for a runner's: they are made of hidden rows.
        """
        return False

    def evaluate(self, estimator: Estimator, **named: Unpack[Named]) -> Signal:
        """Let an estimator (anything with `predict`) predict on both sets, and submit that.

        It needs test inputs that you may see. It gets a DataFrame with the columns it was fitted
        with if it knows their names, or with all if the validation set was given as one, else an
        array; `predict_proba` is asked where the loss
        compares probabilities.

        Raises:
            Denied: the role does not see the test inputs, or does not submit.
            InvalidInput: the estimator cannot predict what the loss compares, or lacks a column.
            Spent, TooSoon, WrongPhase: as `submit_any`.
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
            loss = self.spec.meter.sample.loss
            known = self.generations[-1].manifest or {}
            # The names of clusters are no inputs: a model would not have them in use.
            apart = [name for name in (known.get("cluster_column"),) if name]
            inputs = hidden.in_memory().drop_columns(apart)
            ids, frame = known.get("id_column"), was_frame(path)
            test = predictions_of(estimator, inputs, loss, ids, frame=frame)
            apart = [name for name in (given.label, given.cluster) if name]
            inputs_seen = visible.in_memory().drop_columns(apart)
            ids = given.id_column
            validation = predictions_of(estimator, inputs_seen, loss, ids, frame=frame)
        return self.submit(test, validation, **named)

    def _copy_validation(self, folder: Path) -> tuple[ValidationSet, Path]:
        """Write the validation set in use to a folder, as it was given."""

    def submit_any(
        self,
        submitted: Submitted,
        *,
        model: str,
        tenant: int | None = None,
        conditions: Conditions = USUAL,
        **said: Unpack[Said],
    ) -> Signal:
        """Submit predictions (`PredictionFiles`) or a model (`OnnxFile`, `Command`, `Function`).

        A server takes no `Function`. Ctrl-C before a worker has begun a model takes it back,
        without cost.

        Raises:
            Denied: the role does not submit for this tenant, or may not report scores.
            InvalidInput: something is wrong with the files, the name, the note or the tenant.
            MeterError: the last answer is set aside for a model that is running.
            Spent: the test set has no answer left.
            TooLarge: there is no room to keep it.
            TooMany: too many models of the tenant wait already.
            TooSoon: the token has had its answers of a day.
            Untold: it was answered, and the role does not see answers.
            Waiting: with labels on demand, the answer comes with labels that were asked for.
            WrongPhase: there is no test set or no validation set yet.
        """

    def check(
        self,
        test: Data,
        validation: Data,
        *,
        tenant: int | None = None,
        matching: RowMatching = BY_IDS,
    ) -> CheckedSubmission:
        """Return how the meter understands predictions: free, and without touching a label.

        Raises:
            What `check_any` raises.
        """
        given = _predictions(test, validation, matching)
        with _in_python():
            return self.check_any(given, tenant=tenant)

    def check_any(
        self,
        submitted: Submitted,
        *,
        tenant: int | None = None,
        conditions: Conditions = USUAL,
    ) -> CheckedSubmission:
        """Return how the meter understands a submission: free, and without touching a label.

        In a folder a model is run on the validation set. At a server only workers run models, when
        they are submitted.

        Raises:
            Denied: the role does not submit for this tenant, or may not report scores.
            InvalidInput: something is wrong with the files or the tenant.
            Spent: the test set has no answer left.
            TooSoon: the token has had its answers of a day.
            WrongPhase: there is no test set or no validation set yet.
        """

    def status(self, *, generation: int | None = None, tenant: int | None = None) -> SessionView:
        """Return a session: the answers so far, what they promise, what is left.

        Raises:
            InvalidInput: the meter has no such test set, or no such tenant.
        """

    def history(self, *, tenant: int | None = None) -> History:
        """Return the sessions of all test sets delivered so far.

        Raises:
            InvalidInput: the meter has no such tenant.
        """

    def gate(
        self,
        model: str,
        gate: Gate | None = None,
        *,
        fail_above: int | None = None,
        most_loss: float | None = None,
        tenant: int | None = None,
    ) -> GateVerdict:
        """Say whether a model passes, by the newest answer to it: free, and repeatable.

        `fail_above`, a band, and `most_loss`, of the true loss, are the highest that pass.

        Raises:
            InvalidInput: the meter has no such tenant, or it cannot have this gate.
            WrongPhase: nothing was told of the model yet.
        """
        gate = gate or Gate(fail_above, most_loss)
        gate.check(self.spec)
        return gate.judge(last_told(self.history(tenant=tenant), model))

    def promote(self, model: str, *, tenant: int | None = None) -> int:
        """Compare the next submissions with this model, which has passed; return its step.

        Raises:
            InvalidInput: the meter compares no models or keeps the last one that passed by itself,
                no model of this name has passed on the test set in use, or too many were promoted.
            WrongPhase: no test set is in use.
        """

    def hand_over(self, giver: int, receiver: int, *, confirm: bool = False) -> Consequence:
        """Return what it costs if one tenant goes on from another's model; `confirm` requests it.

        It counts once all tenants have agreed that would share the history. Whoever uses a meter
        in a folder acts for all of them.

        Raises:
            Denied: the caller is of neither tenant.
            InvalidInput: there is no such tenant, they share a history already, or the meter
                cannot.
            WrongPhase: there is no test set yet.
        """

    def handovers(self) -> list[Consequence]:
        """Return the hand-overs that wait for a tenant to agree."""

    def answer_handover(self, giver: int, receiver: int, *, accept: bool) -> Consequence:
        """Agree to a hand-over that was requested, or decline it.

        Raises:
            Denied: none of the tenants that would share the history is the caller's.
            InvalidInput: there is no such tenant.
            NotFound: this hand-over was not requested, or was answered meanwhile.
        """

    def retire(self) -> TestSet:
        """Retire the active test set early, and request the next one (labelers and admins).

        Raises:
            WrongPhase: no test set is active.
        """

    def archive(self) -> None:
        """Give the meter up before its first answer, for good (admins).

        Raises:
            WrongPhase: it has answered a submission, or something is under way.
        """

    def release(self) -> Path:
        """Hand out a spent test set in the clear, with the retrospective report (labelers).

        Return the folder of the files: those of a server are written to released/NUMBER here.

        Raises:
            InvalidInput: the folder to write to is there already.
            WrongPhase: none is spent, or its rows stand in a test set that is active, here or at
                another meter of the server.
        """

    def fetch_released(self, generation: int, folder: str | Path) -> Path:
        """Write the files of a released test set to a new folder: of the tenants that one sees.

        Raises:
            InvalidInput: the folder is there already.
            NotFound: there is no such test set.
            WrongPhase: it was not released yet.
        """

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

        Raises:
            InvalidInput: a step cannot be compared, or single examples have no loss.
            NotFound: there is no such test set, or it was not released yet.
        """
        if generation is None:  # where none is released, the refusal of the newest says why
            known = self.generations
            released = [each for each in known if each.phase is Phase.RELEASED]
            generation = (released or known)[-1].number
        return self._compare(generation, (first, second), tenant, better=better, page=page)

    def _compare(
        self, number: int, steps: tuple[int | None, int | None], tenant: int | None, **shown: Any
    ) -> Differences: ...

    def _check_released(self, number: int) -> None:
        """Refuse a test set whose files cannot be written, before a folder is made for them."""
        for each in self.generations:
            if each.number == number:
                if each.phase is not Phase.RELEASED:
                    raise WrongPhase(f"test set {number} is {each.phase}: it was not released yet")
                return
        raise NotFound(f"test set {number}: there is none of that number")

    def batches(self) -> list[Batch]:
        """Return the batches that have left the window of a rolling test set."""

    def fetch_batch(self, number: int, destination: str | Path) -> Path:
        """Write a batch that has left a rolling test set, with its labels, to a Parquet file.

        Raises:
            NotFound: there is no such batch, or it was not released yet.
        """

    def audit(self) -> Audit:
        """Verify the chain of everything that was disclosed.

        At a server, links about the answers of others come without details, and then all without
        digests.
        """


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
        cls,
        folder: str | Path,
        spec: MeterSpec | None = None,
        *,
        test: Data | None = None,
        validation: Data | None = None,
        label: str | None = None,
        id_column: str | None = None,
        steps: int | None = None,
        name: str = "meter",
        clock: Clock | None = None,
    ) -> Meter:
        """Make a meter in a new folder, of a `spec` or of your rows.

        `test`, the rows to hide, are sealed and added; `validation` is set. Both have the columns
        `label` and, if any, `id_column`. Without a `spec`, it is what `meter plan` offers first for
        as many labels: an alarm up to 5,000 or from 20 `steps` on, else bands; for ten answers or
        `steps`, 90 % sure together. You see the inputs.

        Raises:
            InvalidInput: the folder holds a meter already, no meter can be made of this, or the
                rows are refused; then call `open_or_create` with better ones.
        """
        wanted = spec or _planned(test, label, steps)
        space = meters.create_in_folder(Home(Path(folder)), wanted, name, clock or utc_now)
        return cls(space)._filled(test, validation, label, id_column)

    @classmethod
    def open_or_create(
        cls, folder: str | Path, spec: MeterSpec | None = None, **given: Any
    ) -> Meter:
        """Open the meter in a folder, or make it: `given` what `create` takes, twice if you like.

        Raises:
            InvalidInput: the folder holds a meter of other settings; otherwise as `create`.
            WrongPhase: it holds other rows.
        """
        home = Home(Path(folder))
        if not (home.database.is_file() and home.key.is_file()):
            return cls.create(folder, spec, **given)
        data = [given.get(each) for each in ("test", "validation", "label", "id_column")]
        wanted = spec or _planned(data[0], given.get("label"), given.get("steps"))
        meter = cls.open(folder, clock=given.get("clock"))
        if (held := meter.spec) != wanted:
            meter.close()
            raise InvalidInput(f"{folder}: holds another meter, {held!r}: choose another folder")
        return meter._filled(*data)

    def _filled(
        self,
        test: Data | None,
        validation: Data | None,
        label: str | None,
        id_column: str | None,
    ) -> Meter:
        """Give it its rows, of which those that it has already are not taken twice."""
        try:
            with _in_python():
                if validation is not None:  # first: it says which classes there are
                    self.set_validation(validation, label=label, id_column=id_column)
                if test is not None:
                    path = Path(self.workspace.files.location("")).parent / "hidden.sealed"
                    sealed = self.seal(test, path, label=label, id_column=id_column)
                    if sealed.generation == self.generations[-1].number:  # not spent meanwhile
                        self.add_test_set(path)
        except BaseException:
            self.close()
            raise
        return self

    @classmethod
    def open(
        cls,
        folder: str | Path = ".",
        *,
        role: Role = Role.OWNER,
        tenant: int = 1,
        clock: Clock | None = None,
    ) -> Meter:
        """Open the meter in a folder; developers and runners are of one team, the others of all.

        Raises:
            InvalidInput: the folder holds none.
            StorageError: its database cannot be used.
        """
        return cls(Workspace.open(Path(folder), clock or utc_now), role, tenant)

    def __repr__(self) -> str:
        return f"<Meter in {self.workspace.files.location('')!r}>"

    def close(self) -> None:
        self.workspace.store.close()

    @property
    def spec(self) -> MeterSpec:
        return meters.meter_state(self._actor, self.workspace).spec

    @property
    def plan(self) -> Plan:
        return meters.show_meter(self._actor, self.workspace).plan

    @property
    def generations(self) -> tuple[TestSet, ...]:
        return requests.list_test_sets(self._actor, self.workspace)

    def _seal(
        self, rows: Source, destination: Path, choices: Choices, recipients: Sequence[str]
    ) -> Manifest:
        return delivery.seal_labels(
            self._actor, self.workspace, rows, destination, choices, recipients
        )

    def _add(self, path: Path, decisions: LabelerDecisions, *, part: bool) -> TestSet:
        given = self._actor, self.workspace, path, decisions
        return (
            parts.add_labels(*given, part=True).test_set if part else delivery.add_test_set(*given)
        )

    def requests(self) -> list[LabelRequest]:
        return requests.list_requests(self._actor, self.workspace)

    def wanted(self) -> Wanted | None:
        return orders.wanted(self._actor, self.workspace)

    def _give_labels(self, labels: Source, columns: orders.Columns) -> LabelOrder:
        return orders.give_labels(self._actor, self.workspace, labels, columns)

    def export_inputs(self, destination: str | Path) -> int:
        return inputs.export_inputs(self._actor, self.workspace, Path(destination))

    def notices(self) -> list[dict[str, object]]:
        return [each.to_json() for each in validation.list_notices(self._actor, self.workspace)]

    def _validate(
        self, source: Source, columns: dict[str, str | None], *, first: bool
    ) -> ValidationSet:
        return validation.give_validation(
            self._actor, self.workspace, source, **columns, first=first
        )

    def submit_any(
        self,
        submitted: Submitted,
        *,
        model: str,
        tenant: int | None = None,
        conditions: Conditions = USUAL,
        **said: Unpack[Said],
    ) -> Signal:
        actor, space = self._acting(tenant), self.workspace
        return answering.answer(actor, space, submitted, model, conditions, **said)

    def check_any(
        self,
        submitted: Submitted,
        *,
        tenant: int | None = None,
        conditions: Conditions = USUAL,
    ) -> CheckedSubmission:
        return checking.check(self._acting(tenant), self.workspace, submitted, conditions)

    def status(self, *, generation: int | None = None, tenant: int | None = None) -> SessionView:
        return history.show_session(self._acting(tenant), self.workspace, generation)

    def history(self, *, tenant: int | None = None) -> History:
        return History(history.list_sessions(self._acting(tenant), self.workspace))

    def promote(self, model: str, *, tenant: int | None = None) -> int:
        return deciding.promote(self._acting(tenant), self.workspace, model).step

    def hand_over(self, giver: int, receiver: int, *, confirm: bool = False) -> Consequence:
        return handovers.hand_over(self._actor, self.workspace, giver, receiver, confirm=confirm)

    def handovers(self) -> list[Consequence]:
        return handovers.list_handovers(self._actor, self.workspace)

    def answer_handover(self, giver: int, receiver: int, *, accept: bool) -> Consequence:
        return handovers.answer_handover(
            self._actor, self.workspace, giver, receiver, accept=accept
        )

    def retire(self) -> TestSet:
        return requests.retire_test_set(self._actor, self.workspace)

    def archive(self) -> None:
        meters.archive_meter(self._actor, self.workspace)

    def release(self) -> Path:
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
        self._check_released(generation)
        release.released_test_set(self._actor, self.workspace, generation)  # whether one may see it
        where = new_folder(Path(folder))
        shutil.copytree(self._released(generation), where, dirs_exist_ok=True)
        return where

    def _compare(
        self, number: int, steps: tuple[int | None, int | None], tenant: int | None, **shown: Any
    ) -> Differences:
        actor = self._acting(tenant)
        return differences.compare_submissions(actor, self.workspace, number, steps, **shown)

    def batches(self) -> list[Batch]:
        return windows.released_batches(self._actor, self.workspace)

    def fetch_batch(self, number: int, destination: str | Path) -> Path:
        name = windows.released_batch(self._actor, self.workspace, number)
        destination = Path(destination)
        destination.parent.mkdir(parents=True, exist_ok=True)
        with new_file(destination) as stream:
            stream.write(self.workspace.files.read(name))
        return destination

    def audit(self) -> Audit:
        return audit.verify(self._actor, self.workspace)

    def _released(self, number: int) -> Path:
        return Path(self.workspace.files.location(release.released_folder(number)))

    def _acting(self, tenant: int | None) -> Actor:
        return self._actor if tenant is None else replace(self._actor, tenant=tenant)


def _planned(test: Data | None, label: str | None, steps: int | None) -> MeterSpec:
    """Return the meter that so many rows carry, whatever their labels are."""
    if test is None:
        raise invalid("spec", None, "give a MeterSpec, or test: the rows to hide")
    table = open_table(as_source(test, "rows", a_set=True))
    if label is not None:
        table.require(label, "label column")
    rows = sum(batch.num_rows for batch in table.batches(table.columns[:1]))
    if starts_with_alarm(rows, steps, DEFAULT_DELTA):
        return plan_alarm(rows, steps=steps or DEFAULT_STEPS, inputs="public").spec
    return plan_labels(MeterSpec.uniform(tolerance=0.1, inputs="public"), rows, steps).spec


def _predictions(test: Data, validation: Data, matching: RowMatching) -> PredictionFiles:
    if matching == BY_IDS and isinstance(test, Mapping) and isinstance(validation, Mapping):
        matching = RowMatching(id_column=ID)  # a dict does not know what its keys are called
    return PredictionFiles(as_source(test, "test"), as_source(validation, "validation"), matching)


@contextmanager
def _in_python() -> Iterator[None]:
    try:
        yield
    except (InvalidInput, WrongPhase) as error:
        said = spoken(str(error), IN_PYTHON)
        if said == str(error):
            raise
        raise type(error)(said) from None
