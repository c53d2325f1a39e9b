from __future__ import annotations

import re

import pytest
from fastapi import APIRouter
from tests.server.helpers import Served

from easeml_meter.errors import MeterError, StorageError
from easeml_meter.report.palette import contrast
from easeml_meter.server.web.pages import TOKENS, VisitHere, static_address, static_text

from .helpers import Visitor, cookies_of, words


def add_route(served: Served, error: Exception) -> None:
    router = APIRouter()

    @router.api_route("/fails", methods=["GET", "POST"])
    def fails(visit: VisitHere) -> None:
        raise error

    @router.post("/says")
    def says(visit: VisitHere) -> object:
        return visit.redirect("/meters", visit.field("words", longest=2000))

    served.app.include_router(router)


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "status", "heading"),
        [
            (MeterError("done <b>before</b>"), 409, "Something changed"),
            (ValueError("label 7 of row 3"), 500, "The server failed"),
            (StorageError("host db.internal refused"), 503, "The server cannot answer now"),
        ],
    )
    def test_are_pages(self, served: Served, error: Exception, status: int, heading: str) -> None:
        add_route(served, error)
        visitor = Visitor(served, "admin")
        answer = visitor.get("/fails")
        assert answer.status_code == status
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert heading in words(answer)
        assert "Sign out" in words(answer)
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        for secret in ("<b>", "label 7", "db.internal"):
            assert secret not in answer.text

    def test_are_lines_for_scripts(self, served: Served) -> None:
        add_route(served, MeterError("done before"))
        visitor = Visitor(served, "admin")
        answer = visitor.put_in("/fails", b"")
        assert answer.status_code == 409
        assert "<html" not in answer.text
        assert words(answer) == "Something changed in the meantime. done before"

    def test_of_unknown_pages_know_who_asks(self, served: Served) -> None:
        answer = Visitor(served, "admin").get("/nowhere")
        assert answer.status_code == 404
        assert "There is no such page" in words(answer)
        assert "AD admin Your account Sign out" in words(answer)
        assert "Sign in" in words(Visitor(served).get("/nowhere"))

    def test_of_wrong_values_and_methods(self, served: Served) -> None:
        visitor = Visitor(served, "admin")
        meter = served.add_meter()
        answer = visitor.get(f"/meters/{meter}?generation=x")
        assert answer.status_code == 422
        assert "query.generation" in words(answer)
        assert visitor.client.delete("/meters").status_code == 405

    @pytest.mark.parametrize("name", ["Referer", "HX-Current-URL"])
    def test_of_strangers_who_come_from_no_address(self, served: Served, name: str) -> None:
        answer = Visitor(served).client.post("/account/tokens", headers={name: "http://["})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/sign-in?back=/meters"

    def test_for_programs_stay_as_they_are(self, served: Served) -> None:
        for path in ("/api/v1/nowhere", "/api/v1/me"):
            answer = Visitor(served, "admin").get(path)
            assert set(answer.json()) == {"error", "message", "request"}

    def test_in_the_database_of_sessions(self, served: Served) -> None:
        visitor = Visitor(served, "admin")
        served.site.store.close()
        with served.site.writing() as books:
            books.connection.exec_driver_sql("ALTER TABLE tokens RENAME TO elsewhere")
        answer = visitor.get("/meters")
        assert answer.status_code in (500, 503)
        assert answer.headers["content-type"].startswith("text/html")


class TestMessages:
    def test_are_shown_once(self, served: Served) -> None:
        add_route(served, MeterError(""))
        visitor = Visitor(served, "admin")
        said = 'Größe <b> "5"; ✓'
        answer = visitor.send("/says", words=said)
        assert (answer.status_code, answer.headers["location"]) == (303, "/meters")
        assert cookies_of(answer)
        assert said.replace("<b>", "<b>") in words(visitor.get("/meters"))
        assert said not in words(visitor.get("/meters"))

    def test_of_any_length(self, served: Served) -> None:
        add_route(served, MeterError(""))
        visitor = Visitor(served, "admin")
        answer = visitor.send("/says", words="ü" * 2000)
        assert len(answer.headers["set-cookie"]) < 4096
        assert "ü" * 400 in words(visitor.get("/meters"))

    def test_need_words(self, served: Served) -> None:
        add_route(served, MeterError(""))
        assert Visitor(served, "admin").send("/says", words="  ").status_code == 422


class TestStaticFiles:
    def test_are_kept_by_browsers_until_they_change(self, served: Served) -> None:
        visitor = Visitor(served)
        page = visitor.get("/sign-in").text
        found = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
        assert len(found) == 3  # the icon, the style, the script
        for address in found:
            answer = visitor.get(address)
            assert answer.status_code == 200
            assert "immutable" in answer.headers["cache-control"]
            plain = visitor.get(address.partition("?")[0])
            assert plain.headers["cache-control"] == "no-cache"
            assert plain.content == answer.content

    def test_style_has_tokens_and_drawings_before_it(self, served: Served) -> None:
        answer = Visitor(served).get(static_address("style.css"))
        assert answer.headers["content-type"] == "text/css; charset=utf-8"
        places = [answer.text.index(each) for each in ("--accent:", "svg .m-track", ".answer {")]
        assert places == sorted(places)

    def test_are_sent_compressed_to_those_who_take_that(self, served: Served) -> None:
        visitor, address = Visitor(served), static_address("style.css")
        sizes = {}
        for coding in ("gzip", "identity"):
            answer = visitor.get(address, headers={"Accept-Encoding": coding})
            assert answer.headers.get("content-encoding", "identity") == coding
            assert answer.headers["vary"] == "Accept-Encoding"
            sizes[coding] = int(answer.headers["content-length"])
        assert sizes["gzip"] < sizes["identity"] / 2
        page = visitor.get("/sign-in", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in page.headers

    @pytest.mark.parametrize(
        "name", ["nothing.css", "..%2fframe.py", "..%5ca.css", "%00.css", "%2e"]
    )
    def test_others_are_not_found(self, served: Served, name: str) -> None:
        assert Visitor(served).get(f"/static/{name}").status_code == 404

    def test_pages_are_not_kept(self, served: Served) -> None:
        assert Visitor(served, "admin").get("/meters").headers["cache-control"] == "no-store"


def tokens() -> dict[str, tuple[str, str]]:
    """Return the design tokens, with their value on a light and on a dark page."""
    light, _, dark = static_text(TOKENS).partition("@media (prefers-color-scheme: dark)")
    declared = re.compile(r"(--[a-z0-9-]+): ([^;]+);")
    darker = dict(declared.findall(dark))
    return {name: (value, darker.get(name, value)) for name, value in declared.findall(light)}


def test_every_token_is_used_and_every_colour_is_a_token() -> None:
    style = static_text("style.css")
    assert {name for name in tokens() if f"var({name})" not in style} == set()
    own = style[style.index(".skip") :]
    assert re.findall(r"#[0-9a-f]{3,8}\b|rgb\(", own) == []


@pytest.mark.parametrize("scheme", [0, 1])
def test_the_worst_band_is_the_most_visible_in_both_schemes(scheme: int) -> None:
    found = {name: values[scheme] for name, values in tokens().items()}
    bands = [contrast(found[f"--b{band}"], found["--surface"]) for band in range(1, 6)]
    assert bands[2] < bands[3] < bands[4]
    assert max(bands) == bands[4]
    for band in range(1, 6):
        assert contrast(found[f"--b{band}-on"], found[f"--b{band}"]) >= 4.5
