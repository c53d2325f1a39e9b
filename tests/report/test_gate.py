"""Verdicts are harmless Markdown and valid JUnit, whatever a model is called."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from tests.core.test_gate import told

from easeml_meter.core.gate import Gate
from easeml_meter.report.gate import junit, markdown

NAMES = ["m", "a|b`c`", '<script>"&', "x" * 300, "\x1b[31mred"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("band", [1, 3])
def test_junit_is_well_formed(name: str, band: int) -> None:
    suites = ElementTree.fromstring(junit(Gate(2).judge(told(band, model=name))))  # noqa: S314
    suite = suites[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0" if band == 1 else "1")
    assert (suite[0].find("failure") is None) is (band == 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_stays_in_its_cell(name: str) -> None:
    text = markdown(Gate(2).judge(told(3, model=name)))
    row = next(line for line in text.splitlines() if line.startswith("| model"))
    assert row.replace("\\|", "").count("|") == 3
    assert "<script" not in text
    assert "\x1b" not in text
    assert "failed" in text
