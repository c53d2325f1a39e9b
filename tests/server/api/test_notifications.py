"""Webhooks over the API: an admin's alone, the secret once."""

from __future__ import annotations

import pytest
from tests.server.helpers import Served

from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.notifications import webhooks
from easeml_meter.service.notifications.events import EVENTS

URL = "https://hooks.example/in"


def test_an_admin_adds_lists_and_removes_webhooks(served: Served) -> None:
    meter = served.add_meter()
    with served.client("admin") as admin:
        made = admin.post(f"/meters/{meter}/webhooks", json={"url": URL})
        assert made.status_code == 201
        shown = made.json()
        secret = shown.pop("secret")
        assert shown == {
            "id": shown["id"],
            "meter": meter,
            "url": URL,
            "events": list(EVENTS),
            "created_at": shown["created_at"],
            "waiting": 0,
            "sent": 0,
            "given_up": 0,
        }
        listed = admin.get(f"/meters/{meter}/webhooks")
        assert listed.json() == {"items": [shown], "next": None}
        assert secret not in listed.text
        removed = admin.delete(f"/meters/{meter}/webhooks/{shown['id']}")
        assert (removed.status_code, removed.content) == (204, b"")
        again = admin.delete(f"/meters/{meter}/webhooks/{shown['id']}")
        assert (again.status_code, again.json()["error"]) == (404, "not-found")


def test_lists_come_in_pages(served: Served) -> None:
    meter = served.add_meter()
    with served.client("admin") as admin:
        made = [
            admin.post(f"/meters/{meter}/webhooks", json={"url": f"{URL}/{number}"}).json()["url"]
            for number in range(3)
        ]
        first = admin.get(f"/meters/{meter}/webhooks?limit=2").json()
        after = {"limit": 2, "after": first["next"]}
        second = admin.get(f"/meters/{meter}/webhooks", params=after).json()
    assert [each["url"] for each in first["items"] + second["items"]] == made
    assert second["next"] is None


def test_the_same_key_gets_the_same_secret_and_no_second_webhook(served: Served) -> None:
    meter = served.add_meter()
    key = {"Idempotency-Key": "once"}
    with served.client("admin") as admin:
        answers = [
            admin.post(f"/meters/{meter}/webhooks", json={"url": URL}, headers=key).json()
            for _ in range(2)
        ]
        other = admin.post(f"/meters/{meter}/webhooks", json={"url": f"{URL}/2"}, headers=key)
    assert answers[0] == answers[1]
    assert other.status_code == 409
    assert len(webhooks.webhooks(SYSTEM, served.site, meter)) == 1


@pytest.mark.parametrize("user", ["developer", "labeler", "runner"])
def test_nobody_else_may(served: Served, user: str) -> None:
    meter = served.add_meter()
    webhook, _ = webhooks.add_webhook(SYSTEM, served.site, meter, URL)
    with served.client(user) as client:
        answers = [
            client.get(f"/meters/{meter}/webhooks"),
            client.post(f"/meters/{meter}/webhooks", json={"url": URL}),
            client.delete(f"/meters/{meter}/webhooks/{webhook.id}"),
        ]
    assert [answer.status_code for answer in answers] == [403] * 3
    assert [each.id for each in webhooks.webhooks(SYSTEM, served.site, meter)] == [webhook.id]


def test_a_meter_without_a_seat_is_not_there(served: Served) -> None:
    meter = served.add_meter()
    with served.client("stranger") as client:
        assert client.get(f"/meters/{meter}/webhooks").status_code == 404


def test_a_meter_that_does_not_exist_is_not_there(served: Served) -> None:
    with served.client("admin") as admin:
        nowhere = f"/meters/{'f' * 32}/webhooks"
        assert admin.get(nowhere).status_code == 404
        assert admin.post(nowhere, json={"url": URL}).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"url": "ftp://example.org"},
        {"url": "https://user@example.org/"},
        {"url": URL, "events": []},
        {"url": URL, "events": ["everything"]},
        {"url": URL, "events": ["told:2"]},
        {"url": URL, "secret": "mine"},
        {"url": f"{URL}/{'a' * 500}"},
    ],
)
def test_what_is_refused(served: Served, body: dict[str, object]) -> None:
    meter = served.add_meter()
    with served.client("admin") as admin:
        answer = admin.post(f"/meters/{meter}/webhooks", json=body)
    assert (answer.status_code, answer.json()["error"]) == (422, "invalid")
