"""`meter mcp`, driven by the SDK's own client, against a server that listens."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from tests.client.people import People, people_at
from tests.live import Live, live

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("site") / "server") as found:
        yield found


@pytest.fixture
def people(site: Live, tmp_path: Path) -> Iterator[People]:
    yield from people_at(site, tmp_path, "agent-")


def call(site: Live, root: Path, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Call tools, one after the other, as an agent's host would; return what each gave."""
    environment = {
        **os.environ,
        "METER_SERVER": site.address,
        "METER_NAME": "agent-meter",
        "METER_TOKEN": site.served.tokens["agent-developer"],
    }
    started = StdioServerParameters(
        command=sys.executable,
        args=["-m", "easeml_meter", "mcp", "--root", str(root)],
        env=environment,
    )

    async def talk() -> list[Any]:
        async with Client(started) as client:
            listed = await client.list_tools()
            return [listed, *[await client.call_tool(*each) for each in calls]]

    return asyncio.run(talk())


def test_an_agent_uses_up_a_budget(site: Live, people: People) -> None:
    labels = people.begin()
    files = [people.predictions(labels, errors, salt=str(errors)) for errors in (0, 5, 10, 15, 20)]
    outside = people.folder.parent / "outside.csv"
    outside.write_text("prediction\n1\n")
    submissions = [
        ("meter_submit", {"model": f"try-{at}", "test": test.name, "validation": validation.name})
        for at, (test, validation) in enumerate(files)
    ]
    listed, plan, given, few, unread, status, *told, escaped, wrong, gate = call(
        site,
        people.folder,
        [
            ("meter_plan", {"steps": 10, "tolerance": 0.05}),
            ("meter_plan", {"labels": 800}),
            ("meter_plan", {"labels": 30}),
            ("meter_plan", {"labels": "a lot"}),
            ("meter_status", {}),
            submissions[0],
            submissions[0],
            *submissions[1:],
            ("meter_submit", submissions[0][1] | {"model": "new", "test": "../outside.csv"}),
            ("meter_submit", {"model": "none"}),
            ("meter_gate", {"model": "try-0", "fail_above": 2}),
        ],
    )
    names = {tool.name for tool in listed.tools}
    assert names == {"meter_plan", "meter_status", "meter_check", "meter_submit", "meter_gate"}
    charged = [tool for tool in listed.tools if "USES ONE ANSWER" in tool.description]
    assert [tool.name for tool in charged] == ["meter_submit"]
    assert plan.structured_content["labels"] > 100
    assert given.structured_content["labels"] == 800
    assert few.structured_content["answers"] == ["ok", "alarm"]
    said = "[exit 2] invalid: labels: input should be a valid integer"
    assert unread.content[0].text.startswith(said)
    assert unread.content[0].text.count("\n") == 0
    assert status.structured_content["steps_left"] == 4
    assert len(status.content[0].text) < 1024
    assert [each.structured_content["step"] for each in told[:-1]] == [1, 1, 2, 3, 4]
    assert told[1].structured_content["by_name"] is True
    for failed, said in ((told[-1], "[exit 3] spent"), (escaped, "[exit 2]"), (wrong, "[exit 2]")):
        assert failed.is_error
        assert said in failed.content[0].text
    assert gate.structured_content["passed"] is True
    assert len(people.developer.history()[0].signals) == 4


def test_an_agent_asks_a_gate(tmp_path: Path) -> None:
    for name, wrong in (("old", 40), ("new", 10)):
        rows = "".join(f"{n},{int(n >= wrong)}\n" for n in range(300))
        (tmp_path / f"{name}.csv").write_text(f"id,score\n{rows}")
    ledger = ["--gate", str(tmp_path / "gate.jsonl"), "--honour"]
    environment = {name: each for name, each in os.environ.items() if name != "METER_SERVER"}
    started = StdioServerParameters(
        command=sys.executable,
        args=["-m", "easeml_meter", "mcp", "--root", str(tmp_path), *ledger],
        env=environment,
    )
    files = {"old": "old.csv", "new": "new.csv", "name": "a"}

    async def talk() -> list[Any]:
        async with Client(started) as client:
            calls = [("gate", files), ("gate", files | {"old": "../x.csv"}), ("gate_status", {})]
            return [await client.list_tools(), *[await client.call_tool(*each) for each in calls]]

    listed, told, refused, status = asyncio.run(talk())
    assert {tool.name for tool in listed.tools} == {"gate", "gate_status"}
    assert told.structured_content["answer"] == "keep"
    assert refused.is_error
    assert "[exit 2]" in refused.content[0].text
    assert status.structured_content["last_kept"] == ["a"]
    assert max(len(each.content[0].text) for each in (told, refused, status)) < 1024


@pytest.mark.parametrize("option", [(), ("--gate", "gate.jsonl")])
def test_a_folder_is_refused_unless_trusted(tmp_path: Path, option: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "easeml_meter", "mcp", *option],
        cwd=tmp_path,
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 5
    assert "an agent of this account" in done.stderr
    assert "--honour" in done.stderr
