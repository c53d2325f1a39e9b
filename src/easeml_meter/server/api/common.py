"""What the routes share: shapes of what is given, pages of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Path, Query
from pydantic import BaseModel, ConfigDict, StringConstraints

from easeml_meter.service.accounts import NAME

Item = TypeVar("Item")
Shown = TypeVar("Shown")

Line = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NAME)]
Id = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="32 hexadecimal digits.")]


class Given(BaseModel):
    """Base of what a request may hold: nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Listed(BaseModel, Generic[Shown]):
    """A page of a list; `next` is given as `after` to get the one that follows."""

    items: list[Shown]
    next: str | None


@dataclass(frozen=True)
class Page:
    """Which part of a list is asked for."""

    limit: Annotated[int, Query(ge=1, le=200)] = 50
    after: Annotated[str, Query(max_length=300)] = ""


PageHere = Annotated[Page, Depends()]


def paged(
    items: Iterable[Item],
    page: Page,
    *,
    key: Callable[[Item], str],
    show: Callable[[Item], Shown],
    falling: bool = False,
) -> Listed[Shown]:
    """Give one page of items that are sorted by `key`, which no two of them share."""
    after = page.after

    def left(item: Item) -> bool:
        return not after or (key(item) < after if falling else key(item) > after)

    rest = [item for item in items if left(item)]
    shown = rest[: page.limit]
    following = key(shown[-1]) if len(rest) > len(shown) else None
    return Listed(items=[show(item) for item in shown], next=following)
