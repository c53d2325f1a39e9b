"""The quick attacks of the red team fail, and the suite would notice one that does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redteam import Attack, all_attacks, judge
from redteam.attempts import DOCUMENTED, TESTS, missing
from redteam.starting import started
from redteam.target import Client, Target, hold, refused
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


def test_every_attempt_of_the_review_is_repeated_or_documented() -> None:
    assert missing(all_attacks()) == []
    nodes = [f"tests/{node}" for nodes in TESTS.values() for node in nodes]
    assert [node for node in nodes if not exists(node)] == []
    for page, words in DOCUMENTED.values():
        assert words in (ROOT / page).read_text(encoding="utf-8")
