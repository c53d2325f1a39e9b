"""`meter webhook`: addresses that are notified of what happens at a meter."""

from __future__ import annotations

import click

from easeml_meter.cli.common import (
    MeterPlace,
    connected,
    echo_either,
    echo_json,
    json_option,
    open_remote,
    place_options,
)
from easeml_meter.errors import invalid


@click.group()
def webhook() -> None:
    """Addresses to notify about a meter on a server (admins)."""


@webhook.command(name="add")
@click.argument("url")
@click.option(
    "--event",
    "events",
    multiple=True,
    help="An event, such as spent. Repeatable. Default: all except answers (told:TEAM).",
)
@place_options
@json_option
def add_webhook(place: MeterPlace, url: str, events: tuple[str, ...], as_json: bool) -> None:
    """Notify URL from now on, and print the secret that signs the messages once."""
    from easeml_meter.service.notifications.webhooks import check_url

    check_url(url)
    given = {"url": url} | ({"events": list(events)} if events else {})
    with connected(place) as connection, open_remote(place) as meter:
        made = connection.call("POST", f"/meters/{meter.id}/webhooks", json=given)
    if as_json:
        echo_json(made)
        return
    click.echo(made["secret"])
    click.echo(
        "shown only once: give it to the receiver, to check signatures; to remove the webhook: "
        f"meter webhook remove {made['id']}",
        err=True,
    )


@webhook.command(name="list")
@place_options
@json_option
def list_webhooks(place: MeterPlace, as_json: bool) -> None:
    """List a meter's webhooks, with how many messages were sent, are waiting, or were given up."""
    with connected(place) as connection, open_remote(place) as meter:
        found = list(connection.listed(f"/meters/{meter.id}/webhooks"))
    if as_json:
        echo_json(found)
        return
    for each in found:
        click.echo(f"{each['url']}, id {each['id']}")
        click.echo(f"  events: {', '.join(each['events'])}")
        counts = f"{each['sent']} sent, {each['waiting']} waiting, {each['given_up']} given up"
        click.echo(f"  messages: {counts}")
    if not found:
        click.echo("no webhooks")


@webhook.command(name="remove")
@click.argument("identifier", metavar="ID")
@place_options
@json_option
def remove_webhook(place: MeterPlace, identifier: str, as_json: bool) -> None:
    """Remove a webhook, with the messages that wait for it."""
    with connected(place) as connection, open_remote(place) as meter:
        path = f"/meters/{meter.id}/webhooks"
        if identifier not in [each["id"] for each in connection.listed(path)]:
            remedy = "no webhook of this meter has that id: see meter webhook list"
            raise invalid("webhook", identifier[:80], remedy)
        connection.call("DELETE", f"{path}/{identifier}")
    removed = {"id": identifier, "removed": True}
    echo_either(as_json, removed, f"webhook {identifier} is removed")
