"""Findings of an examination."""

from __future__ import annotations

import pytest

from easeml_meter.core.doctor import Finding, Verdict, healthy, ok

WARNING = Finding("disk", Verdict.WARN, "little is\nleft", "make room")
FAILURE = Finding("key", Verdict.FAIL, "open to all", "chmod 600 it")


def test_a_finding_is_one_line_with_what_to_do() -> None:
    assert WARNING.line == "warn  disk      little is left: make room"
    assert ok("proxy", "none").line == "ok    proxy     none"


@pytest.mark.parametrize(("verdict", "remedy"), [("ok", "do it"), ("warn", ""), ("fail", "")])
def test_what_is_not_ok_has_a_remedy_and_nothing_else_does(verdict: str, remedy: str) -> None:
    with pytest.raises(ValueError, match="remedy"):
        Finding("disk", Verdict(verdict), "said", remedy)


def test_warnings_are_healthy_and_failures_are_not() -> None:
    assert healthy([ok("proxy", "none"), WARNING])
    assert not healthy([WARNING, FAILURE])
