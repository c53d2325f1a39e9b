"""Tests mirror the source: `service/uploads.py` is tested in `tests/service/test_uploads.py`.

A module without a test of its name stands below, under what tests it instead. Do not add to the
list for convenience: a newcomer looks for the test of a module under its name.
"""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "easeml_meter"

VALUES = ("version", "core/people", "core/submissions")
"""Values without behavior."""

ELSEWHERE = {
    # One story from the order to the answer, on both sides.
    "properties/test_labels_on_demand.py": (
        "service/submissions/waiting",
        "service/testsets/orders",
    ),
    # From meter.toml to the answer.
    "properties/test_strata.py": ("spec/strata",),
    # A part of a meter is made, planned and answered from as part of one.
    "promise/test_meter.py": (
        *(f"promise/{name}" for name in ("bands", "budgets", "claims", "closing")),
        *(f"promise/{name}" for name in ("keep", "levels", "proofs", "questions")),
        *(f"promise/{name}" for name in ("renewals", "samples", "schema", "shapes", "solve")),
        "promise/teams",
    ),
    "promise/test_alarm.py": ("promise/numbers/plain",),
    "lab/test_numbers.py": ("promise/compare",),
    "promise/numbers/test_tails.py": ("promise/numbers/bounds",),
    # From meter.toml to release.
    "properties/test_alarms.py": ("core/questions/alarm",),
    # What is refused is refused of a whole meter.
    "spec/test_meter.py": (*("spec/bands", "spec/names", "spec/questions"),),
    # The statistics of the planner, and its charts, are compared as one.
    "cli/test_plan.py": ("charts", "core/questions/comparison"),
    # Values that every test of these handles.
    "core/test_history.py": ("core/lifecycle", "core/model"),
    "cli/test_demo.py": ("__main__",),
    "integrations/test_mcp.py": ("cli/mcp",),
    "client/test_meter.py": ("client/meters",),
    # A figure of the paper is checked as a whole.
    "lab/test_curves.py": ("lab/meters",),
    "lab/test_figures.py": ("lab/drawings",),
    "lab/test_traces.py": ("lab/histories",),
    "lab/simulation/test_arena.py": ("lab/simulation/developers",),
    "lab/simulation/test_promise.py": ("lab/simulation/misuse",),
    "lab/simulation/test_worlds.py": ("lab/simulation/behaviours", "lab/simulation/players"),
    # A drawing is looked at as a whole.
    "report/test_meter.py": ("report/gauge", "report/svg"),
    # Parts of one machine: a model in the sandbox, an ONNX file, predictions in a file.
    "scoring/test_sandbox.py": ("scoring/command",),
    "scoring/test_escapes.py": ("scoring/seccomp",),
    "scoring/test_running.py": ("scoring/predictor", "scoring/silence"),
    "scoring/test_onnx_model.py": (
        "scoring/onnx_checks",
        *("scoring/onnx_inputs", "scoring/onnx_runner"),
    ),
    # Less is assumed where all histories are counted: what only people can keep is printed.
    "report/test_terminal.py": ("core/questions/assumptions",),
    # Asked by every request, or only through a route.
    "server/api/test_common.py": ("server/parameters",),
    "server/api/test_history.py": ("service/audit",),
    "server/api/test_meters.py": ("service/meters",),
    "server/api/test_users.py": ("storage/books/users",),
    "service/submissions/test_queue.py": ("storage/books/work",),
    "service/test_backup.py": ("service/restore", "storage/books/copies"),
    "properties/test_durability.py": ("service/journal",),
    "storage/test_store.py": ("storage/books/repository",),
    "storage/test_migrations.py": (
        *("storage/migrate", "storage/migrations/env", "storage/schema"),
    ),
    # A reader of one format each: every test runs with all formats.
    "tables/test_opening.py": (
        *(f"tables/{name}" for name in ("binary", "comma_separated", "table")),
    ),
    "vault/test_tampering.py": ("vault/containers",),
    "vault/test_sealing.py": ("vault/survey",),
}


def modules() -> set[str]:
    """Return every module but packages and single migrations, as in `service/uploads`."""
    found = {path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py")}
    return {str(each) for each in found if each.name != "__init__" and "versions" not in each.parts}


def mirrored(module: str) -> bool:
    path = TESTS / module
    return path.with_name(f"test_{path.name}.py").exists()


def test_every_module_has_a_test_of_its_name_or_is_listed() -> None:
    found = modules()
    own = {each for each in found if mirrored(each)}
    listed = [*VALUES, *(each for covered in ELSEWHERE.values() for each in covered)]
    share = f"{len(own)} of {len(found)} modules have a test of their name"
    assert sorted(found - own - set(listed)) == [], f"{share}; these have none"
    assert sorted(set(listed) - (found - own)) == [], f"{share}; take these off the list"
    assert len(listed) == len(set(listed))
    assert [each for each in ELSEWHERE if not (TESTS / each).exists()] == []
