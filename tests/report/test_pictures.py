"""What docs/reading-the-meter.md shows is what the code draws."""

from __future__ import annotations

import pytest
from tests.report.pictures import IMAGES, MARCHING, PICTURES

from easeml_meter.report.gauge import plain

PAGE = (IMAGES.parent / "reading-the-meter.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name: str) -> None:
    assert f"(images/{name})" in PAGE
    again = "run: python -m tests.report.pictures"
    assert (IMAGES / name).read_text(encoding="utf-8") == PICTURES[name], again


def test_the_terminal_on_the_page() -> None:
    assert f"```text\n{plain(MARCHING.signals[-1])}\n```" in PAGE
