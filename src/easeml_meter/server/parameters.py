"""Parameters of paths and queries, as the API documents them."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from fastapi import Path, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from easeml_meter.checks import ID, MAX_NAME

Asked = TypeVar("Asked", bound=BaseModel)

Id = Annotated[str, Path(pattern=f"^{ID}$", description="32 hexadecimal digits.")]

MeterKey = Annotated[
    str,
    Path(min_length=1, max_length=MAX_NAME, description="Id of the meter, or its name."),
]

UserKey = Annotated[
    str,
    Path(min_length=1, max_length=MAX_NAME, description="Id of the user, or their name."),
]


def one_line(description: str | None = None, *, least: int = 0) -> Any:
    """Return a parameter of the query that is one line: a column, or the name of a file."""
    pattern = r"^[^\x00-\x1f\x7f]" + ("+$" if least else "*$")
    return Query(min_length=least or None, max_length=200, pattern=pattern, description=description)


FileName = Annotated[str, one_line()]
"""What somebody calls a file that they send, for refusals."""

Number = Annotated[int, Path(ge=1, le=1_000_000, description="Number, from 1.")]

Tenant = Annotated[
    int | None,
    Query(ge=1, le=1_000_000, description="Number of the team; by default your own."),
]


def read_query(kind: type[Asked], request: Request) -> Asked:
    """Read a query whole, for a route that is called often.

    FastAPI looks for one parameter after the other, which takes ten times as long.
    """
    try:
        return kind.model_validate(dict(request.query_params))
    except ValidationError as error:
        wrong = [{**each, "loc": ("query", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(wrong) from None


def documented_query(kind: type[BaseModel]) -> dict[str, Any]:
    """Document what `read_query` reads, as FastAPI documents parameters."""
    schema = kind.model_json_schema()
    required = schema.get("required", ())
    return {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": name in required,
                "schema": {
                    key: value for key, value in each.items() if (key, value) != _NO_DEFAULT
                },
                "description": each["description"],
            }
            for name, each in schema["properties"].items()
        ]
    }


_NO_DEFAULT = ("default", None)
