from __future__ import annotations

from xml.etree import ElementTree

import pytest
from tests.report.sessions import INCREMENTAL, SPEC, drawn_session, released, session

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.signals import FAIL, NO_READING, PASS
from easeml_meter.core.views import SessionView, Truth
from easeml_meter.report.checks import checks
from easeml_meter.report.story import Story, share_svg
from easeml_meter.spec import MeterSpec

LOSSES = [(0.2, 0.21), (0.12, 0.15), (0.07, 0.19), (0.09, 0.16)]


def asked() -> SessionView:
    """Give a session of a meter that answers pass or fail."""
    verdicts = MeterSpec((), steps=4, delta=0.01, question="n > 0.8 +/- 0.05", classes=(0, 1))
    truths = tuple(Truth(*pair, None, passed=pair[1] < 0.16) for pair in LOSSES)
    told = [FAIL, PASS, FAIL, PASS]
    return session(told, verdicts, phase=Phase.RELEASED, retrospective=truths)


def drawn() -> SessionView:
    truths = tuple(Truth(0.1, 0.1 + gap, band=None) for gap in (0.02, 0.13))
    return drawn_session([0.02, 0.13], phase=Phase.RELEASED, retrospective=truths)


def test_the_headline_is_of_the_best_validation_loss() -> None:
    """Not of the last submission, nor of the one that is best on the test set."""
    story = Story(released(SPEC, LOSSES))
    assert story.headline == "You saw 7 %. It was 19 %."
    assert story.worse
    assert story.chosen is story.checks[2]
    assert story.best is story.checks[1]
    assert story.missed == "4 points"
    assert story.promised == "Its true error is 18 to 20 %, 99 % sure."


def test_a_test_loss_below_the_validation_loss_is_no_warning() -> None:
    story = Story(released(SPEC, [(0.2, 0.19), (0.3, 0.31)]))
    assert story.headline == "You saw 20 %. It was 19 %."
    assert not story.worse
    assert story.missed == ""


def test_the_first_of_equal_submissions_is_meant() -> None:
    story = Story(released(SPEC, [(0.1, 0.12), (0.1, 0.3), (0.2, 0.12)]))
    assert story.chosen is story.checks[0]
    assert story.best is story.checks[0]


def test_wrong_answers_are_counted_as_the_checks_have_them() -> None:
    view = released(SPEC, LOSSES)
    wrong = session([1, 1, 1, 1], retrospective=view.retrospective, losses=[0.1] * 4)
    story = Story(wrong)
    assert story.judged == 4
    assert story.right == sum(bool(check.right) for check in checks(wrong)) < 4
    assert story.verdict.startswith("In 3 of 4 steps")


@pytest.mark.parametrize(
    "view",
    [
        session([], phase=Phase.RELEASED),
        released(SPEC, [None, None]),
        session([1, 2], phase=Phase.RELEASED, losses=[0.1, 0.2]),
    ],
    ids=["no answers", "no losses", "no retrospective"],
)
def test_without_losses_nothing_is_claimed(view: SessionView) -> None:
    story = Story(view)
    assert story.headline == "No losses to compare."
    assert (story.saw, story.was, story.promised, story.missed) == ("", "", "", "")
    assert (story.judged, story.right) == (0, 0)
    assert "No losses to compare." in share_svg(story)


def test_steps_that_were_not_measured_are_left_out() -> None:
    story = Story(released(SPEC, [None, *LOSSES, None]))
    assert story.headline == "You saw 7 %. It was 19 %."
    assert story.checks[0].signal.answer == NO_READING
    assert len(story.measured) == story.judged == 4


@pytest.mark.parametrize(
    "view",
    [released(INCREMENTAL, LOSSES), asked(), drawn(), released(SPEC, [(0.0, 0.0)])],
    ids=["incremental", "pass or fail", "drawn edges", "no loss at all"],
)
def test_every_kind_of_meter_has_a_story_and_a_picture(view: SessionView) -> None:
    story = Story(view)
    assert story.chosen is not None
    assert story.headline == f"You saw {story.saw}. It was {story.was}."
    picture = share_svg(story)
    texts = [node.text for node in ElementTree.fromstring(picture).iter()]  # noqa: S314  our own
    assert f"You saw {story.saw}." in texts
    assert f"It was {story.was}." in texts
    assert "nan" not in picture
    assert "style=" not in picture


def test_no_roc_curve_is_called_the_best() -> None:
    """Each is no distance away from itself on validation, so the first was always said to be."""
    spec = MeterSpec.uniform(
        signals=3, tolerance=0.25, steps=4, delta=0.2, edges=[0.1, 0.3], loss="roc[1]", rows=900
    )
    story = Story(released(spec, [(0.0, 0.05), None, (0.0, 0.123456), (0.0, 0.02)]))
    assert (story.chosen, story.best) == (None, None)
    assert (story.saw, story.was, story.promised, story.missed) == ("", "", "", "")
    assert story.headline == "The ROC curves were at most 0.1235 apart."
    assert (story.judged, story.right) == (3, 3)
    picture = share_svg(story)
    assert story.headline in picture
    assert "You saw" not in picture


def test_a_failed_model_has_no_promise() -> None:
    assert Story(asked()).promised == ""


def test_the_picture_marks_the_submission_of_the_headline_and_names_no_model() -> None:
    view = released(SPEC, LOSSES)
    root = ElementTree.fromstring(share_svg(Story(view)))  # noqa: S314  our own
    dots = [node for node in root.iter() if node.tag.endswith("circle")]
    (at,) = {float(node.get("cx", "")) for node in dots}
    assert at == pytest.approx(80 + 1040 * 2 / 3, abs=0.1)
    text = "".join(root.itertext())
    assert not any(signal.model in text for signal in view.signals)
    assert "sentiment, test set 1" in text


def test_a_name_of_a_meter_is_no_markup() -> None:
    view = session([1], meter="<script>", phase=Phase.RELEASED, losses=[0.1])
    assert "<script>" not in share_svg(Story(view))
