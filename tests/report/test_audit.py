from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.core.model import AuditLink, Event
from easeml_meter.report.audit import _SENTENCES, audit_words

NAMES = {"a" * 32: "Sofia"}


def link(event: str, **details: object) -> AuditLink:
    return AuditLink("m", 1, "2026-03-02T09:00:00+00:00", event, details, "", "")


@pytest.mark.parametrize(
    ("event", "details", "words"),
    [
        (
            "requested",
            {"generation": 1, "labels": 3055},
            "3,055 labels were requested for test set 1.",
        ),
        (
            "member added",
            {"user": "a" * 32, "role": "labeler", "tenant": 0},
            "Sofia got a seat as labeler.",
        ),
        (
            "member added",
            {"user": "b" * 32, "role": "runner"},
            "a former user got a seat as runner.",
        ),
        ("told", {}, "An answer was given."),
        (
            "told",
            {"generation": 2, "tenant": 1, "step": 3, "answer": "2"},
            "Team 1 got answer 3 from test set 2: 2.",
        ),
        ("spent", {}, "Test set unknown was spent."),
        ("something of a later version", {}, "Something of a later version."),
    ],
)
def test_a_link_is_a_sentence(event: str, details: dict[str, object], words: str) -> None:
    assert audit_words(link(event, **details), NAMES) == words


def test_settings_and_digests_stay_out() -> None:
    made = audit_words(link("created", settings={"budget": {"steps": 12}}), NAMES)
    assert made == "The meter was made."
    given_ = audit_words(link("validation set", number=1, rows=20, digest="f" * 64), NAMES)
    assert given_ == "Validation set 1 was handed in, 20 rows."


def test_every_field_of_a_sentence_is_a_plain_name() -> None:
    for sentence in _SENTENCES.values():
        for _, field, spec, conversion in string.Formatter().parse(sentence):
            assert field is None or field.isidentifier()
            assert not spec
            assert conversion is None


@given(
    event=st.sampled_from(list(Event)) | st.text(max_size=20),
    details=st.dictionaries(
        st.sampled_from(["user", "generation", "reason", "x"]),
        st.none() | st.text(max_size=300) | st.integers() | st.lists(st.text(), max_size=3),
    ),
)
def test_any_link_can_be_said(event: str, details: dict[str, object]) -> None:
    said = audit_words(link(event, **details), NAMES)
    assert len(said) < 1000
    assert "\n" not in said
