"""`Meter`: one meter in a folder, with the verbs of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from easeml_meter.core.history import MeterState
from easeml_meter.core.model import TestSet, ValidationSet
from easeml_meter.core.people import Role
from easeml_meter.core.views import SessionView, Signal
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.report.shown import shown, shown_view
from easeml_meter.service import audit, handovers, history, validation
from easeml_meter.service.actor import Actor, Permission, require
from easeml_meter.service.audit import Audit
from easeml_meter.service.handovers import Consequence
from easeml_meter.service.meters import check_meter, enter
from easeml_meter.service.place import Clock, Home, Workspace, utc_now
from easeml_meter.service.submissions import answering
from easeml_meter.service.submissions.kinds import PredictionFiles, Submitted
from easeml_meter.service.submissions.measuring import USUAL, Conditions
from easeml_meter.service.testsets import delivery, inputs, release
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.planning import Plan
from easeml_meter.storage.files import unusable
from easeml_meter.vault.manifest import Manifest


class Meter:
    """A meter in a folder: SQLite, a key, sealed files. Embedded mode is an honour system."""

    def __init__(
        self, space: Workspace, role: Role = Role.OWNER, tenant: int = 1, user: str = ""
    ) -> None:
        self._space = space
        self._role = role
        self._tenant = tenant
        """For whom it acts, unless said otherwise."""
        self._user = user
        """By whose hand, where people have an id."""

    @classmethod
    def create(
        cls, folder: str | Path, spec: MeterSpec, *, name: str = "meter", clock: Clock = utc_now
    ) -> Meter:
        """Make a meter and ask for its first test set."""
        cls.check_new(folder, spec, name)
        home = Home(Path(folder))
        home.prepare()
        if not home.settings.exists():
            spec.write(home.settings)
        space = home.workspace(clock)
        with space.writing() as books:
            if books.meters.all():
                raise _taken(home)
            enter(books, spec, name, space.now())
        return cls(space)

    @staticmethod
    def check_new(folder: str | Path, spec: MeterSpec, name: str) -> None:
        """Refuse what `create` would refuse, before anything is written."""
        check_meter(spec, name)
        home = Home(Path(folder))
        try:
            used, described = home.database.exists(), home.settings.exists()
        except OSError as error:
            raise unusable(home.folder, error) from error
        if used:  # perhaps by a meter that was never finished
            with home.workspace().reading() as books:
                if books.meters.all():
                    raise _taken(home)
        if described and MeterSpec.read(home.settings) != spec:
            raise invalid("spec", str(home.settings), "it describes another meter: remove it")

    @classmethod
    def open(
        cls, folder: str | Path = ".", *, role: Role = Role.OWNER, clock: Clock = utc_now
    ) -> Meter:
        """Open the meter in a folder."""
        return cls(Workspace.open(Path(folder), clock), role)

    def close(self) -> None:
        """Let go of the database."""
        self._space.store.close()

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def spec(self) -> MeterSpec:
        """The specification in force."""
        return self._situation().spec

    @property
    def plan(self) -> Plan:
        """How many labels each test set needs, and why."""
        return self._situation().plan

    @property
    def generations(self) -> tuple[TestSet, ...]:
        """All test sets, the oldest first."""
        return self._situation().generations

    def seal(
        self,
        source: str | Path,
        destination: str | Path,
        *,
        label: str,
        id_column: str | None = None,
        recipients: Sequence[str] = (),
    ) -> Manifest:
        """Seal labelled rows for the test set asked for (a labeler's verb)."""
        return delivery.seal_labels(
            self._actor,
            self._space,
            Path(source),
            Path(destination),
            label=label,
            id_column=id_column,
            recipients=recipients,
        )

    def add_test_set(self, path: str | Path) -> TestSet:
        """Take in a sealed test set (a labeler's verb)."""
        return delivery.add_test_set(self._actor, self._space, Path(path))

    def export_inputs(self, destination: str | Path) -> int:
        """Write the test inputs, without labels; developers may if the meter says "public"."""
        return inputs.export_inputs(self._actor, self._space, Path(destination))

    def notices(self) -> list[dict[str, object]]:
        """Read what labelers alone are told."""
        return validation.list_notices(self._actor, self._space)

    def set_validation(self, path: str | Path, *, label: str) -> ValidationSet:
        """Give the first validation set."""
        return validation.set_validation(self._actor, self._space, Path(path), label=label)

    def replace_validation(
        self, path: str | Path, *, label: str | None = None, reset: bool = False
    ) -> ValidationSet:
        """Replace the validation set, from the next submission on."""
        return validation.replace_validation(
            self._actor, self._space, Path(path), label=label, reset=reset
        )

    def submit(
        self, test: str | Path, validation: str | Path, *, model: str, tenant: int | None = None
    ) -> Signal:
        """Submit predictions on the test set and on the validation set; get a signal."""
        require(self._role, Permission.SUBMIT)
        return self.submit_any(
            PredictionFiles(Path(test), Path(validation)), model=model, tenant=tenant
        )

    def submit_any(
        self,
        submitted: Submitted,
        *,
        model: str,
        tenant: int | None = None,
        conditions: Conditions = USUAL,
    ) -> Signal:
        """Submit predictions (`PredictionFiles`) or a model (`OnnxFile`, `Command`, `Function`)."""
        require(self._role, Permission.SUBMIT)
        tenant = self._tenant if tenant is None else tenant
        given = answering.Submission(submitted, model, tenant, self._user)
        return shown(answering.submit(self._space, given, conditions))

    def status(self, *, generation: int | None = None, tenant: int | None = None) -> SessionView:
        """Show a session: what was told, what is promised, what is left."""
        return shown_view(history.show_session(self._acting(tenant), self._space, generation))

    def history(self, *, tenant: int | None = None) -> tuple[SessionView, ...]:
        """Show the sessions of all test sets delivered so far."""
        return tuple(map(shown_view, history.list_sessions(self._acting(tenant), self._space)))

    def hand_over(self, giver: int, receiver: int, *, confirm: bool = False) -> Consequence:
        """Tell what handing a checkpoint to another tenant would cost; `confirm` records it."""
        return handovers.hand_over(self._actor, self._space, giver, receiver, confirm=confirm)

    def release(self) -> Path:
        """Hand a spent test set out in the clear, with the retrospective report."""
        from easeml_meter.report.page import html_page

        released = release.release(self._actor, self._space, draw=html_page)
        return Path(self._space.files.location(release.released_folder(released.number)))

    def audit(self) -> Audit:
        """Verify the chain of everything that was disclosed."""
        return audit.verify(self._actor, self._space)

    def _acting(self, tenant: int | None) -> Actor:
        return replace(self._actor, tenant=self._tenant if tenant is None else tenant)

    @property
    def _actor(self) -> Actor:
        return Actor.embedded(self._role, self._tenant)

    def _situation(self) -> MeterState:
        with self._space.reading() as books:
            return self._space.state(books)


def _taken(home: Home) -> InvalidInput:
    return InvalidInput(f"{home.folder}: already holds a meter: choose another folder")
