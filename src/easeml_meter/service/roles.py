"""Who may do what. What is not listed is denied."""

from __future__ import annotations

from enum import StrEnum

from easeml_meter.errors import Denied


class Role(StrEnum):
    """Whom a request comes from."""

    DEVELOPER = "developer"
    LABELER = "labeler"
    RUNNER = "runner"  # a trusted host that computes predictions on the hidden inputs
    ADMIN = "admin"  # manages users and keys; sees neither labels nor losses nor signals
    OWNER = "owner"  # embedded mode: one person's machine, an honour system


class Deed(StrEnum):
    """What can be asked of a meter."""

    SEE_METER = "see the meter"
    SUBMIT = "submit"
    SEE_SIGNALS = "see signals"
    SET_VALIDATION = "set the validation set"
    SEE_VALIDATION = "see the validation set"
    SEAL = "seal a test set"
    ADD_TEST_SET = "add a test set"
    SEE_REQUESTS = "see requests for labels"
    SEE_NOTICES = "see notices to labelers"
    RELEASE = "release a test set"
    SEE_RELEASED = "see a released test set"
    SEE_TEST_INPUTS = "see the test inputs"
    HAND_OVER = "hand over a checkpoint"
    AUDIT = "audit"
    MANAGE = "manage users, keys and webhooks"


_ALLOWED = {
    Role.DEVELOPER: {
        Deed.SEE_METER,
        Deed.SUBMIT,
        Deed.SEE_SIGNALS,
        Deed.SET_VALIDATION,
        Deed.SEE_VALIDATION,
        Deed.SEE_RELEASED,
        Deed.HAND_OVER,
        Deed.AUDIT,
    },
    Role.LABELER: {
        Deed.SEE_METER,
        Deed.SEE_SIGNALS,
        Deed.SEE_VALIDATION,
        Deed.SEAL,
        Deed.ADD_TEST_SET,
        Deed.SEE_REQUESTS,
        Deed.SEE_NOTICES,
        Deed.SEE_TEST_INPUTS,
        Deed.RELEASE,
        Deed.SEE_RELEASED,
        Deed.AUDIT,
    },
    Role.RUNNER: {
        Deed.SEE_METER,
        Deed.SUBMIT,
        Deed.SEE_VALIDATION,
        Deed.SEE_TEST_INPUTS,
        Deed.SEE_RELEASED,
    },
    Role.ADMIN: {Deed.SEE_METER, Deed.SEE_REQUESTS, Deed.AUDIT, Deed.MANAGE},
    Role.OWNER: set(Deed),
}


def allowed(role: Role, deed: Deed) -> bool:
    """Tell whether a role may do this."""
    return deed in _ALLOWED[role]


def require(role: Role, deed: Deed) -> None:
    """Let a deed pass, or raise."""
    if not allowed(role, deed):
        article = "an" if role[0] in "ao" else "a"
        raise Denied(f"{article} {role} may not {deed}")
