"""`meter handover`: shown, then confirmed, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live import Live
from tests.server.driving import begin
from tests.service.helpers import condition_spec, make_session, small_spec
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
    make_session(tmp_path, condition_spec(steps=6, tenants=(3, 3))).meter.close()
    for more in ([], ["--confirm"]):
        with pytest.raises(SystemExit) as ended:
            main(["handover", "1", "2", "-C", str(tmp_path / "meter"), *more])
        assert ended.value.code == 2
        assert "teams are counted as sharing answers" in capsys.readouterr().err


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["handover", *arguments])
    return int(ended.value.code or 0), "".join(capsys.readouterr())


def test_at_a_server_the_other_team_answers(
    site: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = site.served
    meter = served.add_meter(small_spec(steps=6, tenants=(3, 3)), prefix="ho-")
    begin(served, meter, tmp_path, prefix="ho-")
    place = ["--server", site.address, "--meter", meter]

    def as_user(user: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.setenv("METER_TOKEN", served.tokens[f"ho-{user}"])
        return run(capsys, *arguments, *place)

    code, shown = as_user("developer", "1", "2", "--confirm")
    assert code == 0
    assert "Team 2 has to agree: meter handover 1 2 --accept or --decline." in shown
    code, shown = as_user("developer2")
    assert shown.startswith("1 to 2: Teams 1 and 2 will share one history")
    assert as_user("developer2", "1", "2", "--decline")[1].endswith("declined\n")
    assert as_user("developer")[1] == "no hand-over waits for a team to agree\n"
    assert as_user("developer2", "1", "2", "--accept")[0] == 2  # nobody asks any more
    assert as_user("developer", "1", "2", "--confirm")[0] == 0
    assert as_user("developer2", "1", "2", "--accept")[1].endswith("recorded\n")


def test_one_team_is_too_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path).meter.close()
    folder = ["-C", str(tmp_path / "meter")]
    for given in (["1"], ["--accept"]):
        code, shown = run(capsys, *given, *folder)
        assert (code, shown.count("\n")) == (2, 1)
        assert "give both" in shown
