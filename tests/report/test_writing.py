from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.sessions import session

from easeml_meter import report
from easeml_meter.errors import InvalidInput
from easeml_meter.report import meter_svg, write


def test_the_bytes_are_the_same_everywhere(tmp_path: Path) -> None:
    drawn = meter_svg(session([1, 2], meter="modèle"))
    write(tmp_path / "meter.svg", drawn)
    assert (tmp_path / "meter.svg").read_bytes() == drawn.encode()


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written") as caught:
        write(tmp_path / "nowhere" / "meter.svg", "x")
    assert "\n" not in str(caught.value)


def test_everything_offered_is_there() -> None:
    assert all(hasattr(report, name) for name in report.__all__)
