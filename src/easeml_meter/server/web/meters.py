"""The meters one has a seat at, and each meter's page with its tabs.

Hand-overs are shown first, then requested, accepted or declined; test sets lie on one time line.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fastapi import APIRouter, Response

from easeml_meter.core.history import MeterState, as_delivered
from easeml_meter.core.model import ValidationSet
from easeml_meter.core.submissions import Receipt
from easeml_meter.core.views import Consequence, together
from easeml_meter.errors import invalid
from easeml_meter.promise.words import words_of
from easeml_meter.report.advice import NextStep, StepPlace, next_step
from easeml_meter.report.scale import band_tone
from easeml_meter.report.words import (
    loss_name,
    loss_words,
    prediction_columns,
    range_words,
    settings_words,
    shown,
    sure_words,
)
from easeml_meter.server.api.history import Generation
from easeml_meter.server.api.history import report as report_of
from easeml_meter.server.parameters import Id, Tenant
from easeml_meter.server.web.history import NEWEST_FIRST, HistoryLook, LookHere, Session
from easeml_meter.server.web.pages import Visit, VisitHere
from easeml_meter.service import jobs, meters
from easeml_meter.service.actor import Actor, Permission
from easeml_meter.service.audit import newest_link
from easeml_meter.service.handovers import answer_handover, hand_over
from easeml_meter.service.history import list_sessions, show_session
from easeml_meter.service.submissions import queue
from easeml_meter.service.testsets.inputs import inputs_visible
from easeml_meter.service.testsets.orders import waited_for
from easeml_meter.service.testsets.windows import released_batches

router = APIRouter(include_in_schema=False)

_WAITING = 10


@dataclass(frozen=True)
class MeterPage:
    """A meter's page for one visitor: what may be seen and done there."""

    visit: Visit
    meter: str
    actor: Actor
    state: MeterState
    generation: int | None = None
    look: HistoryLook = NEWEST_FIRST
    link: int = 0
    """Up to which link of the audit chain the page is, at least; 0 to those who may not know."""

    @classmethod
    def open(
        cls,
        visit: Visit,
        meter: str,
        tenant: int | None = None,
        generation: int | None = None,
        look: HistoryLook = NEWEST_FIRST,
    ) -> MeterPage:
        """Open a meter's page, for everyone with a seat."""
        actor = visit.at(meter, tenant)
        space = visit.site.space(meter)
        # Whoever has several seats sees the page of the one that shows most.
        seated = actor.granted(Permission.SEE_SIGNALS, Permission.SUBMIT, Permission.SEE_METER)
        # Before anything else is read: what happens meanwhile is news to the page.
        link = newest_link(seated, space) if seated.may(Permission.AUDIT) else 0
        state = meters.meter_state(actor, space)
        return cls(visit, meter, seated, state, generation, look, link)

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
        """Tenants that a checkpoint can be handed to, or come from."""
        every = range(1, self.state.tenants + 1)
        return [tenant for tenant in every if tenant != self.tenant]

    @property
    def numbers(self) -> list[int]:
        """Test sets that were delivered."""
        return [row.number for row in self.state.generations if row.rows is not None]

    @property
    def earlier(self) -> bool:
        """Whether the page is about another test set than the one that answers."""
        return self.generation not in (None, self.state.current.number)

    @property
    def validation(self) -> ValidationSet | None:
        """The validation set in force."""
        return self.state.validation

    @property
    def inputs_visible(self) -> bool:
        """Whether the test inputs may be fetched here."""
        return inputs_visible(self.state.spec, self.visit.at(self.meter))

    @property
    def free_to_check(self) -> bool:
        """Whether what is handed in here is made of nothing hidden."""
        sample = self.state.spec.meter.sample
        hidden = self.inputs_visible and sample.inputs != "public"
        return not (hidden or sample.takes_scores)

    def session(self) -> Session | None:
        """Return the answers so far, for those who may see them."""
        if not self.may("SEE_SIGNALS"):
            return None
        view = show_session(self.actor, self.visit.site.space(self.meter), self.generation)
        return Session.of(self.visit, self.meter, view, self.actor, self.look)

    def timeline(self) -> dict[int, TimelineSpan]:
        """Return all test sets on one time line, for those who see answers."""
        if not self.may("SEE_SIGNALS"):
            return {}
        found = list_sessions(self.actor, self.visit.site.space(self.meter))
        return spans([Session(view, self.actor.role, {}) for view in found])

    def standing(self, session: Session | None) -> str:
        """Return the state of the meter; a rolling test set that waits for a batch needs labels."""
        if self.state.spec.meter.renewal.rolls and self.generation is None:
            return str(self.state.generations[-1].phase)
        return str(self.state.current.phase) if session is None else session.state

    def batches(self) -> set[int]:
        """Return the batches of a rolling test set that were released, for those who see them."""
        if not self.state.spec.meter.renewal.rolls or not self.may("SEE_RELEASED"):
            return set()
        found = released_batches(self.actor, self.visit.site.space(self.meter))
        return {each.number for each in found}

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"/meters/{self.meter}"

    @property
    def query(self) -> str:
        """What follows the address of each tab, so that it is of the same team."""
        return f"?tenant={self.tenant}" if len(self.tenants) > 1 else ""

    def next_step(self, session: Session | None) -> NextStep:
        """Return what the visitor does next."""
        view = None if session is None else session.view
        order = None
        if self.state.spec.meter.sample.orders_labels:
            order = waited_for(self.actor, self.visit.site.space(self.meter))
        return next_step(self.state, self.actor.role, view, order)

    def address_of(self, place: StepPlace) -> str:
        """Return where a step is taken; empty: nowhere."""
        return {
            StepPlace.NOWHERE: "",
            StepPlace.VALIDATION: f"{self.address}/validation",
            StepPlace.SUBMIT: f"{self.address}{self.query}#submit" if self.earlier else "#submit",
            StepPlace.LABELS: f"{self.address}/labels",
            StepPlace.MANAGE: f"/admin/meters/{self.meter}",
        }[place]

    @property
    def bands(self) -> list[tuple[int, int, str, str]]:
        """Each band: number, tone, gap and tolerance."""
        spec = as_delivered(self.state.spec, self.state.current)
        question = spec.meter.question
        if question.reads != "gap":
            return []
        ranges = zip(pairwise(question.ends), question.tolerances, strict=True)
        return [
            (
                number,
                band_tone(number, question.rungs),
                range_words(spec, band),
                range_words(spec, (0, eps)).removeprefix("0 to "),
            )
            for number, (band, eps) in enumerate(ranges, 1)
        ]

    @property
    def meaning(self) -> str:
        """What an answer tells, where it is no band of a gap."""
        words = words_of(self.state.spec.meter)
        return "" if words is None else words.meaning

    @property
    def drawn(self) -> str:
        """How far apart drawn edges are."""
        return loss_words(self.state.spec, self.state.spec.meter.question.draws or 0)

    @property
    def settings(self) -> list[tuple[str, str, str]]:
        """What was planned: a name, its value, and a note."""
        return settings_words(self.state.spec)

    @property
    def together(self) -> str:
        """Which answers share the confidence of the promise."""
        return together(self.state.spec, self._number).replace("this test set", "a test set")

    @property
    def sure(self) -> str:
        """The confidence of the promise."""
        return sure_words(self.state.spec, self._number)

    @property
    def _number(self) -> int:
        return self.generation or self.state.current.number

    @property
    def loss_name(self) -> str:
        """What people call the loss."""
        return loss_name(self.state.spec)

    @property
    def prediction_columns(self) -> tuple[str, str]:
        """The column that a file of predictions has, and what may stand in its place."""
        return prediction_columns(self.state.spec)

    @property
    def id_column(self) -> str:
        """The id column of the test set in use; empty: rows are known by their order."""
        return (self.state.current.manifest or {}).get("id_column") or ""

    @property
    def classes(self) -> str:
        """The classes that may be predicted; empty: none, or not known yet."""
        given = self.validation.settings.get("classes") if self.validation else None
        return shown(", ".join(map(str, self.state.spec.meter.sample.classes or given or ())), 200)

    @property
    def by_runner(self) -> bool:
        """Whether predictions come from a runner: developers neither see inputs nor send models."""
        spec = self.state.spec
        return not (self.inputs_visible or spec.meter.sample.models or self.may("SEE_TEST_INPUTS"))

    def waiting(self) -> list[Receipt]:
        """Return submissions that wait, are under way, or were refused after they had waited."""
        if not (self.may("SUBMIT") or self.may("SEE_SIGNALS")):
            return []
        return queue.unanswered(self.actor, self.visit.site.space(self.meter))[:_WAITING]

    def no_worker(self) -> bool:
        """Whether nobody has seen for minutes what would run the models that wait."""
        return jobs.no_worker(self.actor, self.visit.site)

    def render(self, template: str, **values: Any) -> Response:
        """Answer with this page, or a part of it."""
        return self.visit.render(template, page=self, session=self.session(), **values)


@router.get("/meters")
def list_meters(visit: VisitHere) -> Response:
    """List the meters at which one has a seat, with their state at a glance."""
    found = meters.list_meters(visit.caller.at_site(), visit.site, visit.caller)
    pages = [MeterPage.open(visit, meter.id) for meter, _ in found]
    shown = [(page, page.session()) for page in pages]
    groups = {
        "Needs you": [each for each in shown if _needs_them(*each)],
        "All others": [each for each in shown if not _needs_them(*each)],
    }
    return visit.render("meters.html", groups=groups)


def _needs_them(page: MeterPage, session: Session | None) -> bool:
    """Whether the next step is taken elsewhere than by just submitting another model."""
    return page.next_step(session).place in (StepPlace.VALIDATION, StepPlace.LABELS)


@router.get("/meters/{meter}")
def show_meter(
    visit: VisitHere,
    meter: str,
    look: LookHere,
    tenant: Tenant = None,
    generation: Generation = None,
) -> Response:
    """Show a meter, as far as one's role may see it."""
    return MeterPage.open(visit, meter, tenant, generation, look).render("meter.html")


@router.get("/meters/{meter}/promise")
def show_promise(visit: VisitHere, meter: str, tenant: Tenant = None) -> Response:
    """Show what the meter promises, and what that rests on."""
    return MeterPage.open(visit, meter, tenant).render("promise.html")


@router.get("/meters/{meter}/test-sets")
def show_test_sets(visit: VisitHere, meter: str, tenant: Tenant = None) -> Response:
    """Show all test sets in order."""
    return MeterPage.open(visit, meter, tenant).render("testsets.html")


@router.get("/meters/{meter}/settings")
def show_settings(visit: VisitHere, meter: str, tenant: Tenant = None) -> Response:
    """Show what was planned, and what can be changed."""
    return MeterPage.open(visit, meter, tenant).render("settings.html")


@router.get("/meters/{meter}/report.html")
def report(
    visit: VisitHere, meter: str, tenant: Tenant = None, generation: Generation = None
) -> Response:
    """Return a session as one page, to keep or to print."""
    return report_of(show_session(visit.at(meter, tenant), visit.site.space(meter), generation))


_SLIVER = 2.0
"""Percent of a time line that can be seen."""


@dataclass(frozen=True)
class TimelineSpan:
    """A test set on the time line of its meter: from its first answer to its last one."""

    session: Session
    start: float = 0.0
    length: float = 0.0
    """Where it begins and how long it is, in percent of the time line."""

    @property
    def days(self) -> str:
        """The days of its first answer and its last one; empty: it gave none."""
        signals = self.session.view.signals
        if not signals:
            return ""
        first, last = (f"{at.day} {at:%b %Y}" for at in (signals[0].told_at, signals[-1].told_at))
        return first if first == last else f"{first} to {last}"


def spans(sessions: list[Session]) -> dict[int, TimelineSpan]:
    """Lay test sets out on one time line, by their numbers."""
    told = [signal.told_at for each in sessions for signal in each.view.signals]
    if not told:
        return {each.view.generation: TimelineSpan(each) for each in sessions}
    whole = max((max(told) - min(told)).total_seconds(), 1.0)
    found = {}
    for each in sessions:
        times = [signal.told_at for signal in each.view.signals] or [min(told)]
        start = 100 * (times[0] - min(told)).total_seconds() / whole
        length = 100 * (times[-1] - times[0]).total_seconds() / whole
        # A single answer is a moment: it is drawn wide enough to be seen.
        wide = max(length, _SLIVER)
        found[each.view.generation] = TimelineSpan(
            each, round(min(start, 100 - wide), 2), round(wide, 2)
        )
    return found


@router.post("/meters/{meter}/handover")
def handover(visit: VisitHere, meter: Id) -> Response:
    """Show what a hand-over would do to the budget; once confirmed, request it."""
    giver, receiver = _tenant(visit, "giver"), _tenant(visit, "receiver")
    actor, space = visit.at(meter), visit.site.space(meter)
    confirmed = "confirm" in visit.form
    found = hand_over(actor, space, giver, receiver, confirm=confirmed)
    own = giver if actor.acts_for(giver) else receiver
    if not confirmed:
        return MeterPage.open(visit, meter, own).render("handover.html", found=found)
    return visit.redirect(f"/meters/{meter}?tenant={own}", _standing(found))


@router.post("/meters/{meter}/handover/answer")
def answer(visit: VisitHere, meter: Id) -> Response:
    """Agree to a hand-over, or decline it; the admin comes from another page."""
    giver, receiver = _tenant(visit, "giver"), _tenant(visit, "receiver")
    actor, space = visit.at(meter), visit.site.space(meter)
    accept = visit.field("answer", longest=7) == "accept"
    found = answer_handover(actor, space, giver, receiver, accept=accept)
    said = _standing(found) if accept else "The hand-over is declined."
    back = f"/meters/{meter}" if actor.may(Permission.SEE_SIGNALS) else f"/admin/meters/{meter}"
    return visit.redirect(back, said)


def _standing(found: Consequence) -> str:
    """Say where it stands, to people who have buttons for the rest."""
    return found.standing if found.recorded else f"The hand-over is requested. {found.missing}."


def _tenant(visit: Visit, name: str) -> int:
    text = visit.field(name, longest=7)
    if not (text.isascii() and text.isdigit()):
        raise invalid(name, text, "the number of a team")
    return int(text)
