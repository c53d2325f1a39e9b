"""The chain of the audit: every change of a link shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.storage.examples import METER, NOW

from easeml_meter.core.model import AuditLink
from easeml_meter.errors import StorageError
from easeml_meter.storage.books.audit import broken_link, link_digest
from easeml_meter.storage.store import Store


def chain(store: Store) -> list[AuditLink]:
    with store.writing() as books:
        for number in range(1, 6):
            books.audit.append("m", NOW, "told", {"step": number})
    with store.reading() as books:
        return books.audit.all("m")


def test_a_sound_chain(store: Store) -> None:
    links = chain(store)
    assert [link.number for link in links] == [1, 2, 3, 4, 5]
    assert broken_link(links) is None
    assert broken_link([]) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"at": "2027"},
        {"event": "released"},
        {"details": {"step": 9}},
        {"meter": "n"},
        {"number": 9},
        {"previous": "0" * 64},
        {"digest": "0" * 64},
    ],
    ids=str,
)
def test_a_changed_link_shows(store: Store, changes: dict[str, Any]) -> None:
    links = chain(store)
    links[2] = replace(links[2], **changes)
    assert broken_link(links) == 3


def test_a_changed_link_with_its_digest_made_to_fit_shows_one_later(store: Store) -> None:
    links = chain(store)
    changed = replace(links[2], details={"step": 9})
    links[2] = replace(changed, digest=link_digest(changed))
    assert broken_link(links) == 4


@pytest.mark.parametrize("index", range(4))
def test_a_removed_link_shows(store: Store, index: int) -> None:
    links = chain(store)
    del links[index]
    assert broken_link(links) == index + 1


@pytest.mark.parametrize("index", range(4))
def test_reordered_links_show(store: Store, index: int) -> None:
    links = chain(store)
    links[index], links[index + 1] = links[index + 1], links[index]
    assert broken_link(links) == index + 1


def test_links_cut_off_at_the_end_are_not_seen_by_the_chain_alone(store: Store) -> None:
    # That is what the journal beside the test set is for: see tests/properties/test_durability.py.
    assert broken_link(chain(store)[:-1]) is None


def test_chains_of_two_meters_are_apart(store: Store) -> None:
    with store.writing() as books:
        books.meters.add(replace(METER, id="n"))
        first = books.audit.append("m", NOW, "created", {})
        second = books.audit.append("n", NOW, "created", {})
        assert (first.number, second.number) == (1, 1)
    with pytest.raises(StorageError, match="2 meters"), store.reading() as books:
        books.meters.get()
