"""The quick attacks of the red team fail, and the suite would notice one that does not."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from redteam import Attack, Verdict, all_attacks, judge, table
from redteam.attempts import COUNT, DOCUMENTED, TESTS, missing
from redteam.starting import started
from redteam.target import Client, Cost, Target, hold, refused
from tests.nodes import ROOT, exists

QUICK = [each for each in all_attacks() if each.small]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Start a server on SQLite, with everybody's account and a meter in use."""
    with started(tmp_path_factory.mktemp("redteam")) as found:
        assert found.ground.labels.size
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("attack", QUICK, ids=lambda each: each.name)
def test_an_attack_fails(attack: Attack, target: Target) -> None:
    verdict = judge(attack, target, timed=False)
    assert verdict.held, f"{attack.finding}: {verdict.wrong}"


def example(run: object, **options: object) -> Attack:
    given = {"who": "outsider", "seconds": 1e9, "megabytes": 1e9} | options
    return Attack("an example", run, finding="x", attempts=(), small=True, **given)  # type: ignore[arg-type]


@pytest.mark.slow
def test_an_attack_that_works_is_broken(target: Target) -> None:
    def refused_though_it_is_not(client: Client) -> None:
        refused(client.get(f"{client.target.address}/healthz"))

    def mistaken(client: Client) -> None:
        raise KeyError(client.target.address)

    assert "200" in judge(example(refused_though_it_is_not), target).wrong
    assert "the attack failed" in judge(example(mistaken), target).wrong
    assert judge(example(lambda _: hold(False, "got in")), target).wrong == "got in"
    assert judge(example(lambda _: None), target).held
    assert judge(example(lambda _: "a figure"), target).figure == "a figure"


@pytest.mark.slow
def test_what_costs_too_much_is_broken(target: Target) -> None:
    def ask(client: Client) -> None:
        for _ in range(200):
            client.get(f"{client.target.address}/planner")

    assert "s, at most 0" in judge(example(ask, seconds=0.0), target).wrong
    assert judge(example(ask, seconds=0.0), target, timed=False).held


@pytest.mark.slow
def test_a_server_that_fails_is_broken(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(httpx.Client, "send", lambda *_, **__: httpx.Response(500))
        with Client(target, None) as client:
            client.get("/me")
    assert "500 at /api/v1/me" in target.trouble()
    assert target.trouble() == ""


def test_the_table_counts_what_held() -> None:
    some = example(lambda _: None)
    cost = Cost(1, 2, 3)
    verdicts = [Verdict(some, cost, ""), Verdict(some, cost, "", "1.2 times as long")]
    verdicts += [Verdict(some, Cost(1, 2, 3, known=False), "got")]
    _, held, with_figure, broken, count = table(verdicts)
    assert held.endswith("held")
    assert with_figure.endswith("held: 1.2 times as long")
    assert broken.endswith("BROKEN: x: got")
    assert count == "3 attacks: 2 held, 1 broken"


def test_every_attempt_of_the_review_is_repeated() -> None:
    assert COUNT == 100
    assert missing(all_attacks()) == []


def test_names_of_attacks_are_their_own() -> None:
    names = [each.name for each in all_attacks()]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("node", [each for nodes in TESTS.values() for each in nodes])
def test_tests_that_repeat_an_attempt_exist(node: str) -> None:
    assert exists(f"tests/{node}")
    assert not exists(f"tests/{node}_not")


@pytest.mark.parametrize("number", DOCUMENTED)
def test_what_works_is_documented(number: int) -> None:
    page, words = DOCUMENTED[number]
    assert words in (ROOT / page).read_text(encoding="utf-8")
