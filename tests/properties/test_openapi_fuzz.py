"""schemathesis over the OpenAPI document: no 5xx, no answer that is not documented."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from tests.postgresql import running
from tests.properties.test_role_matrix import served_routes
from tests.server.driving import begin, submit
from tests.server.helpers import Served, serve
from tests.service.helpers import small_spec

from easeml_meter.checks import MAX_NAME
from easeml_meter.server.errors import PREFIX
from easeml_meter.service import tokens

DATABASES = ["sqlite", "postgresql"]
OPERATIONS = sorted(route.replace(" ", f" {PREFIX}") for route in served_routes())
# A request in order may still ask for what is not there, not allowed, or not possible now.
ACCEPTED = ["2xx", "401", "403", "404", "409", "413", "422"]
USERS = ["developer", "labeler", "runner", "admin"]
ID = re.compile("[0-9a-f]{32}")


@dataclass
class World:
    """A site with a meter in the middle of its life, and its document."""

    served: Served
    schema: Any
    known: dict[str, str]
    """Ids of what there is."""

    def try_out(self, operation: str, examples: int) -> None:
        """Send what the document allows, and what it does not, to one operation."""
        method, path = operation.split(" ")
        found = self.schema[path][method]
        cases = st.one_of([found.as_strategy(generation_mode=mode) for mode in GenerationMode])

        @given(case=cases, user=st.sampled_from(USERS))
        @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
        def tried(case: Any, user: str) -> None:
            # Ids in order are made those of things that exist.
            for name, value in (case.path_parameters or {}).items():
                # Half of the names, too: hardly any that is made is that of a meter.
                named = name == "meter" and len(str(value)) <= MAX_NAME and len(str(value)) % 2
                if name in self.known and (named or ID.fullmatch(str(value))):
                    case.path_parameters[name] = self.known[name]
            # A token of its own: one of the operations revokes it.
            identifier = self.served.users[user].id
            token = tokens.issue(self.served.site, identifier, "one", days=1)[1]
            case.call_and_validate(headers={"Authorization": f"Bearer {token}"})

        tried()


@pytest.fixture(scope="module", params=DATABASES)
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("schema")
    if request.param == "sqlite":
        yield from _world(folder, None)
        return
    with running() as cluster:
        yield from _world(folder, cluster.new_database())


def _world(folder: Path, database: str | None) -> Iterator[World]:
    free: dict[str, Any] = {
        "requests_per_second": 0,
        "logins_per_minute": 0,
        "plans_per_minute": 0,
    }
    with serve(folder / "site", database=database, **free) as served:
        meter = served.add_meter(small_spec(tenants=(2, 2), models=True))
        labels = begin(served, meter, folder)
        told = submit(served.client("developer"), meter, labels).json()
        schema = schemathesis.openapi.from_asgi(f"{PREFIX}/openapi.json", served.app)
        for methods in schema.raw_schema["paths"].values():
            for described in methods.values():
                # Each request has a token: one that was made without would seem to be let in.
                described.pop("security", None)
        schema.config.request_timeout = 120  # a machine may be busy
        schema.config.checks.positive_data_acceptance.expected_statuses = ACCEPTED
        yield World(served, schema, {"meter": meter, "submission": told["id"]})


def test_the_document_lists_every_operation(world: World) -> None:
    listed = {found.ok().label for found in world.schema.get_all_operations()}
    assert listed == set(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_answers_are_as_documented(world: World, operation: str) -> None:
    world.try_out(operation, examples=8)


@pytest.mark.verify
@pytest.mark.parametrize("operation", OPERATIONS)
def test_answers_are_as_documented_whatever_is_sent(world: World, operation: str) -> None:
    world.try_out(operation, examples=300)
