"""`meter handover`: shown, then confirmed, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.service.sharing import made

from easeml_meter.cli import main
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.handovers import hand_over


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made(tmp_path)
    folder = str(tmp_path / "meter")

    def run(*more: str) -> list[str]:
        with pytest.raises(SystemExit) as ended:
            main(["handover", "1", "2", "-C", folder, *more])
        assert ended.value.code == 0
        return capsys.readouterr().out.splitlines()

    told = hand_over(SYSTEM, session.meter.workspace, 1, 2).sentence
    assert run() == [told, "nothing was recorded: add --confirm"]
    assert run("--confirm") == [told, "recorded"]
    assert session.meter.audit().links[-1].event == "handed over"


def test_refused_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, elastic=True).meter.close()
    for more in ([], ["--confirm"]):
        with pytest.raises(SystemExit) as ended:
            main(["handover", "1", "2", "-C", str(tmp_path / "meter"), *more])
        assert ended.value.code == 2
        assert "only between isolated teams, on a plain budget" in capsys.readouterr().err
