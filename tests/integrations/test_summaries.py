"""Answers as Markdown, in a file or in the summary of a job."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.test_gate import session, told

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations import summaries


def test_a_file_has_the_last_answer(tmp_path: Path) -> None:
    path = tmp_path / "answer.md"
    report = summaries.markdown(str(path))
    for band in (1, 3):
        signal = told(band, model="a|b")
        report(signal, session(1, signal))
    text = path.read_text(encoding="utf-8")
    assert text.startswith("### Overfitting meter: band 3\n")
    assert "| model | `a\\|b` |" in text
    assert text.count("###") == 1
    assert told(3).promise in text


def test_a_summary_keeps_what_other_steps_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    summaries.github("")(told(1), session(1, told(1)))
    assert path.read_text(encoding="utf-8").startswith("before\n### Overfitting meter: band 1\n")


def test_a_place_that_cannot_be_written_is_refused_before(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a folder that exists"):
        summaries.markdown(str(tmp_path / "nowhere" / "a.md"))
    with pytest.raises(InvalidInput, match="no place"):
        summaries.github("a.md")
