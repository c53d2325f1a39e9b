"""The story of a released test set: what people saw and were told, and what was true.

Every judgement comes from `report.checks`; this only picks the submissions that the story is about.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from easeml_meter.core.views import SessionView
from easeml_meter.report.checks import Check, checks, summary
from easeml_meter.report.palette import INK, TEST, TRACK, VALIDATION
from easeml_meter.report.svg import element, escaped, fitted, image, number
from easeml_meter.report.words import (
    loss_name,
    loss_words,
    measured_words,
    range_words,
    sure_words,
)

_WIDTH, _HEIGHT = 1200.0, 630.0
"""The size at which most sites show a picture that is shared."""
_SIDE, _TOP, _BOTTOM = 80.0, 330.0, 540.0


@dataclass(frozen=True)
class Story:
    """What one team was told from a released test set, beside the truth."""

    view: SessionView

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """Every answer beside what is now known."""
        return checks(self.view)

    @cached_property
    def chosen(self) -> Check | None:
        """The submission with the best validation loss, the first of several; None: none known."""
        return min(self._ranked, key=lambda each: _losses(each)[0], default=None)

    @cached_property
    def best(self) -> Check | None:
        """The submission with the best test loss, the first of several; None: none known."""
        return min(self._ranked, key=lambda each: _losses(each)[1], default=None)

    @cached_property
    def measured(self) -> tuple[Check, ...]:
        """The submissions whose losses are known."""
        return tuple(each for each in self.checks if each.truth is not None)

    @property
    def _ranked(self) -> tuple[Check, ...]:
        """Those of which one is the best: a curve is near another, and neither good nor bad."""
        return () if self.view.spec.meter.sample.measured.curve else self.measured

    @property
    def judged(self) -> int:
        """Answers that can be compared with the losses."""
        return sum(each.right is not None for each in self.checks)

    @property
    def right(self) -> int:
        """Answers that were the right ones."""
        return sum(each.right is True for each in self.checks)

    @property
    def verdict(self) -> str:
        """Say how the answers stand against the losses."""
        return summary(self.checks)

    @property
    def saw(self) -> str:
        """The validation loss of the submission chosen; empty: none is known."""
        return "" if self.chosen is None else self._words(_losses(self.chosen)[0])

    @property
    def was(self) -> str:
        """The test loss of the submission chosen; empty: none is known."""
        return "" if self.chosen is None else self._words(_losses(self.chosen)[1])

    @property
    def worse(self) -> bool:
        """Whether the submission chosen is worse on the test set than on the validation set."""
        return self.chosen is not None and _losses(self.chosen)[1] > _losses(self.chosen)[0]

    @property
    def headline(self) -> str:
        """Say in a line what people saw and what it was."""
        if self.view.spec.meter.sample.measured.curve and self.measured:
            farthest = max(_losses(each)[1] for each in self.measured)
            return f"The ROC curves were at most {loss_words(self.view.spec, farthest)} apart."
        if self.chosen is None:
            return "No losses to compare."
        return f"You saw {self.saw}. It was {self.was}."

    @property
    def promised(self) -> str:
        """Say what remains promised of the true loss of the submission chosen; may be empty."""
        interval = None if self.chosen is None else self.chosen.true_loss
        if interval is None or interval == (0, 1):
            return ""
        name, edges = loss_name(self.view.spec), range_words(self.view.spec, interval)
        average = "" if not self.view.spec.meter.renewal.rolls else ", averaged over its window,"
        sure = sure_words(self.view.spec, self.view.generation)
        return f"Its true {name}{average} is {edges}, {sure}."

    @property
    def missed(self) -> str:
        """How much better the best submission is than the one chosen; empty: it is the same."""
        if self.chosen is None or self.best is None or self.best is self.chosen:
            return ""
        less = _losses(self.chosen)[1] - _losses(self.best)[1]
        words = self._words(less)
        return words.replace(" %", " points") if less > 0 else ""

    def _words(self, loss: float) -> str:
        return measured_words(self.view.spec, loss)


def _losses(check: Check) -> tuple[float, float]:
    if check.truth is None:
        raise ValueError(f"step {check.signal.step} was not measured")
    return check.truth.validation_loss, check.truth.test_loss


def share_svg(story: Story) -> str:
    """Draw the story as a picture that stands alone."""
    view, chosen = story.view, story.chosen
    name = loss_name(view.spec)
    place = f"{fitted(view.meter, 30, 700)}, test set {view.generation}"
    lines = [element("text", escaped(place), x=_SIDE, y=96, font_size=30, class_="m-quiet")]
    if chosen is None:
        lines.append(_large(story.headline, 190, INK))
    else:
        lines += [_large(f"You saw {story.saw}.", 180, VALIDATION)]
        lines += [_large(f"It was {story.was}.", 264, TEST if story.worse else INK)]
        lines += _curves(story, chosen)
        for x, words, fill in (
            (_SIDE, f"validation {name}", VALIDATION),
            (_SIDE + 290, f"test {name} (dashed)", TEST),
        ):
            lines.append(element("text", words, x=x, y=596, font_size=26, fill=fill))
    return image("story", _WIDTH, _HEIGHT, f"{view.meter}: {story.headline}", story.verdict, *lines)


def _large(words: str, y: float, colour: str) -> str:
    return element(
        "text", escaped(words), x=_SIDE, y=y, font_size=72, font_weight="bold", fill=colour
    )


def _curves(story: Story, chosen: Check) -> list[str]:
    pairs = [_losses(each) for each in story.measured]
    highest = max(max(pair) for pair in pairs) or 1.0
    apart = (_WIDTH - 2 * _SIDE) / max(1, len(pairs) - 1)
    found = [element("path", d=f"M{number(_SIDE)} {number(_BOTTOM)}H1120", stroke=TRACK)]
    for which, colour, dashes in ((0, VALIDATION, None), (1, TEST, "14 8")):
        points = [
            (_SIDE + apart * index, _BOTTOM - (_BOTTOM - _TOP) * pair[which] / highest)
            for index, pair in enumerate(pairs)
        ]
        path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
        pen: dict[str, str | float | None] = {"stroke": colour, "stroke_dasharray": dashes}
        found.append(element("path", d=path, fill="none", stroke_width=5, **pen))
        x, y = points[story.measured.index(chosen)]
        found.append(element("circle", cx=x, cy=y, r=9, fill=colour))
    return found
