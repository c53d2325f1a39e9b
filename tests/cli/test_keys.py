"""`meter key`."""

from __future__ import annotations

from tests.cli.workbench import Workbench


def test_a_key_is_never_overwritten(desk: Workbench) -> None:
    assert desk.run("key", "new", "a.key").code == 0
    before = (desk.folder / "a.key").read_bytes()
    shown = desk.run("key", "new", "a.key")
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert (desk.folder / "a.key").read_bytes() == before
