"""Read drawings and pages back, and hold them to what all of them must keep."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

NAMESPACE = "{http://www.w3.org/2000/svg}"
DRAWN = {"svg", "title", "desc", "g", "path", "rect", "text"}
VOID = {"meta"}


def drawing(svg: str) -> ElementTree.Element:
    """Parse a drawing; it must be safe under a strict policy, and speak for itself."""
    svg.encode()
    root = ElementTree.fromstring(svg)  # noqa: S314  our own
    for node in root.iter():
        assert node.tag.removeprefix(NAMESPACE) in DRAWN
        for name, value in node.attrib.items():
            assert name not in ("style", "id", "href")
            assert not name.startswith("on")
            assert "url(" not in value
            assert "://" not in value
    assert root.get("role") == "img"
    assert root[0].tag == f"{NAMESPACE}title"
    assert root[0].text
    return root


def nodes(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return list(root.iter(NAMESPACE + name))


def texts(root: ElementTree.Element) -> list[str]:
    """What is written in a drawing, tips and descriptions left out."""
    return [node.text or "" for node in nodes(root, "text")]


def boxes(path: str) -> list[tuple[float, float, float, float]]:
    """The rectangles of a path: left, top, width, height."""
    number = r"(-?[\d.]+)"
    found = re.findall(rf"M{number} {number}h{number}v{number}h-?[\d.]+z", path)
    return [tuple(map(float, each)) for each in found]  # type: ignore[misc]


class Page(HTMLParser):
    """A page as a browser takes it: every element closed, and what is in it."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)
