"""The planner's page stands alone, and its policy allows its own scripts and no others."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from tests.cli.running import run

from easeml_meter.report.planner import planner_page
from easeml_meter.report.presets import told


def test_the_policy_allows_the_scripts_of_the_page_alone() -> None:
    page = planner_page()
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()) for each in scripts]
    policy = re.findall(r'Policy" content="(.*?)"', page)[0]
    assert re.findall(r"'sha256-(.*?)'", policy) == [each.decode() for each in digests]
    assert len(scripts) == 2
    assert not re.search(r"(src|href)=|url\(|@import", page)


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "plan", "--page", str(tmp_path / "planner.html"))
    assert (code, (tmp_path / "planner.html").read_text("utf-8")) == (0, planner_page())
    assert out.startswith("Next: open ")
    code, _, err = run(capsys, "plan", "--page", str(tmp_path / "none" / "planner.html"))
    assert (code, err.count("\n")) == (2, 1)


def test_its_examples_are_the_stories_of_the_command() -> None:
    """Each fills fields that the page has."""
    page = planner_page()
    buttons = re.findall(r'<button type="button" data-fill="(.*?)">(.*?)</button>', page)
    one_team = [title for title, story in told().items() if "tenants" not in story]
    assert [title for _, title in buttons] == one_team
    for fill, _ in buttons:
        for name in parse_qs(unescape(fill), strict_parsing=True):
            assert f'name="{name}"' in page
    assert "PRESETS" not in page
