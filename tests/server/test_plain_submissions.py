"""Plain requests go past FastAPI's dependencies: nobody may notice."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from urllib.parse import urlencode

import pytest
from fastapi import Request
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.server.helpers import Served, serve

from easeml_meter.server.api.submissions import plainly_given

# The package calls a router by the module's name.
MODULE = import_module("easeml_meter.server.api.submissions")

VALUES = {
    "model": ["m", "a name", "", "x" * 200, "x" * 201, "é", "a\nb", "\x00", "%", "\ud83d\ude00"],
    "tenant": ["1", "2", "0", "01", "-1", "1.0", "1000000", "1000001", "", " 1", "x", "١"],
    "wait": ["0", "0.5", "59", "60", "60.5", "61", "1e1", "-1", "nan", "inf", "", "007", "1_0"],
    "modell": ["m"],
}
KEYS = ["one", "", " ", "two words", "x" * 200, "x" * 201, "~!", "é"]
pairs = st.sampled_from([(name, value) for name, values in VALUES.items() for value in values])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(scope="module")
def meter(served: Served) -> str:
    return served.add_meter()


@given(
    asked=st.lists(pairs, max_size=4),
    keys=st.lists(st.sampled_from(KEYS), max_size=2),
    where=st.tuples(st.sampled_from(["", "0" * 32, "A" * 32, "0" * 31, "x"]), st.booleans()),
)
@example(asked=[("model", "m")], keys=[], where=("", True))
@example(asked=[("model", "m"), ("tenant", "1"), ("wait", "0.5")], keys=["k"], where=("", True))
@settings(max_examples=150, deadline=None)
def test_both_ways_answer_alike(
    served: Served,
    meter: str,
    asked: list[tuple[str, str]],
    keys: list[str],
    where: tuple[str, bool],
) -> None:
    place, token = where
    client = served.client("developer" if token else None)
    path = f"/meters/{place or meter}/submissions"
    headers = [(b"Idempotency-Key", key.encode()) for key in keys]
    query = urlencode(asked, errors="surrogatepass")

    def ask() -> tuple[int, bytes]:
        answer = client.post(f"{path}?{query}", content=b"no tar", headers=headers)
        return answer.status_code, answer.content

    plainly = ask()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "plainly_given", lambda _: None)
        assert ask() == plainly
    assert plainly[0] in (401, 404, 422)


def test_the_client_asks_plainly(served: Served, meter: str) -> None:
    """Else all of this would be of no use to it."""
    seen: list[object] = []

    def noted(request: Request) -> dict[str, object] | None:
        seen.append(plainly_given(request))
        return plainly_given(request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "plainly_given", noted)
        answer = served.client("developer").post(
            f"/meters/{meter}/submissions",
            params={"model": "my model", "tenant": 1, "wait": 20},
            headers={"Idempotency-Key": "a" * 32},
            content=b"no tar",
        )
    assert answer.status_code == 422
    assert seen == [
        {"meter": meter, "model": "my model", "tenant": 1, "wait": 20.0, "key": "a" * 32}
    ]
