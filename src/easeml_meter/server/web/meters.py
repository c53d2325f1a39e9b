"""The meters one has a seat at, and each meter's page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fastapi import APIRouter, Response

from easeml_meter.core.history import MeterState
from easeml_meter.core.model import ValidationSet
from easeml_meter.core.people import Role
from easeml_meter.core.submissions import Receipt, SubmissionState
from easeml_meter.core.views import SessionView, Signal
from easeml_meter.report.advice import advice
from easeml_meter.report.badges import battery_svg
from easeml_meter.report.checks import checks, summary
from easeml_meter.report.curves import curves_svg
from easeml_meter.report.meter import meter_svg
from easeml_meter.report.scale import answer_colour
from easeml_meter.report.words import (
    gap_name,
    gap_words,
    loss_name,
    loss_sentence,
    share_words,
    short_words,
    told_words,
    true_loss_words,
    validation_words,
    when,
)
from easeml_meter.server.api.history import Generation
from easeml_meter.server.api.history import report as report_of
from easeml_meter.server.parameters import Tenant
from easeml_meter.server.web.pages import Visit, VisitHere
from easeml_meter.service import meters, users
from easeml_meter.service.actor import Actor, Permission
from easeml_meter.service.history import show_session
from easeml_meter.service.submissions import queue
from easeml_meter.service.testsets.inputs import inputs_visible

router = APIRouter(include_in_schema=False)

NEWEST = 50
"""Steps of a history that the page lists; the report has all of them."""
DRAWN = 100
"""Steps that the page draws, so that it stays small."""
_WAITING = 10


@dataclass(frozen=True)
class ShownAnswer:
    """An answer as it is shown."""

    signal: Signal
    words: str
    short: str
    """Without its edges, where they stand beside it."""
    loss: str
    """The validation loss, and what is promised of the true loss; may be empty."""
    colour: str | None

    @classmethod
    def of(cls, signal: Signal) -> ShownAnswer:
        """Put an answer into words."""
        colour = None if signal.band is None else answer_colour(signal)
        words = told_words(signal), short_words(signal)
        return cls(signal, *words, loss_sentence(signal), colour)


@dataclass(frozen=True)
class HistoryLine:
    """A line of the history."""

    answer: ShownAnswer
    who: str
    when: str
    gap: str
    validation_loss: str
    true_loss: str
    battery: str


@dataclass(frozen=True)
class Session:
    """What was told from one test set, as pages show it."""

    view: SessionView
    role: Role
    """The visitor's."""
    names: dict[int, str]
    """Who handed in each step, where that is known."""

    @property
    def steps(self) -> list[HistoryLine]:
        """The newest steps, the newest first."""
        newest = reversed(self.view.signals[-NEWEST:])
        return [_step(each, self.names.get(each.step, "")) for each in newest]

    @property
    def last(self) -> ShownAnswer | None:
        """The last answer."""
        return ShownAnswer.of(self.view.signals[-1]) if self.view.signals else None

    @property
    def gap_name(self) -> str:
        """What the meter's gap is."""
        return gap_name(self.view.spec)

    @property
    def loss_name(self) -> str:
        """What people call the loss."""
        return loss_name(self.view.spec)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do now."""
        return advice(self.view, self.role)

    @property
    def meter(self) -> str:
        """The meter, step by step."""
        return meter_svg(replace(self.view, signals=self.view.signals[-DRAWN:]))

    @property
    def drawn(self) -> int:
        """How many steps are drawn."""
        return min(DRAWN, len(self.view.signals))

    @property
    def battery(self) -> str:
        """What is left."""
        return battery_svg(self.view.battery)

    @property
    def curves(self) -> str:
        """Validation and test loss, once they are known; empty: too long to draw here."""
        return curves_svg(self.view) if len(self.view.signals) <= 2 * DRAWN else ""

    @property
    def verdict(self) -> str:
        """Whether what was told was right."""
        return summary(checks(self.view))


@dataclass(frozen=True)
class MeterPage:
    """A meter's page for one visitor: what may be seen and done there."""

    visit: Visit
    meter: str
    actor: Actor
    state: MeterState
    generation: int | None = None

    @classmethod
    def open(
        cls, visit: Visit, meter: str, tenant: int | None = None, generation: int | None = None
    ) -> MeterPage:
        """Open a meter's page, for everyone with a seat."""
        actor = visit.at(meter, tenant)
        state = meters.meter_state(actor, visit.site.space(meter))
        # Whoever has several seats sees the page of the one that shows most.
        seated = actor.granted(Permission.SEE_SIGNALS, Permission.SUBMIT, Permission.SEE_METER)
        return cls(visit, meter, seated, state, generation)

    def may(self, permission: str) -> bool:
        """Whether the visitor may do something, by the permission's name."""
        return self.actor.may(Permission[permission])

    @property
    def tenant(self) -> int:
        """The tenant whose page it is."""
        return self.actor.acting_for

    @property
    def roles(self) -> str:
        """The roles of the visitor."""
        return " and ".join(sorted({str(role) for role, _ in self.visit.at(self.meter).seats}))

    @property
    def tenants(self) -> list[int]:
        """Tenants whose page the visitor may look at."""
        every = range(1, self.state.tenants + 1)
        shown = self.may("SEE_SIGNALS") or self.may("SUBMIT")
        return [tenant for tenant in every if shown and self.actor.acts_for(tenant)]

    @property
    def others(self) -> list[int]:
        """Tenants to whom, or from whom, a checkpoint can be handed."""
        every = range(1, self.state.tenants + 1)
        return [tenant for tenant in every if tenant != self.tenant]

    @property
    def numbers(self) -> list[int]:
        """Test sets that were delivered."""
        return [row.number for row in self.state.generations if row.rows is not None]

    @property
    def validation(self) -> ValidationSet | None:
        """The validation set in force."""
        return self.state.validation

    @property
    def inputs_visible(self) -> bool:
        """Whether the test inputs may be fetched here."""
        return inputs_visible(self.state.spec, self.visit.at(self.meter))

    def session(self) -> Session | None:
        """Return the answers so far, for those who may see them."""
        if not self.may("SEE_SIGNALS"):
            return None
        view = show_session(self.actor, self.visit.site.space(self.meter), self.generation)
        known = users.user_names(self.visit.at(self.meter), self.visit.site)
        names = {
            signal.step: known.get(submitter, "")
            for signal, submitter in zip(view.signals, view.submitters, strict=True)
        }
        return Session(view, self.actor.role, names)

    def waiting(self) -> list[Receipt]:
        """Return submissions that wait, are under way, or were refused after they had waited."""
        if not (self.may("SUBMIT") or self.may("SEE_SIGNALS")):
            return []
        found = queue.receipts(self.actor, self.visit.site.space(self.meter))
        return [each for each in found if each.state is not SubmissionState.DONE][:_WAITING]

    def render(self, template: str, **values: Any) -> Response:
        """Answer with this page, or a part of it."""
        return self.visit.render(template, page=self, session=self.session(), **values)


def _step(signal: Signal, who: str) -> HistoryLine:
    return HistoryLine(
        answer=ShownAnswer.of(signal),
        who=who,
        when=when(signal.told_at),
        gap=gap_words(signal.gap),
        validation_loss=validation_words(signal),
        true_loss=true_loss_words(signal),
        battery=share_words(signal.battery),
    )


@router.get("/meters")
def list_meters(visit: VisitHere) -> Response:
    """List the meters at which one has a seat, with their state at a glance."""
    found = meters.list_meters(visit.caller.at_site(), visit.site, visit.caller)
    pages = [MeterPage.open(visit, meter.id) for meter, _ in found]
    return visit.render("meters.html", meters=[(page, page.session()) for page in pages])


@router.get("/meters/{meter}")
def show_meter(
    visit: VisitHere, meter: str, tenant: Tenant = None, generation: Generation = None
) -> Response:
    """Show a meter, as far as one's role may see it."""
    return MeterPage.open(visit, meter, tenant, generation).render("meter.html")


@router.get("/meters/{meter}/report.html")
def report(
    visit: VisitHere, meter: str, tenant: Tenant = None, generation: Generation = None
) -> Response:
    """Return a session as one page, to keep or to print."""
    return report_of(show_session(visit.at(meter, tenant), visit.site.space(meter), generation))
