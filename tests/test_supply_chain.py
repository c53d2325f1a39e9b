"""What others made: every dependency has a reason, every vendored file its digest, all a bill."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import tomllib
from datetime import datetime
from types import ModuleType
from typing import Any

import pytest
from tests.nodes import ROOT

REASONS = (ROOT / "DEPENDENCIES.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, list[str]]:
    """Return a table of DEPENDENCIES.md, by its first column."""
    text = REASONS.partition(f"| {heading} |")[2].partition("\n\n")[0]
    cells = [re.split(r"\s*\|\s*", line.strip("| ")) for line in text.splitlines()[2:]]
    return {first.strip("`"): rest for first, *rest in cells}


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {re.split(r"[\[<>=!~; ]", each)[0] for group in groups for each in group}
    return names - {"easeml-meter"}


def test_every_dependency_has_a_reason_and_nothing_else_is_listed() -> None:
    listed = rows("dependency")
    assert sorted(listed) == sorted(declared())
    assert [name for name, cells in listed.items() if len(cells[-1]) < 10] == []


@pytest.fixture(scope="module")
def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "scripts" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_vendored_files_are_those_whose_digest_is_written_down(sbom: ModuleType) -> None:
    listed = rows("vendored file")
    assert sorted(listed) == sorted(sbom.VENDORED)
    for path, (made, digest) in listed.items():
        found = hashlib.sha256((ROOT / path).read_bytes()).hexdigest()
        assert digest.strip("`") == found, f"{path}: another file than its recipe made"
        assert sbom.VENDORED[path][1] in made


def test_every_script_of_the_pages_is_ours_or_vendored(sbom: ModuleType) -> None:
    static = ROOT / "src" / "easeml_meter" / "server" / "web" / "static"
    minified = {
        str(path.relative_to(ROOT))
        for path in static.glob("*.js")
        if max(map(len, path.read_text(encoding="utf-8").splitlines())) > 1000
    }
    assert minified == {path for path in sbom.VENDORED if path.startswith("src/")}


def test_the_bill_of_materials_is_cyclonedx_and_whole(sbom: ModuleType) -> None:
    bill: dict[str, Any] = sbom.bill()
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    components = bill["components"]
    references = [each["bom-ref"] for each in components]
    assert len(set(references)) == len(references)
    assert {each["type"] for each in components} == {"library", "file"}
    assert all(each["name"] and each["version"] for each in components)
    names = {sbom.normalized(each["name"]) for each in components if each["type"] == "library"}
    own = sbom.installed()["easeml-meter"]  # what was installed, whatever pyproject says today
    assert sbom.needed(own) - {"easeml-meter"} <= names
    assert {"numpy", "fastapi", "ruff"} <= names
    known = {*references, bill["metadata"]["component"]["bom-ref"]}
    for edge in bill["dependencies"]:
        assert {edge["ref"], *edge["dependsOn"]} <= known


def test_the_bill_of_materials_has_the_fields_of_the_schema_and_no_other(sbom: ModuleType) -> None:
    """What the schema of CycloneDX 1.6 asks for, where a change of ours could miss it."""
    bill = json.loads(json.dumps(sbom.bill()))
    assert set(bill) == {
        *("$schema", "bomFormat", "specVersion", "serialNumber", "version"),
        *("metadata", "components", "dependencies"),
    }
    assert datetime.fromisoformat(bill["metadata"]["timestamp"]).tzinfo is not None
    fields = {"type", "bom-ref", "name", "version", "purl", "licenses", "hashes", "pedigree"}
    for each in [bill["metadata"]["component"], *bill["components"]]:
        assert {"type", "name"} <= set(each) <= fields
        # One expression, or any number of licenses: the schema takes no expression beside another.
        assert [set(named) for named in each.get("licenses", [])] in ([], [{"expression"}])
        for digest in each.get("hashes", []):
            assert digest["alg"] == "SHA-256"
            assert re.fullmatch("[0-9a-f]{64}", digest["content"])
    for edge in bill["dependencies"]:
        assert set(edge) == {"ref", "dependsOn"}
        assert len(set(edge["dependsOn"])) == len(edge["dependsOn"])
    assert len({edge["ref"] for edge in bill["dependencies"]}) == len(bill["dependencies"])


def pins(name: str) -> dict[str, str]:
    """Return the versions that a file pins, by the normal form of each name."""
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.findall(r"^([\w.-]+)==([^\s\\]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", each).lower(): version for each, version in found}


@pytest.mark.parametrize("extra", ["lab", "test"])
def test_every_pinned_file_has_a_hash(extra: str) -> None:
    text = (ROOT / "requirements" / f"{extra}.txt").read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=[\w.-]+==)", text)[1:]
    assert len(blocks) == len(pins(f"requirements/{extra}.txt")) > 20
    assert [block for block in blocks if not re.search(r"--hash=sha256:[0-9a-f]{64}", block)] == []


def test_hashed_requirements_are_those_of_the_constraints() -> None:
    constraints, everything = pins("constraints.txt"), pins("requirements/test.txt")
    assert {name: everything.get(name) for name in constraints} == constraints
    assert pins("requirements/lab.txt").items() <= everything.items()
