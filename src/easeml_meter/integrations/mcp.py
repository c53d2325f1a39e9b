"""`meter mcp`: a meter, or a gate, as tools of the Model Context Protocol, by stdin and stdout."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any

from easeml_meter.errors import MeterError
from easeml_meter.integrations.agents import Answer, GateTools, Tools, refusing

_INSTRUCTIONS = """\
A hidden test set tells how far the validation score has drifted from the truth. Each answer uses \
up some of a budget that nothing refills: develop against the validation set, check predictions \
for free with meter_check, and submit only what you mean to keep. What was told of a model can be \
asked again for free with meter_gate and meter_status."""

_FREE = {"readOnlyHint": True, "openWorldHint": False}
_CHARGED = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": True,
    "openWorldHint": False,
}


_KEEPING = """\
`gate` answers keep or discard of a new version, by results that were scored on the same cases as \
the old ones, for the whole loop: keep a change only if it says so. Each new name uses an answer. \
Do not read the cases or their results: what is fitted to them is not better."""


def serve(tools: Tools | None, keeping: GateTools | None = None) -> None:
    """Serve a meter, or a gate, to the agent at the other end of stdin and stdout."""
    for name in ("httpx", "httpx2", "mcp"):  # they log addresses, and stderr is the agent's, too
        logging.getLogger(name).setLevel(logging.WARNING)
    build(tools, keeping).run("stdio")


def build(tools: Tools | None, keeping: GateTools | None = None) -> Any:
    """Return the server: of version 2 of the SDK, or of version 1.

    Raises:
        MeterError: the SDK is not installed.
    """
    kind, failure = _sdk()

    class Server(kind):  # type: ignore[misc, valid-type]
        async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
            """Say what is wrong with arguments in a line: pydantic takes five, and links to it."""
            try:
                return await super().call_tool(*args, **kwargs)
            except failure as error:
                if not hasattr(error.__cause__, "errors"):
                    raise
                wrong = error.__cause__.errors()[0]
                said = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg'].lower()}"
            raise failure(f"[exit 2] invalid: {said}")

    said = [_INSTRUCTIONS] if tools else []
    said += [_KEEPING] if keeping else []
    server = Server("easeml-meter", instructions="\n".join(said), log_level="WARNING")
    annotations = import_module("mcp.types").ToolAnnotations
    for title, tool, hints in (
        *(_of_meter(tools) if tools else ()),
        *(_of_gate(keeping) if keeping else ()),
    ):
        server.add_tool(refusing(tool, failure), annotations=annotations(title=title, **hints))
    return server


Titled = tuple[str, Callable[..., Answer], dict[str, bool]]


def _of_gate(tools: GateTools) -> tuple[Titled, ...]:
    """Return the tools of a ledger of `meter gate`."""

    def gate(old: str, new: str, name: str, old_name: str | None = None) -> Answer:
        """Keep or discard? Is NEW better than OLD, for the whole loop. USES ONE ANSWER.

        `old` and `new` are result files below the root folder, on the same cases. `name` names the
        new version, such as its commit; a name that was asked before gets the same answer for free.
        `old_name` names the version in `old`; without it, that is the last one kept.
        """
        return tools.gate(old, new, name, old_name)

    def gate_status() -> Answer:
        """Show what was kept, the answers left, and what the next keep needs. Free."""
        return tools.status()

    return ("Keep or discard?", gate, _CHARGED), ("Where the gate stands", gate_status, _FREE)


def _of_meter(tools: Tools) -> tuple[Titled, ...]:
    """Return the tools of a meter."""

    def meter_plan(
        labels: int | None = None,
        steps: int | None = None,
        tolerance: float | None = None,
        delta: float = 0.1,
    ) -> Answer:
        """Say what so many hidden labels promise, or how many a `tolerance` needs. Free.

        `steps` answers (ten, or as many as few labels carry), each test loss within `tolerance` of
        the truth, all together except with probability `delta`.
        """
        return tools.plan(labels, steps, tolerance, delta)

    def meter_status() -> Answer:
        """Show the budget left, the last answers and the promise. Free."""
        return tools.status()

    def meter_check(test: str, validation: str, id_column: str | None = None) -> Answer:
        """Show how predictions would be read, the validation loss, and which answer they use. Free.

        `test` and `validation` are files of predictions below the root folder.
        """
        return tools.check(test, validation, id_column)

    def meter_submit(
        model: str,
        test: str = "",
        validation: str = "",
        onnx: str = "",
        id_column: str | None = None,
        *,
        baseline: bool = False,
    ) -> Answer:
        """Submit a model and get an answer. USES ONE ANSWER of the budget, for good.

        Give files of predictions (`test` and `validation`), or an ONNX file (`onnx`), below the
        root folder. `model` names it, such as a commit; a name that was answered before gets the
        same answer for free, without a look at the files. `baseline`: the models after it are
        compared with it, such as the deployed one.
        """
        return tools.submit(model, test, validation, onnx, id_column, baseline=baseline)

    def meter_gate(model: str, fail_above: int | None = None) -> Answer:
        """Say whether a model passes by what it was told: band `fail_above` or lower. Free.

        A question that is answered by pass or fail needs no band.
        """
        return tools.gate(model, fail_above)

    return (
        ("Plan a meter", meter_plan, _FREE),
        ("Where the meter stands", meter_status, _FREE),
        ("Check predictions", meter_check, _FREE),
        ("Submit a model", meter_submit, _CHARGED),
        ("May a model pass?", meter_gate, _FREE),
    )


def _sdk() -> tuple[Any, Any]:
    """Return the classes of the server and of errors that an agent is told, of either version."""
    for package, name in (("mcp.server.mcpserver", "MCPServer"), ("mcp.server.fastmcp", "FastMCP")):
        try:
            server = getattr(import_module(package), name)
            return server, import_module(f"{package}.exceptions").ToolError
        except (ImportError, AttributeError):  # of another version, or not there at all
            continue
    raise MeterError('meter mcp needs the extra "mcp": pip install "easeml-meter[mcp]"')
