"""`meter webhook`, at a server."""

from __future__ import annotations

import logging

import pytest
from tests.cli.office import NOTHING, URL, Admins

from easeml_meter.service.notifications.events import EVENTS


@pytest.fixture
def office(admins: Admins) -> Admins:
    return admins


def test_a_webhook_is_added_listed_and_removed(
    office: Admins, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert office.ok("webhook", "list") == "no webhooks\n"
    shown = office.run("webhook", "add", URL)
    assert shown.code == 0
    secret = shown.out.removesuffix("\n")
    assert secret.startswith("whsec_")
    assert len(secret.split()) == 1
    assert shown.err.startswith("shown only once: ")
    assert secret not in shown.err + caplog.text
    identifier = shown.err.split()[-1]
    assert office.ok("webhook", "list") == (
        f"{URL}, id {identifier}\n"
        f"  events: {', '.join(EVENTS)}\n"
        "  messages: 0 sent, 0 waiting, 0 given up\n"
    )

    some = ("--event", "told:1", "--event", "spent", "--meter", office.name)
    made = office.json("webhook", "add", f"{URL}/2", *some)
    assert made.pop("secret").startswith("whsec_")
    assert made["events"] == ["spent", "told:1"]
    listed = office.json("webhook", "list")
    assert [each["id"] for each in listed] == [identifier, made["id"]]
    assert listed[1] == made

    told = office.ok("webhook", "remove", identifier)
    assert told == f"webhook {identifier} is removed\n"
    assert office.json("webhook", "list") == [made]
    refused = office.refused(2, "webhook", "remove", identifier)
    assert f"'{identifier}' given, no webhook of this meter has that id" in refused
    removed = {"id": made["id"], "removed": True}
    assert office.json("webhook", "remove", made["id"]) == removed
    assert office.json("webhook", "list") == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("hooks.example/in", "'hooks.example/in' given, http(s)://HOST/..."),
        ("ftp://hooks.example", "'ftp://hooks.example' given, http(s)://HOST/..."),
        ("https://", "'https://' given, http(s)://HOST/..."),
        ("https://hooks.example/" + "a" * 500, "at most 500 characters"),
        ("https://ann:open-sesame@hooks.example", "no user, password, fragment or blank in it"),
    ],
)
def test_bad_urls(url: str, why: str, office: Admins) -> None:
    refused = office.refused(2, "webhook", "add", url)
    assert why in refused
    assert "open-sesame" not in refused


def test_webhooks_that_are_refused(office: Admins) -> None:
    refused = office.refused(2, "webhook", "add", URL, "--event", "told:2")
    assert "event: 'told:2' given, one of labels requested," in refused
    made = office.json("webhook", "add", URL)
    office.json("init", "--spec", "spec.toml", "--name", f"{office.name}-2")
    elsewhere = ("--meter", f"{office.name}-2")
    assert office.json("webhook", "list", *elsewhere) == []
    for identifier, place in ((made["id"], elsewhere), (NOTHING, ()), ("../x", ())):
        refused = office.refused(2, "webhook", "remove", identifier, *place)
        assert "see meter webhook list" in refused
    nowhere = office.refused(2, "webhook", "list", "--meter", "nothing")
    assert "none of that name" in nowhere
    for role in ("developer", "labeler", "runner"):
        office.acting(role)
        for command in (("add", URL), ("list",), ("remove", made["id"])):
            assert "only an admin may" in office.refused(5, "webhook", *command)
