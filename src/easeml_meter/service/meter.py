"""`Meter`: one meter in a folder, with the verbs of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from easeml_meter.core.history import MeterState, session_view
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import TestSet, ValidationSet
from easeml_meter.core.people import Role
from easeml_meter.core.views import SessionView, Signal
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.report.shown import shown, shown_view
from easeml_meter.service import handovers, validation
from easeml_meter.service.actor import Actor, Permission, require
from easeml_meter.service.audit import Audit
from easeml_meter.service.handovers import Consequence
from easeml_meter.service.meters import check_meter, enter
from easeml_meter.service.place import TEST_SETS, Clock, Home, Workspace, utc_now
from easeml_meter.service.submissions import answering
from easeml_meter.service.submissions.kinds import PredictionFiles, Submitted
from easeml_meter.service.submissions.measuring import USUAL, Conditions
from easeml_meter.service.testsets import delivery, inputs, release
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.planning import Plan
from easeml_meter.storage.books.audit import broken_link
from easeml_meter.storage.files import unusable
from easeml_meter.storage.journal import SUFFIX, Journal
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
        require(self._role, Permission.SEE_SIGNALS)
        with self._space.reading() as books:
            situation = self._space.state(books)
            index = situation.tenant(self._tenant if tenant is None else tenant)
            row = situation.current if generation is None else _numbered(situation, generation)
            entries = books.entries.all(row.meter, row.number)
            handovers = books.handovers.all(row.meter, row.number)
        truths = release.truths_of(self._space, row, index)
        view = session_view(situation, row, entries, index, handovers=handovers, truths=truths)
        return shown_view(view)

    def history(self, *, tenant: int | None = None) -> tuple[SessionView, ...]:
        """Show the sessions of all test sets delivered so far."""
        delivered = [row for row in self.generations if row.phase is not Phase.REQUESTED]
        return tuple(self.status(generation=row.number, tenant=tenant) for row in delivered)

    def hand_over(self, giver: int, receiver: int, *, confirm: bool = False) -> Consequence:
        """Tell what handing a checkpoint to another tenant would cost; `confirm` records it."""
        require(self._role, Permission.HAND_OVER)
        act = handovers.hand_over if confirm else handovers.preview
        return act(self._space, giver, receiver)

    def release(self) -> Path:
        """Hand a spent test set out in the clear, with the retrospective report."""
        from easeml_meter.report.page import html_page

        released = release.release(self._actor, self._space, draw=html_page)
        return Path(self._space.files.location(release.released_folder(released.number)))

    def audit(self) -> Audit:
        """Verify the chain of everything that was disclosed."""
        require(self._role, Permission.AUDIT)
        with self._space.reading() as books:
            meter = books.meters.get(self._space.meter)
            links = books.audit.all(meter.id)
            known = {row.fingerprint: row for row in books.testsets.all(meter.id)}
            told = {
                (row.number, entry.tenant, entry.step)
                for row in known.values()
                for entry in books.entries.all(meter.id, row.number)
            }
        problems = []
        broken = broken_link(links)
        if broken is not None:
            problems.append(f"audit link {broken} does not fit: the books were changed by hand")
        listed = {
            (link.details["generation"], link.details["tenant"], link.details["step"])
            for link in links
            if link.event == "told"
        }
        files = self._space.files
        for name in files.names(TEST_SETS):
            if not name.endswith(SUFFIX):
                continue
            generation = known.get(name.removesuffix(SUFFIX))
            journal = Journal(files, f"{TEST_SETS}/{name}").read()
            lines = [(entry.tenant, entry.step) for entry in journal]
            if generation is None:
                problems.append(
                    f"a test set that these books do not know has answered {len(lines)} "
                    "submissions: the books were replaced"
                )
            elif missing := [key for key in lines if (generation.number, *key) not in told]:
                problems.append(
                    f"test set {generation.number} has told {len(missing)} answers that these "
                    "books do not know: an older copy was put back"
                )
        restored = [link for link in links if link.event == "books were behind the journal"]
        for link in restored:
            count = len(link.details["tenant_and_step"])
            problems.append(f"{link.at}: {count} answers were missing and came from the journal")
            listed |= {
                (link.details["generation"], tenant, step)
                for tenant, step in link.details["tenant_and_step"]
            }
        problems += [
            f"{link.at}: restored from a backup of {link.details['backup_at']} with no journal to "
            "compare with: what was told in between is not known"
            for link in links
            if link.event == "restored" and not link.details["witnessed"]
        ]
        if unlisted := told - listed:
            problems.append(f"{len(unlisted)} answers were entered without an audit link")
        if unentered := listed - told:
            problems.append(f"{len(unentered)} audited answers are missing from the books")
        return Audit(tuple(links), tuple(problems))

    @property
    def _actor(self) -> Actor:
        return Actor.embedded(self._role, self._tenant)

    def _situation(self) -> MeterState:
        with self._space.reading() as books:
            return self._space.state(books)


def _taken(home: Home) -> InvalidInput:
    return InvalidInput(f"{home.folder}: already holds a meter: choose another folder")


def _numbered(situation: MeterState, number: int) -> TestSet:
    for row in situation.generations:
        if row.number == number:
            return row
    raise invalid("generation", number, f"a number from 1 to {len(situation.generations)}")
