"""Forms with files: bodies of multipart/form-data, as `curl --form` sends them.

They come from strangers. The whole body is in memory, within the limit of its route; a field is a
slice of it, found by one search for the boundary. So no form unpacks to more than was sent, and
what a form can cost beyond that is the number of its fields, which the caller limits. Only the
plain form that programs send is read: no text before the first boundary, no encoded contents, no
forms inside of forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MEDIA_TYPE = "multipart/form-data"

_LONGEST_HEADERS = 2 << 10
"""Bytes of all headers of a field: they name it, and perhaps its file."""
# RFC 2046, 5.1.1: at most 70 characters, of these.
_BOUNDARY = re.compile(r';\s*boundary="?([0-9A-Za-z\'()+_,./:=? -]{0,69}[^\s";])"?\s*(?:;|$)', re.I)
_DISPOSITION = re.compile(
    r"form-data((?:\s*;\s*[a-z*]+=(?:\"(?:[^\"\\]|\\.)*\"|[^\s\";]+))*)", re.I
)
_PARAMETER = re.compile(r";\s*([a-z*]+)=(?:\"((?:[^\"\\]|\\.)*)\"|([^\s\";]+))", re.I)
_AS_IT_IS = ("7bit", "8bit", "binary")


class Malformed(ValueError):
    """The bytes are no form that is read here; the message says what they are."""


class Field(NamedTuple):
    """A field of a form."""

    name: str
    filename: str | None
    """The last part of the name that its file has where it came from; None: it is no file."""
    content: bytes


def boundary_of(content_type: str) -> bytes | None:
    """Return what separates the fields, by the header of a body; None: the body is no form.

    Raises:
        Malformed: it is a form, and the header names no boundary.
    """
    kind, semicolon, parameters = content_type.partition(";")
    if kind.strip().lower() != MEDIA_TYPE:
        return None
    found = _BOUNDARY.search(semicolon + parameters)
    if found is None:
        raise Malformed("a form without a boundary")
    return found[1].encode("ascii")


def read_form(body: bytes, boundary: bytes, most: int) -> list[Field]:
    """Return the fields of a form in their order.

    Raises:
        Malformed: it is no form, or has more than `most` fields.
    """
    found: list[Field] = []
    for start, end in _parts(body, boundary):
        if len(found) == most:
            raise Malformed("a form with too many fields")
        found.append(_field(body, start, end))
    return found


def _parts(body: bytes, boundary: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each field begins, with its headers, and where it ends."""
    opening, between = b"--" + boundary, b"\r\n--" + boundary
    if not body.startswith(opening):
        raise Malformed("no form")
    at = len(opening)
    while body[at : at + 2] != b"--":
        if body[at : at + 2] != b"\r\n":
            raise Malformed("no form")
        end = body.find(between, at)
        if end < 0:
            raise Malformed("a form that ends too early")
        if end > at:  # else there are no headers at all
            yield at + 2, end
        else:
            raise Malformed("a form with a field without a name")
        at = end + len(between)
    if body[at + 2 :] not in (b"", b"\r\n"):
        raise Malformed("a form with something after it")


def _field(body: bytes, start: int, end: int) -> Field:
    blank = body.find(b"\r\n\r\n", start, min(end, start + _LONGEST_HEADERS))
    if blank < 0:
        raise Malformed("a form with a field without a name")
    disposition = ""
    for line in body[start:blank].decode("utf-8", "replace").split("\r\n"):
        name, _, value = line.partition(":")
        if name.lower() == "content-disposition":
            if disposition:
                raise Malformed("a form with a field of two names")
            disposition = value.strip()
        if name.lower() == "content-transfer-encoding" and value.strip().lower() not in _AS_IT_IS:
            raise Malformed("a form with encoded contents")
    return _named(disposition, body[blank + 4 : end])


def _named(disposition: str, content: bytes) -> Field:
    shape = _DISPOSITION.fullmatch(disposition)
    if shape is None:
        raise Malformed("a form with a field without a name")
    given = [
        (name.lower(), quoted or plain) for name, quoted, plain in _PARAMETER.findall(shape[1])
    ]
    names = dict(given)
    if len(names) != len(given) or not names.get("name"):
        raise Malformed("a form with a field without a name, or of two names")
    if "filename" not in names:
        return Field(_unquoted(names["name"]), None, content)
    filename = re.split(r"[/\\]", _unquoted(names["filename"]))[-1]
    return Field(_unquoted(names["name"]), filename, content)


def _unquoted(text: str) -> str:
    # Older curls write \", newer ones %22 as browsers do.
    return re.sub(r'\\(["\\])', r"\1", text).replace("%22", '"')
