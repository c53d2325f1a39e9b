"""A site to click through: three people, and four meters in different states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from easeml_meter.core.people import Role
from easeml_meter.demo.story import (
    TRAIN,
    VALIDATION,
    Filter,
    MailWorld,
    deliver,
    honest,
    meter_for,
    submit,
    tuned,
)
from easeml_meter.meter import Meter
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.place import Site
from easeml_meter.service.seats import add_seat
from easeml_meter.service.users import add_user, random_password

PEOPLE = {"ada": "admin", "lena": "labeler", "dan": "developer"}
"""Who can sign in, and as what."""
_DAYS = 30
"""How long ago all of it began."""


@dataclass
class _Past:
    """A clock that stands somewhere in the past until it is moved."""

    moment: datetime

    def __call__(self) -> datetime:
        return self.moment

    def pass_hours(self, hours: float) -> None:
        self.moment += timedelta(hours=hours)


@dataclass(frozen=True)
class _Example:
    name: str
    steps: int
    answers: int
    delivered: bool = True
    released: bool = False


_EXAMPLES = (
    _Example("attachment-filter", steps=8, answers=8, released=True),
    _Example("mail-filter", steps=10, answers=8),
    _Example("comment-filter", steps=20, answers=4),
    _Example("review-filter", steps=10, answers=0, delivered=False),
)


def fill(site: Site) -> str:
    """Fill a new site; return the password of all of its people."""
    past = _Past(site.clock() - timedelta(days=_DAYS))
    site = replace(site, clock=past)
    password = random_password()
    people = {
        role: add_user(SYSTEM, site, name, password=password, admin=role == "admin").id
        for name, role in PEOPLE.items()
    }
    for seed, example in enumerate(_EXAMPLES, start=3):
        meter = create_meter(SYSTEM, site, meter_for(example.steps), example.name).id
        space = site.space(meter)
        add_seat(SYSTEM, space, people["labeler"], Role.LABELER)
        add_seat(SYSTEM, space, people["developer"], Role.DEVELOPER, tenant=1)
        labeler = Meter(space, Role.LABELER, user=people["labeler"])
        developer = Meter(space, Role.DEVELOPER, user=people["developer"])
        if example.delivered:
            _tell(example, labeler, developer, MailWorld(seed), past)
        past.pass_hours(20)
    return password


def _tell(
    example: _Example, labeler: Meter, developer: Meter, world: MailWorld, past: _Past
) -> None:
    train, validation = world.draw(TRAIN), world.draw(VALIDATION)
    hidden = world.draw(labeler.plan.labels)
    with TemporaryDirectory() as folder:
        deliver(labeler, hidden, Path(folder) / "hidden.sealed")
    past.pass_hours(5)
    developer.set_validation(validation.table, label="spam")
    filters: Iterable[Filter] = chain(honest(train), tuned(train, validation))
    for filter_, _ in zip(filters, range(example.answers), strict=False):
        past.pass_hours(7)
        submit(developer, filter_, hidden, validation)
    if example.released:
        past.pass_hours(1)
        labeler.release()
