"""Forms with files (`curl --form`): submissions, and files where a route also takes a whole body.

A submission becomes an archive, so everything behind it knows one kind of body. Nothing of a form
touches the disk.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.scoring.bundle import MOST_FILES
from easeml_meter.server.api.common import body_of
from easeml_meter.server.limits import streamed
from easeml_meter.server.settings import Settings
from easeml_meter.service.submissions.kinds import NOTHING
from easeml_meter.tables import archive
from easeml_meter.tables.archive import File
from easeml_meter.tables.opening import PACKED
from easeml_meter.tables.source import of_memory

FORM = "multipart/form-data"
FILE = "file"
"""The field of a form with one file."""
_SUBMISSION = "test and validation (predictions), onnx, or command and files"
_ONE = f"one file: --form {FILE}=@FILE"
_WHOLE = ({"test", "validation"}, {"onnx"}, {"command"}, {"command", "files"})
_FORMS = set[str]().union(*_WHOLE)
_EXECUTABLE = "executable"
_LONGEST_TEXT = 64 << 10


class Field(NamedTuple):
    """A field of a form."""

    name: str
    filename: str | None
    """None: it is no file."""
    content: bytes


async def handed_in(request: Request, settings: Settings, charged: Callable[[], bool]) -> bytes:
    """Read the form of a submission; one too long to be read, if `charged`, stands for no files."""
    try:
        return await submission_of(request, settings)
    except HTTPException as error:
        if error.status_code != 413 or not await run_in_threadpool(charged):
            raise
        return NOTHING


async def submission_of(request: Request, settings: Settings) -> bytes:
    """Read the form of a submission; return the archive of its files."""
    if not _is_form(request):
        kind = request.headers.get("content-type", "no type")[:80]
        raise invalid("body", kind, f"a form ({FORM}) with {_SUBMISSION} needed")
    stream, largest = streamed(request, settings.largest_body), settings.largest_body
    fields = await read_form(request.headers, stream, largest, MOST_FILES, _SUBMISSION)
    return await run_in_threadpool(packed, fields)


async def file_of(request: Request, settings: Settings) -> tuple[bytes, str]:
    """Read a file, as the whole body or the one field of a form; return it, and its name."""
    if not _is_form(request):
        return await body_of(request, settings), ""
    stream, largest = streamed(request, settings.largest_body), settings.largest_body
    fields = await read_form(request.headers, stream, largest, 1, _ONE)
    if [field.name for field in fields] != [FILE] or fields[0].filename is None:
        given = fields[0].name[:80] if fields else "no field"
        raise invalid("form", given, f"{_ONE} needed; options belong in the address")
    return fields[0].content, fields[0].filename.rpartition("/")[2]


def _is_form(request: Request) -> bool:
    kind, _ = parse_options_header(request.headers.get("content-type", ""))
    return kind == FORM.encode()


class _Parser(MultiPartParser):
    """Refuses a form that does not come to its end."""

    whole = False

    def on_end(self) -> None:
        self.whole = True

    async def to_its_end(self, stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        async for piece in stream:
            yield piece
        if not self.whole:
            raise MultiPartException("a form that ends too early")


async def read_form(
    headers: Headers, stream: AsyncGenerator[bytes, None], largest: int, most: int, wanted: str
) -> list[Field]:
    """Return the fields of a form of at most so many bytes, files and other fields."""
    parser = _Parser(
        headers, stream, max_files=most, max_fields=most + 1, max_part_size=_LONGEST_TEXT
    )
    parser.stream = parser.to_its_end(stream)
    parser.spool_max_size = largest + 1  # what is longer would be written to the disk
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise _refused(error.message, wanted) from None
    try:
        return [await _field(name, value) for name, value in form.multi_items()]
    finally:
        await form.close()


async def _field(name: str, value: str | UploadFile) -> Field:
    if isinstance(value, str):
        return Field(name, None, value.encode("utf-8", "surrogatepass"))
    # Older curls write \\", newer ones %22 as browsers do.
    return Field(name, (value.filename or "").replace("%22", '"'), await value.read())


def packed(fields: Sequence[Field]) -> bytes:
    """Return the archive that a form stands for."""
    files: dict[str, File] = {}
    may_run = {field.content.decode() for field in fields if field.name == _EXECUTABLE}
    for field in fields:
        if field.name == _EXECUTABLE:
            continue
        name = _name_in_archive(field)
        if name in files:
            raise invalid("form", f"{field.name} twice", f"each once: {_SUBMISSION}")
        executable = field.name == "files" and field.filename in may_run
        files[name] = File(field.content, executable)
        may_run -= {field.filename} if executable else set()
    _check_whole({field.name for field in fields} - {_EXECUTABLE})
    if may_run:
        raise invalid(_EXECUTABLE, min(may_run)[:80], "the name of one of the files needed")
    return archive.pack(files)


def _check_whole(given: set[str]) -> None:
    """Refuse fields that are no submission: whoever sent a form is not told of other files."""
    if given in _WHOLE:
        return
    shown = ", ".join(sorted(given)) or "no field"
    for whole in _WHOLE:
        lacking = sorted(whole - given)
        if set() < given < whole and len(lacking) == 1:
            what = f"{lacking[0]}={'TEXT' if lacking == ['command'] else '@FILE'}"
            raise invalid("form", shown, f"{lacking[0]} is missing: --form {what}")
    raise invalid("form", shown, f"one of these needed: {_SUBMISSION}")


def _name_in_archive(field: Field) -> str:
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
    # What follows the last dot of the file's name says its format, or how it is packed.
    name, packed = os.path.splitext(field.filename)
    format_ = os.path.splitext(name)[1] if packed in PACKED or of_memory(field.filename) else ""
    return f"{field.name}{format_}{packed}"


def _refused(reason: str, wanted: str) -> InvalidInput:
    return invalid("form", reason, f"{wanted} needed")


_BYTES = {"type": "string", "format": "binary"}


def _form(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"schema": {"type": "object", "properties": properties, "required": required}}


def submission_body() -> dict[str, Any]:
    """Document the form of a submission."""
    names = {"type": "array", "items": {"type": "string"}}
    form = _form(
        {
            "test": _BYTES | {"description": "Predictions on the test set."},
            "validation": _BYTES | {"description": "Predictions on the validation set."},
            "onnx": _BYTES | {"description": "A model, in place of predictions."},
            "command": {"type": "string", "description": "A command line, with its files."},
            "files": {
                "type": "array",
                "items": _BYTES,
                "description": "Files of the command, by their relative names.",
            },
            _EXECUTABLE: names | {"description": "Which of the files are executable."},
        },
        [],
    )
    return _document({FORM: form})


def file_body() -> dict[str, Any]:
    """Document a file: the body itself, or the field of a form."""
    form = _form({FILE: _BYTES}, [FILE])
    return _document({"application/octet-stream": {"schema": _BYTES}, FORM: form})


def _document(content: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": content}}
