"""How a page is built, as people with a screen reader meet it: landmarks, headings, tables, fields.

It is made of the HTML alone, so what only a script or a style adds is not in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset(("br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"))
_UNSEEN = frozenset(("head", "script", "style", "template", "noscript", "datalist"))
_LANDMARKS = {"nav": "navigation", "main": "main", "aside": "complementary", "dialog": "dialog"}
_OF_THE_PAGE = {"header": "banner", "footer": "contentinfo"}
_ROLES = frozenset(("region", "search", "status", "alert", "group", "dialog"))
_IDS = re.compile(r"\b[0-9a-f]{32}\b")


@dataclass
class Element:
    """An element of a page, or a piece of its text."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def every(self) -> Iterator[Element]:
        """Give this element and all within, in the order of the page."""
        yield self
        for child in self.children:
            yield from child.every()

    def words(self) -> str:
        """Give what it says; drawings and what is kept from screen readers say nothing."""
        if self.tag in _UNSEEN or self.tag == "svg" or self.attributes.get("aria-hidden") == "true":
            return ""
        inner = "".join(child.words() for child in self.children)
        # What stands in a box of its own is not glued to what stands before it.
        apart = " " if self.tag in ("td", "th", "p", "div", "li", "dt", "dd", "option") else ""
        return f"{apart}{self.text}{inner}{apart}"


class _Reading(HTMLParser):
    """Builds the tree; an element that is not closed where it should be is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in _VOID:
            self.open.append(self.open[-1].children[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.open[-1].children.append(Element(tag, named))

    def handle_endtag(self, tag: str) -> None:
        ended = self.open.pop().tag
        if ended != tag:
            line, _ = self.getpos()
            raise ValueError(f"line {line}: <{ended}> is open where </{tag}> stands")

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(Element("", text=data))


def read(page: str) -> Element:
    """Read a page.

    Raises:
        ValueError: an element is not closed.
    """
    reading = _Reading()
    reading.feed(page)
    reading.close()
    if len(reading.open) > 1:
        raise ValueError(f"<{reading.open[-1].tag}> is never closed")
    return reading.open[0]


def outline(page: str) -> str:
    """Write what a page consists of, a line each, indented by the landmarks around it."""
    root = read(page)
    titles = [_plain(each.words()) for each in root.every() if each.tag == "title"]
    lines = [f"title: {titles[0]}"] if titles else []
    lines += _Outline(root).lines(root, "", 0)
    return "".join(f"{line}\n" for line in lines)


def _plain(text: str) -> str:
    return _IDS.sub("ID", " ".join(text.split()))


class _Outline:
    def __init__(self, root: Element) -> None:
        every = list(root.every())
        self._by_id = {each.attributes["id"]: each for each in every if "id" in each.attributes}
        labels = [each for each in every if each.tag == "label"]
        self._labels = {each.attributes["for"]: each for each in labels if "for" in each.attributes}
        self._around = {id(inner): label for label in labels for inner in label.every()}

    def lines(self, element: Element, parent: str, depth: int) -> Iterator[str]:
        """Write an element and all within."""
        if element.tag in _UNSEEN or "hidden" in element.attributes:
            return
        said = self._said(element, parent)
        if said:
            yield "  " * depth + said
        landmark = bool(said) and self._role(element, parent) is not None
        if element.tag in ("svg", "select", "button", "summary"):
            return  # nothing within has a place of its own
        inner = [
            line
            for child in element.children
            for line in self.lines(child, element.tag, depth + landmark)
        ]
        # Rows come and go with the data, in any order.
        yield from sorted(set(inner)) if element.tag == "tbody" else inner

    def _role(self, element: Element, parent: str) -> str | None:
        """Give the landmark that an element is."""
        role = element.attributes.get("role")
        if role in _ROLES:
            return role
        if element.tag == "section":
            return "region" if self._name(element) else None
        if parent == "body":
            return _LANDMARKS.get(element.tag) or _OF_THE_PAGE.get(element.tag)
        return _LANDMARKS.get(element.tag)

    def _said(self, element: Element, parent: str) -> str:
        role, name, tag = self._role(element, parent), self._name(element), element.tag
        if tag == "svg":  # what it shows is no structure
            return "picture" if "role" in element.attributes else ""
        if role is not None:
            links = [_plain(each.words()) for each in element.every() if each.tag == "a"]
            more = f": {' | '.join(links)}" if tag == "nav" else ""
            return f'{role} "{name}"{more}' if name else role
        if re.fullmatch("h[1-6]", tag):
            return f"heading {tag[1]}: {name}"
        if tag == "table":
            heads = [each for each in element.every() if each.attributes.get("scope") == "col"]
            columns = " | ".join(_plain(each.words()) for each in heads)
            captions = [_plain(each.words()) for each in element.every() if each.tag == "caption"]
            return f'table "{captions[0]}": {columns}' if captions else f"table: {columns}"
        if tag == "button" or (tag == "a" and "button" in element.attributes.get("class", "")):
            return f'{"link" if tag == "a" else tag} "{name}"'
        if tag == "summary":
            return f'disclosure "{name}"'
        if tag == "progress":
            return f'progress "{name}"'
        if tag in ("input", "select", "textarea") and element.attributes.get("type") != "hidden":
            kind = element.attributes.get("type", "text") if tag == "input" else tag
            return f'field "{name}" ({kind})'
        return ""

    def _name(self, element: Element) -> str:
        """Give the name by which an element is announced."""
        given = element.attributes
        if "aria-label" in given:
            return _plain(given["aria-label"])
        if "aria-labelledby" in given:
            return _plain(self._by_id[given["aria-labelledby"]].words())
        if element.tag in ("input", "select", "textarea", "progress"):
            label = self._labels.get(given.get("id", "")) or self._around.get(id(element))
            return "" if label is None else _plain(label.words())
        if re.fullmatch("h[1-6]|button|a|summary", element.tag):
            return _plain(element.words())
        return ""
