"""The story holds, and leaves a folder to go on with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.test_demo import run

from easeml_meter import Meter
from easeml_meter.demo.story import REAL, SETTINGS, MailWorld, honest, tuned, write_tutorial

PERCENT = r"(\d+\.\d)%"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("first")
    done = run("demo", folder=folder)  # there is no terminal, so nothing waits for Enter
    assert done.returncode == 0, done.stderr
    return folder / "meter-demo", done.stdout


def test_the_story_holds(told: tuple[Path, str]) -> None:
    """Both errors fall; then one falls and the other rises; a fresh validation set tells."""
    losses = [
        (float(validation), float(test))
        for validation, test in re.findall(rf"{PERCENT} and {PERCENT}", told[1])
    ]
    assert len(losses) == 10
    honest, tuned, fresh = losses[:3], losses[3:8], losses[8:]
    assert honest == sorted(honest, reverse=True)
    assert [test for _, test in honest] == sorted((test for _, test in honest), reverse=True)
    assert [test for _, test in tuned] == sorted(test for _, test in tuned)
    assert tuned[-1][0] == min(validation for validation, _ in losses)
    assert abs(fresh[0][0] - fresh[0][1]) < 5
    thought, was = map(int, re.findall(r"You thought (\d+)% error; it was (\d+)%", told[1])[0])
    assert was >= 4 * thought


def test_the_meter_marches_and_comes_down(told: tuple[Path, str]) -> None:
    with Meter.open(told[0]) as meter:
        view = meter.status(generation=1)
        bands = [signal.band for signal in view.signals]
        assert bands[:8] == sorted(bands[:8], key=lambda band: band or 0)
        assert bands[7] == max(band or 0 for band in bands) > 2
        assert bands[8:] == [1, 1]
        for signal, truth in zip(view.signals, view.retrospective, strict=True):
            assert truth is not None
            assert truth.test_loss <= (signal.true_loss_at_most or 0) + 0.03
        assert meter.audit().sound


def test_lines_fit_a_terminal(told: tuple[Path, str]) -> None:
    assert max(map(len, told[1].splitlines())) <= 80


def test_it_ends_with_a_picture_and_what_to_type(told: tuple[Path, str]) -> None:
    folder, text = told
    assert (folder / ".meter" / "released" / "1" / "report.html").is_file()
    assert "report.html" in text
    assert "Next: meter -C meter-demo status" in text
    assert run("-C", "meter-demo", "status", folder=folder.parent).returncode == 0
    assert (folder / "tutorial" / "meter.toml").is_file()


def test_only_tuning_to_the_validation_mails_makes_a_filter_worse() -> None:
    world = MailWorld(seed=11)
    train, validation, hidden = world.draw(600), world.draw(150), world.draw(8_000)
    errors = [hidden.error(each) for each in honest(train)]
    assert errors == sorted(errors, reverse=True)
    picked = [hidden.error(each) for each in tuned(train, validation)]
    assert picked[-1] > 1.5 * errors[-1]
    assert validation.error([*tuned(train, validation)][-1]) < errors[-1]


def test_the_same_seed_draws_the_same_mails() -> None:
    one, other = MailWorld(5).draw(3), MailWorld(5).draw(3)
    assert (one.inputs == other.inputs).all()
    assert one.inputs.shape[1] > REAL


PAGE = Path(__file__).parents[2] / "docs" / "embedded.md"


def test_the_settings_are_those_on_the_page() -> None:
    found = re.search(r"^```toml\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    assert found[1] == SETTINGS


def test_every_file_on_the_page_is_written(tmp_path: Path) -> None:
    write_tutorial(tmp_path / "tutorial")
    named = set(re.findall(r"[\w-]+\.csv", PAGE.read_text("utf-8"))) - {"data.csv"}
    written = {path.name for path in (tmp_path / "tutorial").iterdir()}
    assert named <= written
