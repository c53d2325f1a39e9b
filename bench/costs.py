"""What the worst request found to each route costs the server, for each KB that was sent.

`python -m bench costs` starts a server, asks every route of openapi.json and every page in every
role, with bodies that are small and heavy, and prints the worst of each. What is shorter than a KB
counts as one: a password has to be slow to check, however short it is.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from redteam.attacks.accounts import routes
from redteam.attacks.files import as_predictions, sparse_member
from redteam.attacks.pages import Visitor
from redteam.attacks.planning import HEAVY, settings
from redteam.starting import started
from redteam.target import PASSWORD, Client, Target, packed, parquet

MOST_SECONDS, MOST_MEGABYTES = 1.0, 128.0
"""The most processor time and memory that a KB may cost."""
ROLES = ("developer", "labeler", "runner", "admin", "outsider")
PAGES = (
    *("/", "/sign-in", "/healthz", "/readyz", "/metrics", "/static/style.css", "/meters"),
    *("/account", "/admin", "/admin/users", "/admin/meters/new", "/planner"),
    "/planner/answer?steps=10000&signals=20&tolerance=0.001&confidence=0.999&protocol=incremental",
)
REPEATS = 3


@dataclass(frozen=True)
class Asked:
    """A request to a route."""

    method: str
    path: str
    body: bytes = b""

    @property
    def json(self) -> bool:
        return self.body[:1] in (b"{", b"[")

    @property
    def headers(self) -> dict[str, str]:
        if self.body.startswith(b"--edge"):
            return {"Content-Type": "multipart/form-data; boundary=edge"}
        return {"Content-Type": "application/json"} if self.json else {}


@dataclass(frozen=True)
class Price:
    """What a request costs for each KB that was sent."""

    route: str
    sent: int
    seconds: float
    megabytes: float

    @property
    def share(self) -> float:
        """How much of what is allowed it takes."""
        return max(self.seconds / MOST_SECONDS, self.megabytes / MOST_MEGABYTES)


def bodies(target: Target, method: str, path: str) -> list[bytes]:
    """Return small bodies that may be heavy for a route."""
    if method in ("GET", "DELETE"):
        return [b""]
    ground = target.ground
    rows = len(ground.labels)
    texts = pa.table({"id": np.arange(rows), "prediction": ["a" * (1 << 20)] * rows})
    long = parquet(texts, compression="zstd")
    if path.endswith("/plans"):
        return [json.dumps({"settings": settings(**each)}).encode() for each in HEAVY.values()]
    if path.endswith(("/submissions", "/submissions/check")):
        quote = b'id,prediction\n0,"' + b"\n" * 50_000
        return [
            *(
                ground.guesses(),
                sparse_member(1 << 31),
                packed({"model.onnx": b"\x3a\x00" * 20_000}),
            ),
            *(
                as_predictions(ground, "test.parquet", long),
                as_predictions(ground, "test.csv", quote),
            ),
            *forms(("files", b""), ("test.csv", quote)),
        ]
    if path.endswith("/test-sets/file"):
        return [b"PAR1" * 20_000, *forms(("file", b"PAR1" * 20_000))]
    if path.endswith("/validation-sets"):
        label = pa.table({"x": np.arange(20.0), "label": ["a" * (50 << 20)] + ["b"] * 19})
        wide = pa.table({f"c{number}": [0.0] for number in range(2000)} | {"label": [0]})
        zeros = pa.table({"x": np.zeros(10**6), "label": np.zeros(10**6, np.int8)})
        return [parquet(each, compression="zstd") for each in (label, wide, zeros)]
    login = {"name": target.people["stranger"].name, "password": PASSWORD + "x"}
    return [b"{}", b"[" * 20_000, json.dumps(login).encode()]


def forms(*files: tuple[str, bytes]) -> list[bytes]:
    """Return forms that are long to read: many fields, many almost-boundaries, long headers."""
    disposition = b'--edge\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n'
    found = []
    for name, content in files:
        field = name.partition(".")[0].encode()
        heads = [disposition % (field, str(number).encode()) for number in range(10_000)]
        many = b"\r\n".join(head + content[:10] for head in heads)
        almost = disposition % (field, name.encode()) + content + b"\r\n--edg" * 20_000
        odd = disposition % (field, b"\\\\" * 900) + content
        found += [body + b"\r\n--edge--" for body in (many, almost, odd)]
    return found


def requests(target: Target, words: Collection[str] = ()) -> Iterator[tuple[str, list[Asked]]]:
    """Yield every route whose name has these words, and what it is asked.

    What ends a test set or a session comes last.
    """
    with target.client("outsider") as client:
        found = [*routes(client), ("POST", "/login"), ("POST", "/plans")]
    home = f"/meters/{target.ground.id}"
    own = (home, f"{home}/report.html", f"{home}/labels", f"/admin{home}", f"{home}/validation/1")
    last = ("/retire", "/release", "/logout")
    order = {path: last.index(end) for _, path in found for end in last if path.endswith(end)}
    found.sort(key=lambda route: order.get(route[1], -1))
    pages = [("GET", page) for page in (*PAGES, *own)]
    routed = [(method, f"/api/v1{path}") for method, path in found]
    for method, path in [*pages, *routed]:
        shown = path.partition("?")[0].removeprefix("/api/v1").replace(target.ground.id, "{meter}")
        route = f"{method} {shown}"
        if all(word in route for word in words):
            yield route, [Asked(method, path, body) for body in bodies(target, method, path)]


def price(target: Target, route: str, asked: Sequence[Asked], roles: Iterable[str]) -> Price:
    """Ask in every role, and return the worst."""
    found = []
    for who in roles:
        with closing(_client(target, who, asked[0].path)) as client:
            found += [_price(client, route, each) for each in asked]
    return max(found, key=lambda each: each.share)


def _client(target: Target, who: str, path: str) -> Client:
    """Return a client with a token, and for pages one that has signed in."""
    if who != "outsider" and not path.startswith("/api/"):
        return Visitor(target, who)
    return target.client(who, base_url=target.address)


def _price(client: Client, route: str, asked: Asked) -> Price:
    params = {"model": "m", "label": "label"} if asked.body and not asked.json else {}
    before = client.target.measure()
    for _ in range(REPEATS):
        content, headers = asked.body, asked.headers
        if params:
            client.request(
                asked.method, asked.path, content=content, params=params, headers=headers
            )
        else:
            client.request(asked.method, asked.path, content=content, headers=headers)
    cost = client.target.measure().since(before)
    kilobytes = max(1.0, cost.sent / REPEATS / 1024)
    seconds = cost.seconds / REPEATS / kilobytes
    return Price(route, cost.sent // REPEATS, seconds, cost.megabytes / kilobytes)


def main(*, roles: Iterable[str] = ROLES, words: Collection[str] = ()) -> int:
    """Print the worst price of every route, and exit with 1 if one is more than allowed."""
    layout = "{:<62} {:>10} {:>12} {:>12}  {}"
    print(layout.format("route, worst request found", "sent", "CPU s/KB", "MB/KB", ""))
    found = []
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as target:
        for route, asked in requests(target, words):
            last = price(target, route, asked, roles)
            verdict = "ok" if last.share <= 1 else "MISSED"
            figures = f"{last.sent} B", f"{last.seconds:.3f}", f"{last.megabytes:.1f}"
            print(layout.format(route, *figures, verdict), flush=True)
            found.append(last)
    worst = max(found, key=lambda each: each.share)
    print(
        f"the worst of {len(found)}: {worst.route}, {worst.share:.2f} of what is allowed "
        f"({MOST_SECONDS:g} s and {MOST_MEGABYTES:g} MB for each KB)"
    )
    return 0 if worst.share <= 1 else 1
