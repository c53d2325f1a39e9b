"""What others made: every dependency has a reason, every vendored file its digest."""

from __future__ import annotations

import hashlib
import re
import tomllib

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


def pinned(name: str) -> set[str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    return set(re.split(r"(?m)^(?=[A-Za-z0-9])", text)[1:])


def test_the_image_installs_files_that_the_tests_know_by_their_digests() -> None:
    server = pinned("server")
    assert server < pinned("test")
    assert all(" \\\n    --hash=sha256:" in each for each in server)
    text = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
    assert "pip install --no-cache-dir --no-deps --require-hashes -r /source/server.txt" in text
    assert text.count("pip install ") == text.count("--no-deps")


def test_vendored_files_are_those_whose_digest_is_written_down() -> None:
    static = ROOT / "src" / "easeml_meter" / "server" / "web" / "static"
    minified = {
        str(path.relative_to(ROOT))
        for path in [*static.glob("*.js"), *ROOT.glob("tests/e2e/*.js")]
        if max(map(len, path.read_text(encoding="utf-8").splitlines())) > 1000
    }
    listed = rows("vendored file")
    assert minified == {*listed}
    for path, (_, digest) in listed.items():
        found = hashlib.sha256((ROOT / path).read_bytes()).hexdigest()
        assert digest.strip("`") == found, f"{path}: another file than its recipe made"
