"""Integrations found by name, of this package and of others; none is imported before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations import registry
from easeml_meter.integrations.registry import Group

TOOLS = ("deepeval", "inspect_ai", "lm_eval", "mcp", "mlflow", "torch", "wandb")
"""Other people's packages: no module of ours may import one before it is used."""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(package: str, code: str, name: str = "theirs", group: str = "readers") -> None:
        (tmp_path / f"{package}.py").write_text(code)
        metadata = tmp_path / f"{package}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        entry = f"[easeml_meter.{group}]\n{name} = {package}:run\n"
        (metadata / "entry_points.txt").write_text(entry)

    return installed


def test_a_stranger_adds_a_reader_by_an_entry_point(install: Install) -> None:
    install("stranger_reader", "def run(path, spec):\n    return 'read'\n")
    assert "theirs" in registry.names(Group.READERS)
    assert registry.find(Group.READERS, "theirs")(None, None) == "read"
    assert "theirs" not in registry.names(Group.SOURCES)


def test_the_groups_do_not_mix(install: Install) -> None:
    install("stranger_source", "def run():\n    ...\n", group="sources")
    with pytest.raises(InvalidInput, match=r"^reader: 'theirs' given, "):
        registry.find(Group.READERS, "theirs")


def test_a_name_that_nobody_has_is_refused_in_one_line_with_the_names_there_are(
    install: Install,
) -> None:
    install("stranger_near", "def run():\n    ...\n", name="harness", group="reporters")
    with pytest.raises(InvalidInput, match="reporter: 'harnes' given, did you mean 'harness'"):
        registry.find(Group.REPORTERS, "harnes")


def test_two_packages_of_one_name_are_refused(install: Install) -> None:
    install("stranger_one", "def run():\n    ...\n")
    install("stranger_two", "def run():\n    ...\n")
    with pytest.raises(InvalidInput, match="stranger_one and stranger_two both call themselves"):
        registry.find(Group.READERS, "theirs")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise RuntimeError('no licence')\n", "cannot be imported: 'RuntimeError: no licence'"),
        ("run = 3\n", "is no function"),
    ],
)
def test_a_broken_package_is_refused_in_one_line(install: Install, code: str, said: str) -> None:
    package = f"stranger_broken_{len(code)}"
    install(package, code)
    with pytest.raises(InvalidInput, match=said) as refused:
        registry.find(Group.READERS, "theirs")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("group", list(Group))
def test_what_is_built_in_can_be_loaded_and_comes_before_what_others_install(
    group: Group, install: Install
) -> None:
    for name in registry.BUILT_IN[group]:
        found = registry.find(group, name)
        assert found.__module__.startswith("easeml_meter.integrations.")
        install(
            f"stranger_{name.replace('-', '_')}", "def run():\n    ...\n", name, group.word + "s"
        )
        assert registry.find(group, name) is found


def test_no_module_imports_another_tool_before_it_is_used() -> None:
    folder = Path(registry.__file__).parent
    modules = sorted(f"easeml_meter.integrations.{path.stem}" for path in folder.glob("*.py"))
    code = "import sys, importlib\n" + "".join(f"importlib.import_module({m!r})\n" for m in modules)
    code += f"print(sorted(set({TOOLS!r}) & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
