"""Submissions with an Idempotency-Key: the answer it brings back, and how that is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from easeml_meter.core.idempotency import KeyedRequest, Place
from easeml_meter.storage.books import Books

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Keyed(Generic[Answer]):
    """A request with its key, and how its answer is kept."""

    request: KeyedRequest
    answered: Callable[[Answer], KeyedRequest] = field(repr=False, compare=False)


@dataclass
class Keys:
    """What the keys of a batch bring back, as one transaction sees it.

    A key is entered in the transaction of its answer. So it stands for a submission from the moment
    that this counts, and a submission that is refused leaves its key unused.
    """

    known: dict[Place, KeyedRequest]
    fresh: list[KeyedRequest] = field(default_factory=list)

    @classmethod
    def read(cls, books: Books, given: Iterable[Keyed[Answer] | None]) -> Keys:
        """Read what the books say about keys."""
        return cls(books.idempotency.known([each.request for each in given if each is not None]))

    def before(self, keyed: Keyed[Answer] | None) -> KeyedRequest | None:
        """Return a request as it was answered before; None: it has yet to be carried out.

        Raises:
            MeterError: its key came with another request, or is under way elsewhere.
        """
        return None if keyed is None else keyed.request.before(self.known)

    def add(self, keyed: Keyed[Answer] | None, answer: Answer) -> None:
        """Add an answer, which the same key brings back from now on."""
        if keyed is not None:
            request = keyed.answered(answer)
            self.known[request.place] = request
            self.fresh.append(request)

    def enter(self, books: Books) -> None:
        """Write the answers that were added."""
        books.idempotency.put(self.fresh)
