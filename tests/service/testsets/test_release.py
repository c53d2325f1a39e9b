"""Release: the oldest spent test set, with the truth of every step and a report for each tenant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.service.helpers import Clock, Session, deliver, make_session, small_spec

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.people import Role
from easeml_meter.core.views import SessionView
from easeml_meter.errors import Denied, NotFound, WrongPhase
from easeml_meter.service.actor import Actor
from easeml_meter.service.place import Workspace
from easeml_meter.service.testsets import release, requests

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
        with pytest.raises(NotFound, match="not released yet"):
            verb(developer, space, 1)
        with pytest.raises(NotFound, match="there is none"):
            verb(developer, space, 2)
    with pytest.raises(Denied, match="developers may not release"):
        release.release(developer, space, draw=draw)
    with pytest.raises(Denied):
        release.retrospective(Actor.embedded(Role.RUNNER), space, 1)
