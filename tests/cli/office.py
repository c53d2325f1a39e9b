"""The command line as the users of a server use it, at a meter with one user for each role."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.cli.workbench import (
    VALIDATION,
    Shown,
    Workbench,
    animal_spec,
    animals,
)
from tests.live import Live
from tests.storage.examples import stored

from easeml_meter.spec import MeterSpec
from easeml_meter.storage import schema

PASSWORD = "correct horse battery"  # noqa: S105

ROLES = ("labeler", "developer", "runner")

SEEDS = itertools.count()


class Office(Workbench):
    """Run commands as users of a server, at a meter with one user for each role."""

    def __init__(self, site: Live, folder: Path, environment: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.site = site
        self.name = folder.name
        self.environment = environment
        for role in ROLES:
            site.served.add_user(self.user(role))
        environment.setenv("METER_SERVER", site.address)
        environment.setenv("METER_NAME", self.name)

    def user(self, role: str) -> str:
        return "admin" if role == "admin" else f"{role} of {self.name}"

    def acting(self, role: str) -> Office:
        self.environment.setenv("METER_TOKEN", self.site.served.tokens[self.user(role)])
        return self

    def run(self, *arguments: object) -> Shown:
        return super().run(*[each for each in arguments if each not in ("-C", "meter")])

    def snapshot(self) -> dict[str, Any]:
        with self.site.served.site.reading() as books:
            return {"told": books.connection.exec_driver_sql("SELECT * FROM entries").all()}

    def make(self, **options: Any) -> int:
        """Make the meter and give the seats; give the labels it needs."""
        return self.make_of(animal_spec(**options))

    def make_of(self, spec: MeterSpec) -> int:
        """Do the same with a whole meter."""
        self.acting("admin")
        labels = self.init_of(spec)
        for role in ROLES:
            self.ok("seat", "give", self.user(role), role)
        return labels

    def init(self, **options: Any) -> int:
        return self.init_of(animal_spec(**options))

    def init_of(self, spec: MeterSpec) -> int:
        spec.write(self.folder / "spec.toml")
        labels = self.json("init", "--spec", "spec.toml", "--name", self.name)["labels"]
        assert isinstance(labels, int)
        return labels

    def ready(self, **options: Any) -> list[str]:
        """Make the meter, deliver both sets; give the hidden labels."""
        return self.ready_for(animal_spec(**options))

    def ready_for(self, spec: MeterSpec) -> list[str]:
        """Do the same with a whole meter."""
        labels = animals(self.make_of(spec))
        self.acting("developer").validate(VALIDATION)
        self.acting("labeler").deliver(labels, seed=next(SEEDS))
        self.acting("developer")
        return labels


NOTHING = "0" * 32


class Admins(Office):
    """An office where what is refused must leave accounts and tokens as they were."""

    def snapshot(self) -> dict[str, Any]:
        with self.site.served.site.reading() as books:
            tables = (schema.users, schema.tokens, schema.audit)
            return {each.name: stored(books, each) for each in tables}

    def new_token(self, *options: object) -> Any:
        return self.json("token", "new", "--name", "ci", *options)

    def using(self, token: str) -> Admins:
        self.environment.setenv("METER_TOKEN", token)
        return self
