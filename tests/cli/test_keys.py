"""`meter key`."""

from __future__ import annotations

import json

from tests.cli.workbench import Workbench


def test_a_key_is_never_overwritten(desk: Workbench) -> None:
    assert desk.run("key", "new", "a.key").code == 0
    before = (desk.folder / "a.key").read_bytes()
    shown = desk.run("key", "new", "a.key")
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert (desk.folder / "a.key").read_bytes() == before


def test_json_has_the_public_half_and_no_secret(desk: Workbench) -> None:
    shown = json.loads(desk.run("key", "new", "b.key", "--json").out)
    assert shown["file"] == "b.key"
    assert shown["recipient"].startswith("age1")
    assert set(shown) == {"file", "recipient"}
