"""How meters and servers of the version before are looked at and used further.

Both versions make the same moves: the one before when the fixtures were made, this one in the
tests. Only public verbs, so that another layout of the code changes nothing.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
from anyio.from_thread import start_blocking_portal
from tests.server.helpers import Served
from tests.service.notifications.sending import deliver_due

from easeml_meter import Command, Conditions, Meter, MeterError, MeterSpec, OnnxFile
from easeml_meter.core.notifications import Message
from easeml_meter.server.app import create_app
from easeml_meter.server.settings import Settings
from easeml_meter.service.place import Home, Site

Json = Any

LATER = datetime(2026, 1, 1, 12, tzinfo=UTC)
"""When work goes on; the fixtures were made in the hours before. Uploads and keys still count."""

_PROSE = {"promise", "assumptions", "sentence", "message", "true_gap", "gap", "next"}
"""What may be worded otherwise, or follows from the meter's settings alone."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


class Clock:
    """A clock that moves one second at every look, from `LATER` on."""

    def __init__(self) -> None:
        self._moment = LATER

    def __call__(self) -> datetime:
        self._moment += timedelta(seconds=1)
        return self._moment


def figures(value: Json) -> Json:
    """Return what two versions must agree on: no prose, no moments after the fixtures were made."""
    match value:
        case {"event": _, "at": str(at), "digest": _} if at > LATER.isoformat():
            return {"event": value["event"], "details": figures(value["details"])}
        case {"sound": _, "problems": list(problems), **rest}:
            return {"problems": len(problems), **figures(rest)}
        case dict():
            return {name: figures(each) for name, each in value.items() if name not in _PROSE}
        case list() | tuple():
            return [figures(each) for each in value]
        case float():
            return float(f"{value:.12g}")
        case str() if _TIME.match(value) and value > LATER.isoformat():
            return "later"
    return value


def numbered(value: Json) -> Json:
    """Signals named their tenant in text; now it is a number, as everywhere."""
    return value | {"tenant": int(value["tenant"])} if value.get("tenant") else value


# --- A meter in a folder ---


def open_meter(folder: Path) -> Meter:
    """Open the meter in a folder; without a database make it again, beside the old journals."""
    if Home(folder).database.exists():
        return Meter.open(folder, clock=Clock())
    spec = MeterSpec.read(folder / "meter.toml")
    return Meter.create(folder, spec, name="made again", clock=Clock())


def shown(meter: Meter) -> Json:
    """Return what a meter shows of itself."""
    tenants = range(1, max(1, len(meter.spec.tenants)) + 1)
    audit = meter.audit()
    return {
        "status": [_left(meter.status(tenant=each).to_dict()) for each in tenants],
        "history": [
            [figures(view.to_dict()) for view in meter.history(tenant=each)] for each in tenants
        ],
        "links": [_link(each) for each in audit.links],
        "problems": len(audit.problems),
        "notices": notices(figures(meter.notices())),
    }


def timeless(value: Json) -> Json:
    """Leave out when a notice was written: sets are now compared again when a test set comes."""
    if "rows_shared" not in value:
        return value
    return {name: each for name, each in value.items() if name != "at"}


def notices(listed: Json) -> Json:
    """Return what was told when a validation set came: 0 then also where nothing was compared.

    Notices about a test set on its own, or with sets that came before it, are new.
    """
    told: dict[int, Json] = {}
    for each in sorted(listed, key=lambda each: each["generation"]):
        if each["validation_set"] is not None:
            shared = timeless({**each, "rows_shared": each["rows_shared"] or 0})
            told.setdefault(each["validation_set"], shared)
    return [told[number] for number in sorted(told)]


def _left(view: Json) -> Json:
    """Show a session but for its answers, which its history has."""
    return figures({name: each for name, each in view.items() if name != "signals"})


def unidentified(value: Json) -> Json:
    """Leave out of a later link how its submission was recognized: by bytes, now by content."""
    if set(value) == {"event", "details"} and isinstance(value["details"], dict):
        kept = {name: each for name, each in value["details"].items() if name != "submission"}
        return {**value, "details": kept}
    return value


def _link(link: Any) -> Json:
    """Show an audit link; of a later one, neither its place nor the settings of a new meter."""
    if link.at > LATER.isoformat():
        details = {} if link.event == "created" else figures(link.details)
        return unidentified({"event": link.event, "details": details})
    names = ("number", "at", "event", "details", "digest")
    return {name: getattr(link, name) for name in names}


def play(meter: Meter, given: Path, move: Json) -> Json:
    """Make a move with files that lie in `given`; return the answer, or what kind of refusal."""
    try:
        return figures(_play(meter, given, move))
    except MeterError as error:
        return {"refused": type(error).__name__}


_OPTIONS = {"model", "tenant", "giver", "receiver", "confirm"}


def _play(meter: Meter, given: Path, move: Json) -> Json:
    options = {name: each for name, each in move.items() if name in _OPTIONS}
    match move:
        case {"verb": "submit", "test": test, "validation": validation}:
            return meter.submit(given / test, given / validation, **options).to_dict()
        case {"verb": "submit model", "file": file, "model": name}:
            submitted = (
                OnnxFile(given / file)
                if file.endswith(".onnx")
                else Command.of(f"python {file}", folder=given)
            )
            conditions = Conditions(seconds=5.0)
            return meter.submit_any(submitted, model=name, conditions=conditions).to_dict()
        case {"verb": "hand over"}:
            told = asdict(meter.hand_over(**options))
            return {name: each for name, each in told.items() if name != "labels_planned_shared"}
        case {"verb": "set validation", "file": file}:
            return meter.set_validation(given / file, label="label").number
        case {"verb": "replace validation", "file": file, "reset": reset}:
            return meter.replace_validation(given / file, reset=reset).number
        case {"verb": "add sealed", "file": file}:
            return meter.add_test_set(given / file, ids_renumbered=True).rows
        case {"verb": "seal and add", "file": file}:
            sealed = given / f"{file}.sealed"
            sealed.unlink(missing_ok=True)
            meter.seal(given / file, sealed, label="label", id_column="id")
            return meter.add_test_set(sealed, ids_renumbered=True).rows
        case {"verb": "export inputs"}:
            out = given / "inputs.parquet"
            out.unlink(missing_ok=True)
            return [meter.export_inputs(out), pq.read_table(out).to_pydict()]
        case {"verb": "release"}:
            folder = meter.release()
            table = pq.read_table(folder / "testset.parquet").to_pydict()
            return [table, json.loads((folder / "retrospective.json").read_bytes())]
    raise AssertionError(f"no such move: {move}")


def go_on(folder: Path, given: Path, moves: list[Json]) -> Json:
    """Open a meter, look at it, make the moves, and look again."""
    with open_meter(folder) as meter:
        before = shown(meter)
        answers = [play(meter, given, move) for move in moves]
    with Meter.open(folder, clock=Clock()) as meter:
        return {"before": before, "answers": answers, "after": shown(meter)}


# --- A server ---


@contextmanager
def reopened(folder: Path, tokens: dict[str, str], database: str = "") -> Iterator[Served]:
    """Open the site in a folder, on its own SQLite or on another database."""
    settings = Settings(folder=folder, database=database)
    site = Site.open(settings.database_url, settings.files_place, settings.key_file, Clock())
    with start_blocking_portal() as portal:
        try:
            yield Served(site, create_app(site, settings), portal, tokens=tokens)
        finally:
            site.close()


def ask(served: Served, given: Path, move: Json) -> Json:
    """Send a request, or let webhooks be delivered; return what came of it."""
    if move == "deliver":
        return figures(_delivered(served))
    client, body = served.client(move["as"]), move.get("json")
    if move["path"].endswith("/test-sets") and body is not None:
        body = {**body, "ids_renumbered": True}
    content = (given / move["file"]).read_bytes() if "file" in move else None
    if content is not None and "from" in move:
        content = content[move["from"] :]
    answer = client.request(
        move.get("method", "GET"),
        move["path"],
        params=move.get("params"),
        json=body,
        content=content,
        headers=move.get("headers"),
    )
    replayed = answer.headers.get("idempotency-replayed")
    shown: Json = None if move.get("secret") else figures(_body(answer))
    if move["path"].endswith("/notices") and shown is not None and answer.is_success:
        shown = {**shown, "items": notices(shown["items"])}
    return {"status": answer.status_code, "replayed": replayed, "body": shown}


def _body(answer: httpx.Response) -> Json:
    if answer.content[:4] == b"PAR1":
        return pq.read_table(io.BytesIO(answer.content)).to_pydict()
    # A replayed answer is what the version before sent, word for word.
    replayed = "idempotency-replayed" in answer.headers
    return answer.json(object_hook=numbered if replayed else None) if answer.content else None


def _delivered(served: Served) -> Json:
    """Send what is due; return the messages in the order of what they tell."""
    sent: list[Message] = []
    deliver_due(served.site, sent.append)
    bodies = [{"address": each.address, **each.body} for each in sent]
    return sorted(bodies, key=lambda body: (body["meter"], body["link"]))


def ask_all(served: Served, given: Path, moves: list[Json]) -> list[Json]:
    """Make all moves, in their order."""
    return [ask(served, given, move) for move in moves]


def differences(found: Json, recorded: Json, place: str = "") -> list[str]:
    """Say where something recorded is not found; more may be shown today than was before."""
    if isinstance(found, dict) and isinstance(recorded, dict):
        names = recorded.keys() & found.keys()
        missing = [f"{place}.{name}: missing" for name in recorded.keys() - found.keys()]
        pairs = [(f"{place}.{name}", found[name], recorded[name]) for name in sorted(names)]
    elif isinstance(found, list) and isinstance(recorded, list) and len(found) == len(recorded):
        missing = []
        both = enumerate(zip(found, recorded, strict=True))
        pairs = [(f"{place}[{number}]", *each) for number, each in both]
    else:
        return [] if found == recorded else [f"{place}: {found!r}, recorded: {recorded!r}"]
    inside = [differences(one, other, where) for where, one, other in pairs]
    return missing + [line for lines in inside for line in lines]
