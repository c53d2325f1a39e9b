"""A route of the API: FastAPI's, except that it refuses unknown query parameters."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from easeml_meter.errors import invalid


class ApiRoute(APIRoute):
    """Refuses a mistyped parameter, which would otherwise be ignored."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Look at the names before anything else is done."""
        handle, known = super().get_route_handler(), _parameters(self.dependant)
        read_whole = (self.openapi_extra or {}).get("parameters", ())
        known |= {each["name"] for each in read_whole}

        async def checked(request: Request) -> Response:
            if request.scope["query_string"]:
                for name in request.query_params:
                    if name not in known:
                        allowed = " or ".join(sorted(known)) or "none"
                        raise invalid("query", name[:80], f"{allowed} is known here")
            return await handle(request)

        return checked


def _parameters(part: Dependant) -> set[str]:
    own = {parameter.alias for parameter in part.query_params}
    return own.union(*map(_parameters, part.dependencies))
