"""The meters one has a seat at, and each meter's page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fastapi import APIRouter, Response

from easeml_meter.core.history import MeterState
from easeml_meter.core.model import ValidationSet
from easeml_meter.core.people import Role, Seat
from easeml_meter.core.submissions import Receipt, State
from easeml_meter.core.views import SessionView, Signal
from easeml_meter.report.badges import battery_svg
from easeml_meter.report.checks import checks, summary
from easeml_meter.report.curves import curves_svg
from easeml_meter.report.meter import meter_svg
from easeml_meter.report.palette import band_colours
from easeml_meter.report.words import advice, answer_words, gap_words, share_words, when
from easeml_meter.server.api.common import seat_for
from easeml_meter.server.api.history import Generation
from easeml_meter.server.api.history import report as report_of
from easeml_meter.server.parameters import Tenant
from easeml_meter.server.web.pages import Visit, VisitHere
from easeml_meter.service import users
from easeml_meter.service.actor import Permission, allowed
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
class Answer:
    """An answer as it is shown."""

    signal: Signal
    words: str
    colour: str | None

    @classmethod
    def of(cls, signal: Signal) -> Answer:
        """Put an answer into words."""
        colours = band_colours(signal.spec.signals)
        colour = None if signal.band is None else colours[signal.band - 1]
        return cls(signal, answer_words(signal.answer), colour)


@dataclass(frozen=True)
class Step:
    """A line of the history."""

    answer: Answer
    who: str
    when: str
    gap: str
    true_gap: str
    battery: str


@dataclass(frozen=True)
class Session:
    """What was told from one test set, as pages show it."""

    view: SessionView
    names: dict[int, str]
    """Who handed in each step, where that is known."""

    @property
    def steps(self) -> list[Step]:
        """The newest steps, the newest first."""
        newest = reversed(self.view.signals[-NEWEST:])
        return [_step(each, self.names.get(each.step, "")) for each in newest]

    @property
    def last(self) -> Answer | None:
        """The last answer."""
        return Answer.of(self.view.signals[-1]) if self.view.signals else None

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do now."""
        return advice(self.view)

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
class Desk:
    """A meter's page from one seat: what may be seen and done there."""

    visit: Visit
    meter: str
    seat: Seat
    situation: MeterState
    generation: int | None = None

    @classmethod
    def open(
        cls, visit: Visit, meter: str, tenant: int | None = None, generation: int | None = None
    ) -> Desk:
        """Open a meter's page, for everyone with a seat."""
        deeds = (Permission.SEE_SIGNALS, Permission.SUBMIT, Permission.SEE_METER)
        seat = seat_for(visit.site, visit.caller, meter, *deeds, tenant=tenant)
        space = visit.site.space(meter)
        with space.reading() as books:
            situation = space.state(books)
        return cls(visit, meter, seat, situation, generation)

    def may(self, deed: str) -> bool:
        """Tell whether the seat allows a deed, by its name."""
        return allowed(self.seat.role, Permission[deed])

    @property
    def roles(self) -> str:
        """The roles of whoever looks."""
        seats = self.visit.caller.seats(self.meter)
        return " and ".join(sorted({str(seat.role) for seat in seats}))

    @property
    def tenants(self) -> list[int]:
        """Tenants whose page may be looked at."""
        if self.seat.role is Role.LABELER:
            return list(range(1, self.situation.tenants + 1))
        seats = self.visit.caller.seats(self.meter)
        return sorted({seat.tenant for seat in seats if seat.role is self.seat.role})

    @property
    def others(self) -> list[int]:
        """Tenants to whom, or from whom, a checkpoint can be handed."""
        every = range(1, self.situation.tenants + 1)
        return [tenant for tenant in every if tenant != self.seat.tenant]

    @property
    def numbers(self) -> list[int]:
        """Test sets that were delivered."""
        return [row.number for row in self.situation.generations if row.rows is not None]

    @property
    def validation(self) -> ValidationSet | None:
        """The validation set in force."""
        return self.situation.validation

    @property
    def inputs_visible(self) -> bool:
        """Whether the test inputs may be fetched here."""
        return inputs_visible(self.situation.spec, self.visit.at(self.meter))

    def session(self) -> Session | None:
        """Give what was told, to those who may see it."""
        if not self.may("SEE_SIGNALS"):
            return None
        actor = self.visit.at(self.meter, self.seat.tenant)
        view = show_session(actor, self.visit.site.space(self.meter), self.generation)
        return Session(view, self._names(view) if view.signals else {})

    def _names(self, view: SessionView) -> dict[int, str]:
        site = self.visit.site
        with site.reading() as books:
            links = books.audit.all(self.meter)
        known = users.user_names(self.visit.at(self.meter), site)
        of_session = (view.generation, self.seat.tenant)
        told = [link.details for link in links if link.event == "told"]
        return {
            each["step"]: known.get(each.get("user", ""), "")
            for each in told
            if (each["generation"], each["tenant"]) == of_session
        }

    def waiting(self) -> list[Receipt]:
        """Give submissions that wait, are under way, or were refused after they had waited."""
        if not (self.may("SUBMIT") or self.may("SEE_SIGNALS")):
            return []
        actor = self.visit.caller.at(self.meter, self.seat.tenant)
        found = queue.receipts(actor, self.visit.site.space(self.meter))
        return [each for each in found if each.state is not State.DONE][:_WAITING]

    def render(self, template: str, **values: Any) -> Response:
        """Answer with this page, or a part of it."""
        return self.visit.render(template, desk=self, session=self.session(), **values)


def _step(signal: Signal, who: str) -> Step:
    return Step(
        answer=Answer.of(signal),
        who=who,
        when=when(signal.told_at),
        gap=gap_words(signal.gap),
        true_gap=gap_words(signal.true_gap),
        battery=share_words(signal.battery),
    )


@router.get("/meters")
def list_meters(visit: VisitHere) -> Response:
    """List the meters at which one has a seat, with their state at a glance."""
    with visit.site.reading() as books:
        found = [row.id for row in books.meters.all() if visit.caller.seats(row.id)]
    desks = [Desk.open(visit, meter) for meter in found]
    return visit.render("meters.html", meters=[(each, each.session()) for each in desks])


@router.get("/meters/{meter}")
def show_meter(
    visit: VisitHere, meter: str, tenant: Tenant = None, generation: Generation = None
) -> Response:
    """Show a meter, as far as one's role may see it."""
    return Desk.open(visit, meter, tenant, generation).render("meter.html")


@router.get("/meters/{meter}/report.html")
def report(
    visit: VisitHere, meter: str, tenant: Tenant = None, generation: Generation = None
) -> Response:
    """Give a session as one page, to keep or to print."""
    return report_of(show_session(visit.at(meter, tenant), visit.site.space(meter), generation))
