"""The documentation site: it builds, and its links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import sync_playwright
from tests.e2e.browsing import FLAGS, tab
from tests.nodes import exists

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


class Page(HTMLParser):
    """What a built page can be linked by, links to, and loads."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if "src" in found:
            self.loaded.append(found["src"])
        if "href" in found:
            (self.links if tag == "a" else self.loaded).append(found["href"])


class Quiet(SimpleHTTPRequestHandler):
    """Serve files without a line for each."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its name there
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does, but elsewhere: tests run side by side."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(DOCS, folder / "out" / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    script = ROOT / "scripts" / "reference.py"
    reference = folder / "out" / "docs" / "reference"
    subprocess.run([sys.executable, str(script), str(reference)], check=True)
    program = Path(sys.executable).with_name("zensical")
    built = subprocess.run(
        [program, "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "out" / "site"


def pages_of(entries: list[Any]) -> Iterator[str]:
    """Give the files that a navigation names, in their order."""
    for entry in entries:
        for target in entry.values():
            yield from [target] if isinstance(target, str) else pages_of(target)


def test_navigation_names_every_page_once() -> None:
    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    named = list(pages_of(settings["project"]["nav"]))
    there = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    made = [f"reference/{name}.md" for name in ("commands", "api", "python")]
    assert sorted(named) == sorted(there + made)


def test_settings_are_as_their_declarations_print_them() -> None:
    """`python -c 'import reference; print(reference.settings_table())'` in scripts prints them."""
    path = ROOT / "scripts" / "reference.py"
    spec = importlib.util.spec_from_file_location("reference", path)
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert f"\n\n{reference.settings_table()}\n\n" in (DOCS / "commands.md").read_text("utf-8")


def problems(pages: dict[Path, Page], site: Path) -> list[str]:
    """Give the links of a site that lead nowhere."""
    found = []
    for file, page in pages.items():
        for link in page.links + page.loaded:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (file.parent / unquote(address.path)).resolve() if address.path else file
            if target.is_dir():
                target /= "index.html"
            anchors = pages[target].anchors if target in pages else None
            there = target.is_file() and target.is_relative_to(site)
            if not there or (address.fragment and address.fragment not in (anchors or ())):
                found.append(f"{file.relative_to(site)}: {link}")
    return found


def test_links_lead_somewhere(site: Path) -> None:
    pages = {file.resolve(): Page(file) for file in site.rglob("*.html") if file.name != "404.html"}
    assert len(pages) == len(list(DOCS.rglob("*.md"))) + 3  # the reference
    assert problems(pages, site.resolve()) == []


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_nothing_comes_from_elsewhere(address: str) -> None:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        with tab(chromium, address) as found:  # which looks at requests and at the console
            page = found.go("/index.html")
            box = page.locator("input[aria-controls$=results]")
            for _ in range(100):  # until the page has begun to listen
                page.keyboard.press("/")
                page.wait_for_timeout(100)
                if box.is_visible():
                    break
            box.fill("battery")
            page.get_by_text("What is left").wait_for()  # a heading of another page
        chromium.close()


def test_links_of_readme_lead_somewhere() -> None:
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#\s]+)\)", text):
            assert urlsplit(link).scheme or (ROOT / link).exists(), f"{name}: {link}"


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_named_for_contributors_are_there(name: str) -> None:
    """Paths are below the root, the package or the tests."""
    text = (ROOT / name).read_text(encoding="utf-8")
    named = re.findall(r"`([\w./]+/[\w.]*)`", text)
    assert named
    roots = (ROOT, ROOT / "src" / "easeml_meter", ROOT / "tests")
    gone = [path for path in named if not any((root / path).exists() for root in roots)]
    assert gone == []


def claims() -> list[tuple[str, str]]:
    """Return the claims of the threat model, each with the cell that names its tests."""
    text = (DOCS / "security.md").read_text(encoding="utf-8")
    rows = text.partition("| claim | test |\n| --- | --- |\n")[2].partition("\n\n")[0]
    return [(claim, tests) for _, claim, tests, _ in (row.split("|") for row in rows.splitlines())]


def test_every_claim_of_the_threat_model_has_a_test() -> None:
    found = claims()
    assert len(found) >= 30
    for claim, tests in found:
        named = re.findall(r"`([^`]+)`", tests)
        assert named, claim
        assert [each for each in named if not exists(each)] == [], claim
    assert not exists("tests/test_docs.py::test_that_nobody_wrote")
