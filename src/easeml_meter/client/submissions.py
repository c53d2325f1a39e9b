"""Submitting to a meter at a server: send, wait for the answer, or take it back."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Unpack

from easeml_meter.client.connection import Connection
from easeml_meter.core.submissions import CheckedSubmission
from easeml_meter.errors import (
    InvalidInput,
    MeterError,
    NotFound,
    StorageError,
    Unreachable,
    error_named,
    invalid,
)
from easeml_meter.service.submissions.answering import Said, Submission
from easeml_meter.service.submissions.kinds import Submitted
from easeml_meter.service.submissions.measuring import Conditions, Progress
from easeml_meter.tables.source import Source, named, stamp_of

_WAIT = 2
"""Seconds that the server is asked to wait for an answer before it tells the state."""
_LOOK = 2.0
"""Seconds between two looks for a server that is away."""
_AWAY = 300.0
"""So long it may be away while a submission waits there, as when it is started anew."""
_GOES_ON = "the submission goes on there: see its answer with meter history"
_STATES = {"queued": "waiting in the queue", "running": "running at the server"}
SENDING = "sending"


class Untold(MeterError):
    """The submission was answered, and charged; but the caller's role does not see signals."""

    def __init__(self, receipt: dict[str, Any]) -> None:
        self.receipt = receipt
        super().__init__(
            f"submitted as step {receipt['step']} of test set {receipt['generation']}: the answer "
            f"is shown to the developers of team {receipt['tenant']}"
        )


def submit(
    connection: Connection,
    place: str,
    submitted: Submitted,
    *,
    model: str,
    in_use: Callable[[], Mapping[str, int]],
    tenant: dict[str, int],
    conditions: Conditions,
    charged: Callable[[], bool] = lambda: False,
    **said: Unpack[Said],
) -> dict[str, Any]:
    """Submit, and return what the server shows of it once it is answered.

    `in_use` returns the sets in use, which are read once, so that every try is the same submission.
    `charged`: whether even a file that is absent is an answer, as for runners.

    Raises:
        InvalidInput: the submission cannot be measured; files are named as they are named here.
        Untold: it was answered, and the caller does not see answers.
    """
    _check_conditions(conditions)
    Submission(submitted, model, **said)  # what is wrong with its name or note
    files = submitted.files()
    conditions.progress(SENDING, 0, 0)
    noted = {name: value for name, value in said.items() if value}
    params = {"model": model, **noted, **submitted.options(), **tenant, **in_use()}
    try:
        # Until the server has said its id, a submission cannot be taken back.
        with _uninterrupted() as interrupts:
            try:
                form = submitted.form()
            except InvalidInput:
                if not charged():
                    raise
                form = [(name.partition(".")[0], (name, _found(files[name]))) for name in files]
            answer = connection.call("POST", place, params=params, form=form, slow=True)
    except InvalidInput as error:
        raise renamed(error, files) from None
    own = f"{place}/{answer['id']}"
    stop = bool(interrupts)
    answer = _settled(connection, own, answer, tenant, conditions.progress, stop=stop)
    if answer["state"] == "refused":
        problem = error_named(answer["problem"]["error"], answer["problem"]["message"])
        raise renamed(problem, files) if isinstance(problem, InvalidInput) else problem
    if answer["signal"] is None:
        raise Untold(answer)
    return answer


def _found(source: Source) -> bytes:
    """Return what is in a file, nothing if it cannot be read."""
    try:
        stamp_of(source)
        return source.read_bytes()
    except InvalidInput:
        return b""


def check(
    connection: Connection,
    place: str,
    submitted: Submitted,
    *,
    options: Mapping[str, Any],
    conditions: Conditions,
) -> CheckedSubmission:
    """Return how the meter understands a submission.

    Raises:
        InvalidInput: the submission could not be measured.
    """
    _check_conditions(conditions)
    files = submitted.files()
    conditions.progress(SENDING, 0, 0)
    params = {**submitted.options(), **options}
    try:
        form = submitted.form()
        found = connection.call("POST", place, params=params, form=form, slow=True)
    except InvalidInput as error:
        raise renamed(error, files) from None
    return CheckedSubmission.from_json(found)


def _settled(
    connection: Connection,
    place: str,
    answer: dict[str, Any],
    tenant: dict[str, int],
    progress: Progress,
    *,
    stop: bool,
) -> dict[str, Any]:
    started = heard = time.monotonic()
    try:
        while answer["state"] in _STATES:
            if stop:
                raise KeyboardInterrupt
            progress(_STATES[answer["state"]], time.monotonic() - started, 0)
            try:
                answer = connection.call("GET", place, params={"wait": _WAIT, **tenant})
                heard = time.monotonic()
            except NotFound:
                raise
            except MeterError as error:
                away = isinstance(error, Unreachable | StorageError)
                if not away or time.monotonic() - heard > _AWAY:
                    raise type(error)(f"{error}; {_GOES_ON}") from None
                progress("waiting until the server is back", time.monotonic() - heard, 0)
                time.sleep(_LOOK)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_cancel(connection, place, tenant)) from None
    return answer


def _cancel(connection: Connection, place: str, tenant: dict[str, int]) -> str:
    try:
        connection.call("DELETE", place, params=tenant)
    except NotFound:  # the first of two tries did it
        pass
    except MeterError:
        return "interrupted: the submission is running, see its answer with meter history"
    return "interrupted: the submission was taken back, it cost nothing"


@contextmanager
def _uninterrupted() -> Iterator[list[int]]:
    """Note Ctrl-C instead of acting on it: only a submission with an id can be taken back.

    The second one counts at once.
    """
    noted: list[int] = []

    def note(number: int, _: object) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    if threading.current_thread() is not threading.main_thread():  # others get no signals
        yield noted
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def _check_conditions(conditions: Conditions) -> None:
    for name, given in (("executor", conditions.executor), ("seconds", conditions.seconds)):
        if given is not None:
            raise invalid(name, given, "nothing: at a server the server decides")


def renamed(error: InvalidInput, files: Mapping[str, Source]) -> InvalidInput:
    """Name files in a refusal as they are named here."""
    if not files:
        return error
    # Whole names only: "test.csv" must not be replaced inside of another path.
    names = "|".join(map(re.escape, files))
    line = re.sub(rf"(?<![\w./-])({names})(?![\w/-])", lambda m: named(files[m[0]]), str(error))
    return type(error)(line)
