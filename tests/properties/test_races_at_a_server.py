"""Eight clients at once, and processes and the database that die: nothing lost, nothing twice."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.postgresql import Cluster
from tests.server.team import Clients, Team, long_spec, make_team, model_body, predictions_body

CLIENTS = 8
TENANTS = 2
MODELS = 2
"""Models that each tenant hands in besides its predictions."""


@pytest.fixture
def teams(tmp_path: Path) -> Iterator[list[Team]]:
    """Ends the processes of teams that are put in here."""
    made: list[Team] = []
    yield made
    for team in made:
        team.end()


def begin(team: Team, each: int) -> Clients:
    """Let eight clients hand in so many predictions each, and two of them models, too."""
    clients = Clients(team)
    for number in range(CLIENTS):
        tenant = number % TENANTS + 1
        work = []
        for index in range(each):
            name = f"c{number}-{index}"
            work.append((name, predictions_body(team, name, index % 5)))
        if number < TENANTS:
            for index in range(MODELS):
                seed = 100 * number + index
                work.insert(each // 3 * (index + 1), (f"m{number}-{index}", model_body(seed)))
        clients.start(tenant, work)
    return clients


def budget(each: int) -> list[int]:
    """Give each tenant three steps fewer than it will ask for."""
    return [each * CLIENTS // TENANTS + MODELS - 3] * TENANTS


def check(team: Team, clients: Clients, steps: list[int]) -> None:
    """Whoever heard an answer finds it in the books, once; the books hold nothing else."""
    told = {(each.tenant, each.model): (each.step, each.answer) for each in clients.told}
    assert len(told) == len(clients.told)
    assert len(clients.spent) == 3 * TENANTS
    with team.books() as meter:
        entries: dict[tuple[int, str], tuple[int, str]] = {}
        for tenant, count in enumerate(steps, 1):
            signals = meter.status(generation=1, tenant=tenant).signals
            assert [each.step for each in signals] == list(range(1, count + 1))
            assert max(Counter(each.model for each in signals).values()) == 1
            entries |= {
                (tenant, each.model): (each.step, each.to_dict()["answer"]) for each in signals
            }
        assert told == entries
        assert meter.audit().problems == ()


def chaos(clients: Clients, deeds: list[Callable[[], object]], total: int, seed: int) -> None:
    """Do something bad at random moments, while the clients are at work."""
    rng = random.Random(seed)  # noqa: S311  moments to kill at, no secrets
    try:
        for number, deed in enumerate(deeds):
            clients.wait_for(total * (number + 1) // (len(deeds) + 2))
            time.sleep(rng.uniform(0, 0.05))
            deed()
        clients.finish()
    finally:
        clients.give_up()


def kill_api(team: Team, number: int) -> Callable[[], object]:
    def deed() -> None:
        team.apis[number].end()
        team.apis[number].start()

    return deed


def kill_worker(team: Team, number: int) -> Callable[[], object]:
    def deed() -> None:
        team.workers[number].end()
        team.workers[number].start()

    return deed


def on_sqlite(tmp_path: Path, teams: list[Team], *, each: int, kills: int) -> None:
    steps = budget(each)
    team = make_team(f"sqlite:///{tmp_path / 'meter.db'}", tmp_path, long_spec(*steps))
    teams.append(team)
    team.add_api()
    clients = begin(team, each)
    chaos(clients, [kill_api(team, 0)] * kills, sum(steps), seed=1)
    check(team, clients, steps)


def on_postgresql(
    cluster: Cluster, database: str, tmp_path: Path, teams: list[Team], *, each: int, rounds: int
) -> None:
    steps = budget(each)
    team = make_team(database, tmp_path, long_spec(*steps))
    teams.append(team)
    for _ in range(2):
        team.add_api()
        team.add_worker()
    clients = begin(team, each)
    deeds = [
        kill_worker(team, 0),
        cluster.restart,
        kill_api(team, 0),
        kill_worker(team, 1),
        lambda: cluster.restart(how=signal.SIGQUIT),  # a crash
        kill_api(team, 1),
    ]
    chaos(clients, deeds * rounds, sum(steps), seed=2)
    check(team, clients, steps)


def test_sqlite_with_a_server_that_is_killed(tmp_path: Path, teams: list[Team]) -> None:
    on_sqlite(tmp_path, teams, each=12, kills=3)


def test_postgresql_with_everything_killed(
    postgresql: Cluster, team_database: str, tmp_path: Path, teams: list[Team]
) -> None:
    on_postgresql(postgresql, team_database, tmp_path, teams, each=12, rounds=1)


@pytest.mark.verify
def test_sqlite_with_2000_submissions(tmp_path: Path, teams: list[Team]) -> None:
    on_sqlite(tmp_path, teams, each=250, kills=20)


@pytest.mark.verify
def test_postgresql_with_2000_submissions(
    postgresql: Cluster, team_database: str, tmp_path: Path, teams: list[Team]
) -> None:
    on_postgresql(postgresql, team_database, tmp_path, teams, each=250, rounds=5)
