"""Every error a user can see: one line each, with the word, status and exit code it stands for.

This is the only table of its kind. The command line exits with `exit_code`, the server answers
with `status` and `word`, and the client turns a `word` back into the same class.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping


class MeterError(Exception):
    """Base of all errors a user may see: one line that says what, what was given, what to do.

    Raised as such when the state changed underneath a request, hence the status 409.
    """

    exit_code = 1
    """What the command line exits with; docs/commands.md lists them."""
    word = "conflict"
    """What the error is called in JSON."""
    status = 409
    """The HTTP status of the server's answer."""

    def _render_traceback_(self) -> list[str]:
        """Say it in a notebook: our own source would be forty red lines above it."""
        return [f"{type(self).__name__}: {spoken(str(self), IN_PYTHON)}"]


class InvalidInput(MeterError):
    """The request itself is wrong; nothing was done and nothing was charged."""

    exit_code, word, status = 2, "invalid", 422


class NotFound(MeterError):
    """There is no such thing, or it is none of the caller's business: the two look the same."""

    exit_code, word, status = 2, "not-found", 404


class Spent(MeterError):
    """The test set has said all it safely can."""

    exit_code, word, status = 3, "spent", 409


class WrongPhase(MeterError):
    """The test set is not in a phase that allows this."""

    exit_code, word, status = 4, "wrong-time", 409


class Denied(MeterError):
    """The role does not allow this."""

    exit_code, word, status = 5, "denied", 403


class Unauthenticated(MeterError):
    """No valid token or password was given."""

    exit_code, word, status = 5, "unknown-caller", 401


class Waiting(MeterError):
    """A submission waits for labels that were asked for; its answer comes with them."""

    exit_code, word = 4, "waiting"


class TooLarge(InvalidInput):
    """More bytes, or more of a table, than the server takes."""

    word, status = "too-large", 413


class TooMany(MeterError):
    """Too many requests in too short a time; try again after `wait` seconds."""

    word, status = "too-many", 429

    def __init__(self, message: str, wait: float = 1) -> None:
        super().__init__(message)
        self.wait = math.ceil(wait)


class TooSoon(TooMany):
    """The token has had its answers of a day; the next is possible after `wait` seconds."""

    exit_code, word = 4, "too-soon"


class StorageError(MeterError):
    """The database cannot be used; what was asked may be written all the same, in part or whole."""

    word, status = "unavailable", 503


class FilesUnusable(MeterError):
    """A file cannot be used; what was asked may be done all the same, in part or whole.

    To those who ask a server it looks like `StorageError`: they cannot do more about it.
    """

    word, status = StorageError.word, StorageError.status


class VaultError(MeterError):
    """Something encrypted does not open. It never says why: the reason could be probed for."""


class Unreachable(MeterError):
    """The server or a cluster cannot be reached, or was lost meanwhile."""


def not_installed(what: str, error: ImportError, extra: str) -> MeterError:
    """Return an error for a package that only some installations have; `what` is what needs it."""
    return MeterError(f"{what} {error.name}; run: pip install 'easeml-meter[{extra}]'")


IN_PYTHON = {
    "of ids (--id)": "of ids (matching=RowMatching(id_column=...))",
    "(--no-ids)": "(matching=RowMatching(in_order=True))",
    "--id": "id_column=...",
    "--baseline": "baseline=True",
    "--yes": "accept_fewer=True",
    "meter validation set": "set_validation",
    "meter validation replace": "replace_validation",
    "meter testset add": "add_test_set",
    "meter seal": "seal",
    "meter history": "history",
}
"""What commands and options, of which errors speak, are called in Python."""


def spoken(said: str, words: Mapping[str, str]) -> str:
    """Name verbs and arguments where a refusal, which may come from a server, names options."""
    for shell, word in words.items():
        said = said.replace(shell, word)
    return re.sub(
        r"(?<!\S)(\(?)--([a-z]+(?:-[a-z]+)*)(?: [A-Z]+\b)?",
        lambda found: f"{found[1]}{found[2].replace('-', '_')}=...",
        said,
    )


_LONGEST_SHOWN = 300


def invalid(field: str, given: object, allowed: str) -> InvalidInput:
    """Return the error that names the field, the value given and what is allowed."""
    shown = "nothing" if given is None else repr(given)
    if len(shown) > _LONGEST_SHOWN:  # a key of a file can be as long as the file
        shown = f"{shown[:_LONGEST_SHOWN]}..."
    return InvalidInput(f"{field}: {shown} given, {allowed}")


def error_named(word: str, message: str) -> MeterError:
    """Return the error that a server's `word` stands for."""
    return _NAMED.get(word, MeterError)(message)


ANSWERED: tuple[type[MeterError], ...] = (
    Unauthenticated,
    Denied,
    NotFound,
    MeterError,
    Spent,
    WrongPhase,
    Waiting,
    TooLarge,
    InvalidInput,
    TooMany,
    TooSoon,
    StorageError,
)
"""The errors that a server answers with, by status; all others look like the one of their word."""

_NAMED = {kind.word: kind for kind in ANSWERED}


def to_keep(error: MeterError) -> MeterError:
    """Return a refusal without its traceback, whose frames would keep what was refused alive."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
