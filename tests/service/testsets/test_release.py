"""Release: the oldest spent test set, with the truth of every step and a report for each tenant."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import Clock, Session, deliver, make_session, rows, small_spec
from tests.service.sharing import made

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, Event
from easeml_meter.core.people import Role
from easeml_meter.core.views import SessionView, view_from_json
from easeml_meter.errors import Denied, NotFound, WrongPhase
from easeml_meter.report.checks import checks
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.handovers import hand_over
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.measuring import open_sealed, read_kept
from easeml_meter.service.testsets import release, requests
from easeml_meter.vault.draws import Draws
from easeml_meter.vault.keys import wrap

LABELER = Actor.embedded(Role.LABELER)


def draw(view: SessionView) -> str:
    """Write down whose steps a report would show."""
    steps = [f"{signal.tenant}:{signal.model}" for signal in view.signals]
    return f"{view.phase} {' '.join(steps)} {len(view.retrospective)}"


def spent(session: Session, folder: Path, seed: int) -> None:
    """Spend the test set in use, and deliver the next one."""
    for step in range(4):
        session.submit(step, 0, model=f"{seed}-{step}")
    labels = np.random.default_rng(seed).integers(0, 2, len(session.test_labels))
    deliver(session.meter, folder, labels, seed=seed)
    session.test_labels = labels


def test_only_the_oldest_spent_set_is_released(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    space = Workspace.open(tmp_path / "meter", Clock())
    with pytest.raises(WrongPhase, match="test set 1 is active: only a spent one is released"):
        release.release(LABELER, space, draw=draw)
    assert release.releasable(LABELER, space) is None
    for seed in (5, 6):
        spent(session, tmp_path, seed)
    oldest = release.releasable(LABELER, space)
    assert oldest is not None
    assert oldest.number == 1
    for number, error, message in (
        (2, WrongPhase, "test set 1 is spent, too: release it first"),
        (3, WrongPhase, "test set 3 is active: only a spent one is released"),
        (4, NotFound, "test set 4: there is none"),
    ):
        with pytest.raises(error, match=message):
            release.release(LABELER, space, number, draw=draw)
    assert release.release(LABELER, space, 1, draw=draw).phase is Phase.RELEASED
    assert release.release(LABELER, space, draw=draw).number == 2
    phases = [each.phase for each in requests.list_test_sets(LABELER, space)]
    assert phases == [Phase.RELEASED, Phase.RELEASED, Phase.ACTIVE]


def test_rows_of_the_active_set_are_not_released(tmp_path: Path) -> None:
    """The next set may repeat the spent one: then `release` would publish its labels."""
    session = make_session(tmp_path)
    for step in range(4):
        session.submit(step, 0, model=str(step))
    table = rows(session.test_labels, seed=1000)
    fresh = rows(np.array([0]), seed=3).set_column(0, "id", pa.array([10**6]))
    again = table.slice(1).set_column(0, "id", pa.array(np.arange(1, len(table)) + 10**5))
    pq.write_table(pa.concat_tables([again, fresh]), tmp_path / "again.parquet")
    meter = session.meter
    meter.seal(tmp_path / "again.parquet", tmp_path / "again.sealed", label="label", id_column="id")
    meter.add_test_set(tmp_path / "again.sealed", accept_shared=True)
    with pytest.raises(WrongPhase, match="rows of test set 1 stand in test set 2, which is active"):
        meter.release()
    assert meter.generations[0].phase is Phase.SPENT


def test_every_tenant_has_a_report_of_its_own_steps(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(tenants=(2, 2)))
    for tenant in (1, 2):
        for step in (1, 2):
            session.submit(step, 0, model=f"model-{tenant}-{step}", tenant=tenant)
    space = Workspace.open(tmp_path / "meter")
    release.release(LABELER, space, draw=draw)
    for tenant in (1, 2):
        report = space.files.read(f"released/1/report-{tenant}.html").decode()
        assert report == f"released {tenant}:model-{tenant}-1 {tenant}:model-{tenant}-2 2"
        developer = Actor(((Role.DEVELOPER, tenant),))
        records = release.retrospective(developer, space, 1)
        assert [(each["tenant"], each["step"]) for each in records] == [(tenant, 1), (tenant, 2)]
        assert draw(release.released_session(developer, space, 1)) == report
        with pytest.raises(Denied, match="not yours"):
            release.retrospective(Actor(((Role.DEVELOPER, tenant),), 3 - tenant), space, 1)


def test_nothing_is_handed_out_before_the_release(tmp_path: Path) -> None:
    make_session(tmp_path)
    space = Workspace.open(tmp_path / "meter")
    developer = Actor.embedded(Role.DEVELOPER)
    for verb in (release.released_test_set, release.retrospective, release.released_session):
        with pytest.raises(NotFound, match=r"once it is released|not released yet"):
            verb(developer, space, 1)
        with pytest.raises(NotFound, match="there is none"):
            verb(developer, space, 2)
    with pytest.raises(Denied, match="developers may not release"):
        release.release(developer, space, draw=draw)
    with pytest.raises(Denied):
        release.retrospective(Actor.embedded(Role.RUNNER), space, 1)


def test_an_answer_after_a_hand_over_is_found_right(tmp_path: Path) -> None:
    """The running maxima of both teams are joined; before, the report called the answer wrong."""
    session = made(tmp_path, extra=200, protocol="incremental")
    n = len(session.test_labels)
    assert session.submit(n // 5, 0, model="worse", tenant=1).band == 2
    hand_over(SYSTEM, session.meter.workspace, 1, 2, confirm=True)
    assert session.submit(0, 0, model="joined", tenant=2).band == 2
    assert session.submit(n // 5 + 1, 0, model="as bad", tenant=1).band == 2
    assert session.submit(n // 2, 0, model="worst", tenant=2).band == 3
    session.released()
    for tenant, brought in ((1, (1, 2)), (2, (2, 2))):
        view = session.meter.status(generation=1, tenant=tenant)
        assert view.brought == brought
        assert [check.right for check in checks(view)] == [True, True]
        again = view_from_json(json.loads(json.dumps(view.to_dict())), view.spec)
        assert [check.right for check in checks(again)] == [True, True]


def test_a_clock_that_is_set_back_makes_no_answer_after_a_hand_over_wrong(tmp_path: Path) -> None:
    """The report said that it should have been band 1, though what was told before it counts."""
    session = made(tmp_path, extra=200, protocol="incremental")
    worst = session.submit(len(session.test_labels) // 5, 0, model="bad", tenant=1).band
    hand_over(SYSTEM, session.meter.workspace, 1, 2, confirm=True)
    clock = session.meter.workspace.clock
    assert isinstance(clock, Clock)
    clock.moment -= timedelta(hours=1)
    assert session.submit(0, 0, model="good", tenant=2).band == worst == 2
    session.released()
    view = session.meter.status(generation=1, tenant=2)
    assert view.brought == (2,)
    assert [check.right for check in checks(view)] == [True]


def test_the_retrospective_names_models_answers_and_tolerances(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    told = session.submit(len(session.test_labels) // 5, 0, model="a model")
    session.meter.retire()
    text = (session.meter.release() / release.RETROSPECTIVE).read_text(encoding="utf-8")
    (record,) = json.loads(text)
    assert record["model"] == "a model"
    assert (record["tenant"], record["step"], record["answer"]) == (1, 1, told.name)
    assert record["tolerance"] == told.tolerance
    assert record["truth"]["band"] == 2


@pytest.mark.parametrize("how", ["lost", "damaged", "of other rows", "beyond Arrow"])
def test_a_kept_file_that_cannot_be_read_costs_the_truth_of_its_step_alone(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session(tmp_path)
    for errors in (1, 2, 3):
        session.submit(errors, 0, model=f"m{errors}")
    space = session.meter.workspace
    with space.reading() as books:
        blob = books.entries.all(session.meter.generations[0].meter, 1)[1].blob
    if how == "beyond Arrow":

        def read(space: Workspace, name: str) -> tuple[bytes, str]:
            if name == blob:
                raise pa.ArrowNotImplementedError("no kernel")
            return read_kept(space, name)

        monkeypatch.setattr(release, "read_kept", read)
    elif how == "lost":
        space.files.remove(blob)
    else:
        short = io.BytesIO()
        pq.write_table(pa.table({"prediction": [0, 1]}), short)
        other = wrap(short.getvalue(), [space.identity.recipient])
        space.files.put(blob, other if how == "of other rows" else b"damaged")
    session.released()
    view = session.meter.status(generation=1)
    n = len(session.test_labels)
    truths = [truth and truth.test_loss for truth in view.retrospective]
    assert truths == [pytest.approx(1 / n), None, pytest.approx(3 / n)]
    assert [check.words for check in checks(view)] == ["yes", "nothing to check", "yes"]


# --- Drawn edges: the secret is published, and every draw can be checked ---


def drawn(folder: Path) -> Session:
    """Spend a test set with drawn edges."""
    session = make_session(folder, small_spec(drawn=0.3, tolerance=0.2, steps=3))
    n = len(session.test_labels)
    for step, errors in enumerate((0, n // 4, 3 * n // 4)):
        session.submit(errors, 0, model=str(step))
    return session


def test_the_secret_of_drawn_edges_is_published_with_the_test_set(tmp_path: Path) -> None:
    session = drawn(tmp_path)
    meter = session.meter
    committed = [link.details["draws"] for link in meter.audit().links if "draws" in link.details]
    with open_sealed(Workspace.open(tmp_path / "meter"), meter.generations[0]) as sealed:
        assert committed == [sealed.draws.commitment]
        secret = sealed.draws.published()
    for file in (tmp_path / "meter").rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert secret.encode() not in content
        assert bytes.fromhex(secret) not in content
    released = meter.release()
    audit = meter.audit()
    assert (audit.links[-1].details["draws"], audit.problems) == (secret, ())
    view = meter.status(generation=1)
    assert [check.words for check in checks(view)] == ["yes", "yes", "yes"]
    records = json.loads((released / "retrospective.json").read_text(encoding="utf-8"))
    gaps = [each and list(each) for each in (signal.gap for signal in view.signals)]
    assert [record["gap"] for record in records] == gaps
    assert None not in gaps


def test_edges_that_were_not_drawn_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chosen edges break the promise, above all if they look at the data."""

    def chosen(_: Draws, entry: Entry, apart: float) -> Fraction:
        return Fraction(str(apart)) * len(entry.model) / 7

    with monkeypatch.context() as patched:
        patched.setattr(Draws, "first_edge", chosen)
        session = drawn(tmp_path)
    session.meter.release()
    problems = session.meter.audit().problems
    assert len(problems) == 3
    assert all("the edges are not those that the published secret draws" in p for p in problems)


def test_another_secret_than_the_promised_one_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = drawn(tmp_path)
    monkeypatch.setattr(Draws, "published", lambda _: "00" * 32)
    session.meter.release()
    (problem,) = session.meter.audit().problems
    assert problem.startswith("test set 1: the published secret is not the one")


def test_edges_left_out_near_the_ceiling_are_told_and_checked(tmp_path: Path) -> None:
    """The validation loss decides which edges an answer has, long after it was given, too."""
    spec = small_spec(tolerance=0.1, edges=[0.1, 0.3, 0.55], signals=4, ceiling=0.5)
    session = make_session(tmp_path, spec, size=200)
    everywhere = session.submit(10, 1, model="far")  # 0.05 + 0.3 is in [0.3, 0.5], and 0.55 is not
    assert (everywhere.answer, everywhere.gap) == (1, (0.0, 0.1))
    merged = session.submit(80, 1, model="near")  # a gap of 0.35: band 3 if the edge 0.3 were told
    assert (merged.answer, merged.gap, merged.true_gap) == (2, (0.1, 0.55), (0.0, 0.65))
    above = session.submit(101, 1, model="above")
    assert (above.gap, above.true_loss_at_least) == (None, 0.4)
    assert "true loss is at least 0.4" in above.promise
    session.submit(0, 0, model="last")
    release.release(LABELER, Workspace.open(tmp_path / "meter", Clock()), draw=draw)
    view = session.meter.status(generation=1)
    assert [each.right for each in checks(view)] == [True] * 4
    again = view_from_json(json.loads(json.dumps(view.to_dict())), view.spec)
    assert [each.gap for each in again.signals] == [each.gap for each in view.signals]
    assert again.signals[1].gap == (0.1, 0.55)


def test_a_release_that_is_cut_short_is_done_again_with_its_report(tmp_path: Path) -> None:
    """The report came after the phase: without power in between there never was one."""
    session = make_session(tmp_path)
    session.submit(1, 0, model="a")
    session.meter.retire()
    space = session.meter.workspace

    def without_power(_: SessionView) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        release.release(LABELER, space, draw=without_power)
    assert session.meter.generations[0].phase is Phase.SPENT
    release.release(LABELER, space, draw=draw)
    assert space.files.read("released/1/report.html") == b"released 1:a 1"


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["0", "1"])], ids=str)
def test_categories_of_polars_have_their_truth(tmp_path: Path, kind: Any) -> None:
    """They are dictionaries of views: one such file blocked the release for ever."""
    session = make_session(tmp_path)
    files = []
    for name, labels in (("t", session.test_labels), ("v", session.validation_labels)):
        column = pl.Series(labels.astype(str).tolist(), dtype=kind)
        table = pl.DataFrame({"id": np.arange(len(labels)), "prediction": column})
        files.append(tmp_path / f"{name}.arrow")
        table.write_ipc(files[-1])
    session.meter.submit(*files, model="polars")
    session.released()
    (truth,) = session.meter.status(generation=1).retrospective
    assert truth is not None
    assert truth.test_loss == 0


def test_two_releases_at_the_same_time_are_one(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(1, 0, model="a")
    session.meter.retire()
    space = session.meter.workspace
    chosen = [release.choose(LABELER, space) for _ in range(2)]
    first, second = (release.hand_out(space, each, draw) for each in chosen)
    assert first == second
    audit = session.meter.audit()
    assert [link.event for link in audit.links].count(Event.RELEASED) == 1
    assert audit.sound
