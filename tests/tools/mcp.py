"""The MCP SDK before its version 2, on both sides of `meter mcp`; `make test` has version 2."""

# needs: mcp==1.30.0

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from easeml_meter import Meter, MeterSpec


def prepared(folder: Path) -> None:
    """Make a meter with one step, and predictions for it below `work`."""
    spec = MeterSpec.uniform(
        edges=[0.5], tolerance=0.3, steps=1, delta=0.1, inputs="public", classes=(0, 1)
    )
    meter = Meter.create(folder / "meter", spec)
    work = folder / "work"
    work.mkdir()
    for name, count in (("test", meter.plan.labels), ("validation", 40)):
        lines = [f"{name[0]}{at},{at % 2}" for at in range(count)]
        (folder / f"{name}.csv").write_text("\n".join(["id,label", *lines]))
        (work / f"{name}.csv").write_text("\n".join(["id,prediction", *lines]))
    others = [f"t{at},0" for at in range(meter.plan.labels)]
    (work / "other.csv").write_text("\n".join(["id,prediction", *others]))
    meter.seal(folder / "test.csv", folder / "t.sealed", label="label", id_column="id")
    meter.add_test_set(folder / "t.sealed")
    meter.set_validation(folder / "validation.csv", label="label", id_column="id")
    meter.close()


async def talk(folder: Path, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Call tools one after the other, as an agent's host would."""
    command = ["-m", "easeml_meter", "-C", str(folder / "meter"), "mcp", "--honour"]
    started = StdioServerParameters(
        command=sys.executable,
        args=[*command, "--root", str(folder / "work")],
        env=dict(os.environ),
    )
    async with stdio_client(started) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        listed = await session.list_tools()
        return [listed, *[await session.call_tool(*each) for each in calls]]


def main(folder: Path) -> None:
    prepared(folder)
    files = {"test": "test.csv", "validation": "validation.csv"}
    listed, plan, first, again, outside, spent, gate = asyncio.run(
        talk(
            folder,
            [
                ("meter_plan", {"steps": 10, "tolerance": 0.05}),
                ("meter_submit", files | {"model": "one"}),
                ("meter_submit", files | {"model": "one"}),
                ("meter_submit", files | {"model": "two", "test": "../test.csv"}),
                ("meter_submit", files | {"model": "two", "test": "other.csv"}),
                ("meter_gate", {"model": "one", "fail_above": 1}),
            ],
        )
    )
    tools = {tool.name: tool for tool in listed.tools}
    assert set(tools) == {f"meter_{verb}" for verb in ("plan", "status", "check", "submit", "gate")}
    assert tools["meter_status"].annotations.readOnlyHint
    assert tools["meter_submit"].annotations.destructiveHint
    assert plan.structuredContent["labels"] > 100
    assert [each.structuredContent["step"] for each in (first, again)] == [1, 1]
    for failed, said in ((outside, "[exit 2]"), (spent, "[exit 3] spent")):
        assert failed.isError
        assert said in failed.content[0].text
    assert gate.structuredContent["passed"] is True


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
    print(f"mcp {version('mcp')}: an agent was answered once, and refused outside of its folder")
