"""Forms with files (`curl --form`), where a route takes a tar or a file as its whole body.

A form is turned into what the route takes anyway, so everything behind it knows one kind of body:
the same files are the same submission, whichever way they came.
"""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.scoring.bundle import MOST_FILES
from easeml_meter.server.api.common import body_of
from easeml_meter.server.settings import Settings
from easeml_meter.tables import archive
from easeml_meter.tables.archive import File
from easeml_meter.tables.multipart import MEDIA_TYPE, Field, Malformed, boundary_of, read_form

TAR = "application/x-tar"
FILE = "file"
"""The field of a form with one file."""
_SUBMISSION = "test and validation (predictions), onnx, or command and files"
_ONE = f"one file: --form {FILE}=@FILE"
_WHOLE = ({"test", "validation"}, {"onnx"}, {"command"}, {"command", "files"})
_FORMS = set[str]().union(*_WHOLE)


async def submission_of(request: Request, settings: Settings) -> bytes:
    """Read a submission, as a tar or a form; return the tar.

    Raises:
        InvalidInput: it is a form of something else.
    """
    body, boundary = await _received(request, settings)
    return body if boundary is None else await run_in_threadpool(packed, body, boundary)


async def file_of(request: Request, settings: Settings) -> tuple[bytes, str]:
    """Read a file, as the whole body or the one field of a form; return it, and its name if known.

    Raises:
        InvalidInput: it is a form of something else.
    """
    body, boundary = await _received(request, settings)
    if boundary is None:
        return body, ""
    return await run_in_threadpool(_only_file, body, boundary)


async def _received(request: Request, settings: Settings) -> tuple[bytes, bytes | None]:
    try:
        boundary = boundary_of(request.headers.get("content-type", ""))
    except Malformed as error:
        raise _refused(error, _SUBMISSION) from None
    return await body_of(request, settings), boundary


def packed(body: bytes, boundary: bytes) -> bytes:
    """Make the tar that a form stands for."""
    fields = _read(body, boundary, MOST_FILES + 1, _SUBMISSION)  # one more: the command itself
    files: dict[str, File] = {}
    for field in fields:
        name = _name_in_tar(field)
        if name in files:
            raise invalid("form", f"{field.name} twice", f"each once: {_SUBMISSION}")
        files[name] = File(field.content)
    _check_whole({field.name for field in fields})
    return archive.pack(files)


def _check_whole(given: set[str]) -> None:
    """Refuse fields that are no submission: whoever sent a form is not told of files in a tar."""
    if given in _WHOLE:
        return
    shown = ", ".join(sorted(given)) or "no field"
    for whole in _WHOLE:
        lacking = sorted(whole - given)
        if set() < given < whole and len(lacking) == 1:
            what = f"{lacking[0]}={'TEXT' if lacking == ['command'] else '@FILE'}"
            raise invalid("form", shown, f"{lacking[0]} is missing: --form {what}")
    raise invalid("form", shown, f"one of these needed: {_SUBMISSION}")


def _name_in_tar(field: Field) -> str:
    if field.name not in _FORMS:
        where = "; options, such as model, belong in the address: ?model=NAME"
        raise invalid("form", field.name[:80], f"{_SUBMISSION} needed{where}")
    if field.name == "command":
        return "command"
    if field.filename is None:
        raise invalid(field.name, "text", f"a file needed: --form {field.name}=@FILE")
    if field.name == "onnx":
        return "model.onnx"
    if field.name == "files":
        return f"files/{field.filename}"
    # What follows the first dot of the file's name says its format, as in a tar.
    _, dot, ending = field.filename.partition(".")
    return f"{field.name}{dot}{ending.rpartition('.')[2]}"


def _only_file(body: bytes, boundary: bytes) -> tuple[bytes, str]:
    fields = _read(body, boundary, 1, _ONE)
    if [field.name for field in fields] != [FILE] or fields[0].filename is None:
        given = fields[0].name[:80] if fields else "no field"
        raise invalid("form", given, f"{_ONE} needed; options belong in the address")
    return fields[0].content, fields[0].filename


def _read(body: bytes, boundary: bytes, most: int, wanted: str) -> list[Field]:
    try:
        return read_form(body, boundary, most)
    except Malformed as error:
        raise _refused(error, wanted) from None


def _refused(error: Malformed, wanted: str) -> InvalidInput:
    return invalid("form", str(error), f"{wanted} needed")


_BYTES = {"type": "string", "format": "binary"}


def _form(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"schema": {"type": "object", "properties": properties, "required": required}}


def submission_body() -> dict[str, Any]:
    """Document a submission: a tar, or a form."""
    form = _form(
        {
            "test": _BYTES | {"description": "Predictions on the test set."},
            "validation": _BYTES | {"description": "Predictions on the validation set."},
            "onnx": _BYTES | {"description": "A model, in place of predictions."},
            "command": {"type": "string", "description": "A command line, with its files."},
            "files": {"type": "array", "items": _BYTES, "description": "Files of the command."},
        },
        [],
    )
    return _document({TAR: {"schema": _BYTES}, MEDIA_TYPE: form})


def file_body() -> dict[str, Any]:
    """Document a file: the body itself, or the field of a form."""
    form = _form({FILE: _BYTES}, [FILE])
    return _document({"application/octet-stream": {"schema": _BYTES}, MEDIA_TYPE: form})


def _document(content: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": content}}
