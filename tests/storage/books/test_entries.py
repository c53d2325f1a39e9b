"""Answers in the books, found without reading the others; accounts show when they are old."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from tests.storage.examples import ENTRY, GENERATION, METER, step

from easeml_meter.core.history import Delivered, Folded, fold
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.promise.ledger import Snapshot
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.store import Store


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    opened = Store.open(database)
    with opened.writing() as books:
        books.meters.add(METER)
        for number in (1, 2):
            books.testsets.add(replace(GENERATION, number=number))
    yield opened
    opened.close()


def test_entries_are_found_by_the_digest_of_their_submission(store: Store) -> None:
    a, b, c = (letter * 64 for letter in "abc")
    entries = [
        replace(ENTRY, tenant=tenant, step=step, submission=digest, generation=generation)
        for generation, tenant, step, digest in (
            (1, 1, 1, a),
            (1, 1, 2, b),
            (1, 2, 1, a),
            (1, 3, 1, a),
            (2, 1, 1, a),
        )
    ]
    again = replace(entries[0], step=3, validation_set="e" * 64)
    with store.writing() as books:
        books.entries.add([*entries, again])
    with store.reading() as books:

        def found(tenant: int, digest: str) -> set[tuple[int, int]]:
            rows = books.entries.of_submission("m", 1, tenant, digest)
            assert all(row in [*entries, again] for row in rows)
            return {(row.tenant, row.step) for row in rows}

        assert found(1, a) == {(1, 1), (1, 3)}
        assert found(1, b) == {(1, 2)}
        assert found(2, a) == {(2, 1)}
        assert found(2, b) == found(2, c) == found(4, a) == set()


@pytest.mark.parametrize("before", [0, 30, 60, 90, 120, 1000])
def test_entries_are_found_by_an_index_whenever_that_was_planned(store: Store, before: int) -> None:
    """PostgreSQL read the whole history of a team for each submission.

    Where it believed that there was none yet, or had planned the statement when it was short.
    """
    meter = "f" * 32  # as long as real ones: the size of an index decides
    with store.writing() as books:
        if store.dialect == "postgresql":  # as in a new database: that indexes are small, too
            books.connection.exec_driver_sql("TRUNCATE entries")
        books.meters.add(replace(METER, id=meter))
        books.testsets.add(replace(GENERATION, meter=meter, number=1))
    entries = [
        replace(ENTRY, meter=meter, step=n, submission=f"{n:064}", validation_set="e" * 64)
        for n in range(1, 1001)
    ]
    wanted = entries[7].submission
    asked: list[tuple[str, Any]] = []

    @sa.event.listens_for(store._engine, "before_cursor_execute")
    def note(*given: Any) -> None:
        asked.append((given[2], given[3]))

    def planned_for_all() -> list[str]:
        """Return the plan that PostgreSQL would keep, as for a statement that is asked often."""
        with store.reading() as books:
            books.entries.of_submission(meter, 1, 1, wanted)
            text, values = asked[-1]
            connection: Any = books.connection.connection.driver_connection
            cursor = psycopg.ClientCursor(connection)
            names = dict.fromkeys(re.findall(r"%\((\w+)\)s", text))
            places = {name: f"${place}" for place, name in enumerate(names, 1)}
            cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            cursor.execute(f"PREPARE looked_up AS {text % {n: places[n] for n in names}}".encode())
            given = ", ".join(["%s"] * len(names))
            cursor.execute(f"EXPLAIN EXECUTE looked_up({given})", [values[n] for n in names])
            found = [row[0] for row in cursor.fetchall()]
            cursor.execute("DEALLOCATE looked_up")
            return found

    with store.writing() as books:
        books.entries.add(entries[:before])
    lines = planned_for_all() if store.dialect == "postgresql" else []
    with store.writing() as books:
        books.entries.add(entries[before:])
    with store.reading() as books:
        assert len(books.entries.of_submission(meter, 1, 1, wanted)) == 1
        if store.dialect == "sqlite":
            text, values = asked[-1]
            (step,) = books.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)
            assert step.detail.endswith("USING INDEX entries_by_submission (submission=?)")
    if store.dialect == "postgresql":
        (condition,) = (line for line in lines if "Index Cond" in line)
        assert "((submission)::text = " in condition


def test_entries_come_in_the_order_of_each_tenants_steps(store: Store) -> None:
    with store.writing() as books:
        for tenant, number in ((2, 2), (1, 2), (2, 1), (1, 10), (1, 1)):
            books.entries.add([step(number, tenant=tenant)])
    with store.reading() as books:
        found = [(entry.tenant, entry.step) for entry in books.entries.all("m", 1)]
        assert found == [(1, 1), (1, 2), (1, 10), (2, 1), (2, 2)]
        assert [entry.step for entry in books.entries.all("m", 1, tenant=2)] == [1, 2]
        assert books.entries.all("m", 2) == []


def test_the_same_submission_of_another_tenant_or_validation_set_is_another(store: Store) -> None:
    with store.writing() as books:
        books.entries.add([ENTRY])
        books.entries.add([replace(ENTRY, tenant=2)])
        books.entries.add([replace(ENTRY, step=2, validation_set="e" * 64)])
        assert len(books.entries.all("m", 1)) == 3


def folded(tenant: int, steps: int) -> Folded:
    return Folded(Snapshot(1, 0, steps, tenant), steps)


@pytest.mark.parametrize("options", [{}, {"protocol": "incremental"}], ids=str)
def test_an_account_comes_back_to_the_last_bit(store: Store, options: dict[str, object]) -> None:
    spec = MeterSpec.uniform(signals=3, tolerance=0.2, steps=20, delta=0.1, **options)  # type: ignore[arg-type]
    on = Delivered(spec, required_labels(spec).labels)
    answers = ["1", "1", "2", "2", "3", "3"]
    entries = [replace(ENTRY, step=n, answer=answer) for n, answer in enumerate(answers, 1)]
    for length in range(len(entries) + 1):
        stored = fold(on, entries[:length], 1)
        with store.writing() as books:
            books.accounts.put("m", 1, [stored])
        with store.reading() as books:
            assert books.accounts.all("m", 1) == {1: stored}


def test_accounts_are_stored_by_test_set_and_tenant(store: Store) -> None:
    with store.writing() as books:
        books.accounts.put("m", 1, [folded(1, 1), folded(2, 5)])
        books.accounts.put("m", 2, [folded(1, 7)])
        books.accounts.put("m", 1, [folded(1, 2)])
        books.accounts.put("m", 1, [])
    with store.reading() as books:
        assert books.accounts.all("m", 1) == {1: folded(1, 2), 2: folded(2, 5)}
        assert books.accounts.all("m", 2) == {1: folded(1, 7)}
        assert books.accounts.all("other", 1) == {}


def test_accounts_that_lack_entries_or_have_too_many_are_not_complete(store: Store) -> None:
    with store.writing() as books:
        for tenant, step in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1)):
            books.entries.add([replace(ENTRY, tenant=tenant, step=step, submission=f"{step:064}")])
        stored = [folded(1, 2), folded(2, 1), folded(3, 2), folded(4, 0), folded(5, 1)]
        books.accounts.put("m", 1, stored)
    with store.reading() as books:
        assert books.accounts.complete("m", 1) == {1: folded(1, 2), 4: folded(4, 0)}
