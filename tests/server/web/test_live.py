"""Pages that follow a meter, over a real connection."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.live import Live, live
from tests.server.driving import begin, submit
from tests.service.helpers import Labels

from easeml_meter.errors import StorageError
from easeml_meter.server.web import live as live_pages
from easeml_meter.server.web.pages import SESSION, fragment
from easeml_meter.service import audit
from easeml_meter.service.actor import SYSTEM


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("live") / "site", working=False) as found:
        yield found


@pytest.fixture(scope="module")
def meter(site: Live) -> str:
    return site.served.add_meter()


@pytest.fixture(scope="module")
def labels(site: Live, meter: str, tmp_path_factory: pytest.TempPathFactory) -> Labels:
    folder: Path = tmp_path_factory.mktemp("labels")
    return begin(site.served, meter, folder)


def browser(site: Live, user: str) -> httpx.Client:
    cookies = {SESSION: site.served.session(user)}
    return httpx.Client(base_url=site.address, cookies=cookies, timeout=30)


def events(answer: httpx.Response) -> Iterator[str]:
    """Give the events of a stream, signs of life left out."""
    text = ""
    for piece in answer.iter_text():
        text += piece
        while "\n\n" in text:
            event, _, text = text.partition("\n\n")
            if not event.startswith(":"):
                yield event


def test_a_page_hears_of_what_a_colleague_submits(site: Live, meter: str, labels: Labels) -> None:
    with browser(site, "developer") as client:
        page = client.get(f"/meters/{meter}").text
        found = re.search(r'data-after="(\d+)"', page)
        assert found is not None
        place = f"/meters/{meter}/live?after={found[1]}"
        with client.stream("GET", place) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            heard = events(answer)
            submit(site.served.client("runner"), meter, labels, model="by a colleague")
            number = int(found[1]) + 1
            assert next(heard) == f"id: {number}\nevent: changed\ndata: {number}"
        news = client.get(f"/meters/{meter}/changed", headers={"HX-Request": "true"}).text
        assert "by a colleague" in news
        assert 'data-replace="chart"' in news


def test_a_page_that_comes_late_is_told_at_once(site: Live, meter: str, labels: Labels) -> None:
    with browser(site, "labeler") as client:
        newest = audit.newest_link(SYSTEM, site.served.site.space(meter))
        with client.stream("GET", f"/meters/{meter}/live?after={newest - 1}") as answer:
            assert next(events(answer)).startswith(f"id: {newest}\n")
        resumed = {"Last-Event-ID": str(newest - 1)}
        with client.stream(
            "GET", f"/meters/{meter}/live?after={newest}", headers=resumed
        ) as answer:
            assert next(events(answer)).startswith(f"id: {newest}\n")


def test_only_those_who_may_count_the_answers_follow(site: Live, meter: str) -> None:
    codes = {}
    for user in ("runner", "admin"):
        with browser(site, user) as client:
            page = client.get(f"/meters/{meter}")
            codes[user] = ("data-after" in page.text, "data-stream" in page.text)
    assert codes["runner"] == (False, False)
    with browser(site, "runner") as client:
        assert client.get(f"/meters/{meter}/live").status_code == 403
    with httpx.Client(base_url=site.address, timeout=120) as client:
        assert client.get(f"/meters/{meter}/live").status_code == 303
        browsers = {"Accept": "text/event-stream"}
        ended = client.get(f"/meters/{meter}/live", headers=browsers)
        assert (ended.status_code, list(ended.cookies)) == (401, [])


@pytest.mark.parametrize("ended", ["account", "seat", "session"])
def test_an_open_page_hears_nothing_once_its_reader_may_not(
    site: Live, meter: str, ended: str
) -> None:
    """It was told for ten minutes more that there was something new."""
    served = site.served
    admin, user = served.client("admin"), served.add_user(f"leaving-{ended}").id
    member = {"user": user, "role": "developer", "tenant": 1}
    assert admin.post(f"/meters/{meter}/members", json=member).status_code == 201
    with browser(site, f"leaving-{ended}") as client:
        newest = audit.newest_link(SYSTEM, served.site.space(meter))
        with client.stream("GET", f"/meters/{meter}/live?after={newest}") as answer:
            heard = answer.iter_text()
            assert next(heard) == ": open\n\n"
            if ended == "account":
                admin.patch(f"/users/{user}", json={"disabled": True})
            elif ended == "seat":
                admin.delete(f"/meters/{meter}/members/{user}/developer/1")
            else:
                with served.site.writing() as books:
                    books.tokens.revoke(served.site.now(), user=user)
            link = member | {"user": served.add_user(f"new-{ended}").id}
            assert admin.post(f"/meters/{meter}/members", json=link).status_code == 201
            assert "data" not in "".join(heard)


def test_many_pages_share_one_look_at_the_books(
    site: Live, meter: str, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    real = audit.newest_link

    def counted(*given: object) -> int:
        looks.append(given)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("easeml_meter.server.web.live.newest_link", counted)
    with browser(site, "developer") as client:
        newest = real(SYSTEM, site.served.site.space(meter))
        place = f"/meters/{meter}/live?after={newest}"
        streams = [client.stream("GET", place) for _ in range(10)]
        answers = [stream.__enter__() for stream in streams]
        submit(site.served.client("developer"), meter, labels, model="one", salt="many")
        assert [next(events(answer)).split()[1] for answer in answers] == [str(newest + 1)] * 10
        assert len(looks) < 10
        for stream in streams:
            stream.__exit__(None, None, None)


def test_news_are_drawn_once_for_all_who_see_the_same(
    site: Live, meter: str, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(site.served.client("developer"), meter, labels, model="seen", salt="seen")
    drawn = []
    real = fragment

    def counted(*given: object, **values: object) -> str:
        drawn.append(given)
        return real(*given, **values)  # type: ignore[arg-type]

    monkeypatch.setattr(live_pages, "fragment", counted)
    live = site.served.app.state.live
    while live._open:  # a stream of another test that is about to end
        time.sleep(0.01)
    live._news.clear()
    with browser(site, "developer") as developer, browser(site, "labeler") as labeler:
        first = developer.get(f"/meters/{meter}/changed").text
        assert developer.get(f"/meters/{meter}/changed").text == first
        assert len(drawn) == 1
        assert "csrf" not in first, "what is kept is nobody's own"
        assert labeler.get(f"/meters/{meter}/changed").text != first
        assert developer.get(f"/meters/{meter}/changed?q=nothing").text != first
        assert len(drawn) == 3
        submit(site.served.client("developer"), meter, labels, model="news", salt="news")
        assert "news" in developer.get(f"/meters/{meter}/changed").text
        assert len(drawn) == 4


def here(sleep: Callable[[float], Awaitable[None]]) -> Callable[[float], Awaitable[None]]:
    """Return a sleep for this thread alone: servers of other tests may run in others."""
    own, usual = threading.get_ident(), asyncio.sleep

    def either(seconds: float) -> Awaitable[None]:
        return sleep(seconds) if threading.get_ident() == own else usual(seconds)

    return either


def test_pages_are_told_one_after_another_and_slowly_while_answers_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def two() -> float:
        for _ in range(2):
            await watcher.turn()
        return waited[-1]

    watcher = live_pages.Live(None)  # type: ignore[arg-type]
    monkeypatch.setattr(asyncio, "sleep", here(sleep))
    assert 0 < asyncio.run(two()) <= 1 / 50
    assert waited[0] == 0
    watcher._busy = True
    assert 1 / 50 < asyncio.run(two()) <= 1 / 5


def test_a_meter_is_busy_if_it_changes_from_look_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async def watched(*links: int) -> list[bool]:
        live = live_pages.Live(None)  # type: ignore[arg-type]
        left, busy = list(links), []

        async def sleep(_: float) -> None:
            busy.append(live._busy)
            if not left:
                live._open.clear()

        monkeypatch.setattr(live, "_look", lambda meters: {"m": left.pop(0)})
        monkeypatch.setattr(asyncio, "sleep", here(sleep))
        live._open["m"] = 1
        await live._watch()
        return busy

    assert asyncio.run(watched(3, 4, 4, 5, 6, 7, 7)) == [False] * 4 + [True, True, False]


def test_pages_go_on_after_the_books_could_not_be_read(
    site: Live, meter: str, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, looks = audit.newest_link, []

    def newest_link(*given: object) -> int:
        looks.append(given)
        if len(looks) == 1:
            raise StorageError("the books cannot be used")
        return real(*given)  # type: ignore[arg-type]

    newest = real(SYSTEM, site.served.site.space(meter))
    while site.served.app.state.live._open:  # a stream of another test that is about to end
        time.sleep(0.01)
    monkeypatch.setattr(live_pages, "newest_link", newest_link)
    place = f"/meters/{meter}/live?after={newest - 1}"
    with browser(site, "developer") as client, client.stream("GET", place) as answer:
        assert next(events(answer)).startswith(f"id: {newest}\n")
    assert len(looks) > 1


def test_only_the_newest_drawings_are_kept() -> None:
    live = live_pages.Live(None)  # type: ignore[arg-type]
    for number in range(100):
        live.keep(number, "drawn")
    assert [live.news(number) for number in (0, 49, 50, 99)] == [None, None, "drawn", "drawn"]
