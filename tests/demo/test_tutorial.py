"""The files of the tutorial are those that its page speaks of."""

from __future__ import annotations

import re
from pathlib import Path

from easeml_meter.demo import tutorial

PAGE = Path(__file__).parents[2] / "docs" / "embedded.md"


def test_the_settings_are_those_on_the_page() -> None:
    found = re.search(r"^```toml\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    assert found[1] == tutorial.SETTINGS


def test_every_file_on_the_page_is_written(tmp_path: Path) -> None:
    tutorial.write(tmp_path / "tutorial")
    named = set(re.findall(r"[\w-]+\.csv", PAGE.read_text("utf-8"))) - {"data.csv"}
    written = {path.name for path in (tmp_path / "tutorial").iterdir()}
    assert named <= written
