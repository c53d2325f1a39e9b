"""Who may do what. What is not listed is denied."""

from __future__ import annotations

from enum import StrEnum

from easeml_meter.errors import MeterError


class Role(StrEnum):
    """Whom a request comes from."""

    DEVELOPER = "developer"
    LABELER = "labeler"
    OWNER = "owner"  # embedded mode: one person's machine, an honour system


class Deed(StrEnum):
    """What can be asked of a meter."""

    SUBMIT = "submit"
    SEE_SIGNALS = "see signals"
    SET_VALIDATION = "set the validation set"
    SEAL = "seal a test set"
    ADD_TEST_SET = "add a test set"
    SEE_NOTICES = "see notices to labelers"
    RELEASE = "release a test set"
    SEE_TEST_INPUTS = "see the test inputs"
    AUDIT = "audit"


_ALLOWED = {
    Role.DEVELOPER: {Deed.SUBMIT, Deed.SEE_SIGNALS, Deed.SET_VALIDATION, Deed.AUDIT},
    Role.LABELER: {
        Deed.SEE_SIGNALS,
        Deed.SEAL,
        Deed.ADD_TEST_SET,
        Deed.SEE_NOTICES,
        Deed.SEE_TEST_INPUTS,
        Deed.RELEASE,
        Deed.AUDIT,
    },
    Role.OWNER: set(Deed),
}


class Denied(MeterError):
    """The role does not allow this."""

    exit_code = 5


def require(role: Role, deed: Deed) -> None:
    """Let a deed pass, or raise."""
    if deed not in _ALLOWED[role]:
        raise Denied(f"a {role} may not {deed}")
