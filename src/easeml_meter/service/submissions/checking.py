"""Checking a submission without submitting it: free, and without touching a hidden label.

It says how the files are understood, so that a misread file does not cost a step. Everything it
says follows from the files, the validation set and the history of answers. What it says of the ids
of the test set goes to those who may see the test inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from easeml_meter.core.history import MeterState
from easeml_meter.core.submissions import CheckedFile, CheckedSubmission
from easeml_meter.errors import Denied
from easeml_meter.promise import ledger
from easeml_meter.scoring.ids import RowMatching
from easeml_meter.scoring.predictions import Predictions, meant
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.answering import (
    Submission,
    draft_of,
    in_use,
    known_by_name,
    open_submission,
    submission_of,
)
from easeml_meter.service.submissions.deciding import Decisions, Draft
from easeml_meter.service.submissions.kinds import NO_TITLES, Submitted, check_models, unpack
from easeml_meter.service.submissions.measuring import USUAL, Conditions, Measured
from easeml_meter.service.testsets.inputs import inputs_told

_FIRST = 3
"""Rows that are shown as they were understood."""


@needs(Permission.SUBMIT)
def check(
    actor: Actor,
    space: Workspace,
    submitted: Submitted,
    conditions: Conditions = USUAL,
) -> CheckedSubmission:
    """Return how a submission is understood; a model is run on the validation set.

    Raises:
        Denied: a runner made it of hidden rows, and what is wrong with it may tell of them.
        InvalidInput: something is wrong with the files, or the tenant.
        Spent: the test set has no answer left.
        WrongPhase: there is no test set or no validation set yet.
    """
    state, submission = space.read_state(), submission_of(actor, submitted, "check")
    if known_by_name(space, state.spec, submission):
        line = "what is made of hidden rows is not checked for free: what is wrong with it"
        raise Denied(f"{line} may tell of them; try the format on a meter of your own")
    test_set, validation = in_use(state)
    with Measured(space, state.spec, test_set, validation, conditions) as measured:
        attempt, draft = open_submission(actor, state, submission, measured)
        found = _cost(space, state, submission, draft)
        # Last: running a model takes long, and would be for nothing without an answer left.
        loss = attempt.validation_loss(measured)
        sees_inputs = inputs_told(state.spec, by_role=submission.sees_inputs)
        files = attempt.predictions.items()
        read = {name: _file(each, told=sees_inputs or name != "test") for name, each in files}
        classes = measured.classes.values if measured.classes else ()
        return replace(
            found,
            test=read.get("test"),
            validation=read.get("validation"),
            classes=classes,
            validation_loss=float(loss),
        )


@needs(Permission.SUBMIT)
def check_packed(
    actor: Actor,
    space: Workspace,
    body: bytes,
    matching: RowMatching,
    *,
    titles: Mapping[str, str] = NO_TITLES,
) -> CheckedSubmission:
    """Return how the body of a request is understood; `titles` is what its sender calls the files.

    A model is not opened here: only workers run models. What is wrong with it shows, at no cost,
    when it is run on the validation set.

    Raises:
        InvalidInput: something is wrong with the files, or the tenant.
        Spent: the test set has no answer left.
        WrongPhase: there is no test set or no validation set yet.
    """
    submitted = unpack(body, matching, space.limits, titles)
    if not submitted.queued:
        return check(actor, space, submitted)
    state, submission = space.read_state(), submission_of(actor, submitted, "check")
    check_models(state.spec, onnx=submitted.kind == "onnx", sent=True)
    draft = draft_of(submission, *in_use(state))
    return _cost(space, state, submission, draft)


def _cost(
    space: Workspace, state: MeterState, submission: Submission, draft: Draft
) -> CheckedSubmission:
    """Say which answer a submission would use."""
    tenant = state.tenant(submission.tenant)
    with space.reading() as books:
        decisions = Decisions.read(books, state, state.current, draft, space.clock)
    repeated = decisions.known.same is not None
    if not repeated:
        state.active()
        decisions.check_budget(draft.entry)
        decisions.check_pace(draft)
        decisions.check_telling(tenant)
    at, meter = decisions.histories.at(tenant), decisions.histories.on.meter
    return CheckedSubmission(
        kind=submission.submitted.kind,
        tenant=tenant,
        generation=state.current.number,
        answer=at.answers + 1,
        answers=at.answers + ledger.left(meter, at),
        repeated=repeated,
        baseline=not repeated and meter.compares and decisions.old is None,
    )


def _file(predictions: Predictions, *, told: bool) -> CheckedFile:
    joined = predictions.joined
    (first,) = predictions.batches([min(_FIRST, predictions.rows)])
    return CheckedFile(
        rows=joined.rows,
        matched=joined.matched if told else None,
        missing=joined.missing,
        first=tuple(meant(first, predictions.expected)),
    )
