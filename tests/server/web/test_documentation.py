"""The page of the API: every operation and object, and nothing from elsewhere."""

from __future__ import annotations

import re
from html import unescape

from tests.server.helpers import Served
from tests.server.web.helpers import Visitor

from easeml_meter.server.api.document import operations


def test_the_page_shows_every_operation_and_object_to_everyone(served: Served) -> None:
    page = Visitor(served).get("/docs")
    assert page.status_code == 200
    text = unescape(page.text)
    document = served.app.openapi()
    for method, path, operation in operations(document):
        assert f"{method.upper()} {path.removeprefix('/api/v1')}</code>" in text
        assert f'id="{operation["operationId"]}"' in text
    objects = {n: s for n, s in document["components"]["schemas"].items() if n[:7] != "Listed_"}
    for name, schema in objects.items():
        shown = text.partition(f'<section class="card" id="{name}">')[2].partition("</section>")[0]
        for field in schema.get("properties", {}):
            assert f"<code>{field}</code>" in shown, f"{name}.{field}"
    body = text.partition('id="submit"')[2].partition("</section>")[0]
    assert 'Answer 200: <a href="#SubmissionShown">SubmissionShown</a>' in body


def test_the_page_needs_nothing_from_elsewhere(served: Served) -> None:
    page = Visitor(served).get("/docs")
    loaded = re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"([^\"]+)", page.text)
    assert loaded
    assert [each for each in loaded if not each.startswith("/static/")] == []
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert re.findall(r"<script(?![^>]*src=)|style=|onclick", page.text) == []


def test_every_link_of_the_page_leads_somewhere(served: Served) -> None:
    page = Visitor(served).get("/docs").text
    names = re.findall(r' id="([^"]+)"', page)
    assert len(set(names)) == len(names)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(names)


def test_the_page_is_sent_compressed_since_it_repeats_nothing_of_a_request(served: Served) -> None:
    """It had outgrown what a page may weigh."""
    address = "/docs?repeated=told-by-the-request"
    page = Visitor(served).get(address, headers={"Accept-Encoding": "gzip"})
    assert page.headers["Content-Encoding"] == "gzip"
    assert int(page.headers["Content-Length"]) < len(page.content) / 4
    assert "told-by-the-request" not in page.text
    plain = Visitor(served).get("/docs", headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    assert plain.headers["Vary"] == page.headers["Vary"]
