"""The audit trail in words: a sentence for each link, with names in place of ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from easeml_meter.core.model import AuditLink, Event
from easeml_meter.report.words import shown

_SENTENCES = {
    Event.CREATED: "The meter was made.",
    Event.REQUESTED: "{labels} labels were requested for test set {generation}.",
    Event.REQUEST_DESCRIBED: "The request for test set {generation} was described: {reason}.",
    Event.PART_ADDED: "{rows} labels arrived for test set {generation}, as part {part}.",
    Event.PART_WITHDRAWN: "Part {part} of test set {generation} was withdrawn, {rows} labels.",
    Event.TEST_SET_ADDED: "Test set {generation} became active, with {rows} labels.",
    Event.TOPPED_UP: "Test set {generation} was topped up with {rows} rows.",
    Event.SEALING_FAILED: "A delivery for test set {generation} had too few rows that count: "
    "try {try} of {tries}.",
    Event.REUSE_REFUSED: "A delivery for test set {generation} was refused: another meter used it.",
    Event.LABELS_ASKED: "{labels} labels of test set {generation} were asked for, order {order}.",
    Event.LABELS_GIVEN: "{labels} labels of test set {generation} were given, order {order}.",
    Event.RETIRED: "Test set {generation} was retired early.",
    Event.SPENT: "Test set {generation} was spent.",
    Event.RELEASED: "Test set {generation} was released to the developers.",
    Event.ARCHIVED: "{user} archived the meter before its first answer.",
    Event.VALIDATION_SET: "Validation set {number} was handed in, {rows} rows.",
    Event.VALIDATION_REPLACED: "Validation set {number} replaced the one before, {rows} rows.",
    Event.TOLD: "Team {tenant} got answer {step} from test set {generation}: {answer}.",
    Event.PROMOTED: "Team {tenant} promoted step {step} of test set {generation}: {model}.",
    Event.PROMOTION_MISSING: "That team {tenant} had promoted step {step} came from the journal.",
    Event.HANDED_OVER: "Team {giver} handed over to team {receiver}: they share one history.",
    Event.HAND_OVER_REQUESTED: "A hand-over from team {giver} to team {receiver} was requested.",
    Event.HAND_OVER_AGREED: "A team agreed to the hand-over from team {giver} to team {receiver}.",
    Event.HAND_OVER_DECLINED: "The hand-over from team {giver} to team {receiver} was declined.",
    Event.KEY_CHANGED: "A new key took the place of the one that test sets were sealed to.",
    Event.MEMBER_ADDED: "{user} got a seat as {role}.",
    Event.MEMBER_REMOVED: "{user} lost the seat as {role}.",
    Event.PASSWORD_SET: "An admin gave {user} a new password.",
    Event.INVITATION_REDEEMED: "Whoever had the invitation of {user} chose the password.",
    Event.ACCOUNT_DISABLED: "The account of {user} was disabled.",
    Event.ACCOUNT_ENABLED: "The account of {user} was enabled.",
}
_HIDDEN = {
    Event.TOLD: "An answer was given.",
    Event.PROMOTED: "A model was promoted.",
    Event.PROMOTION_MISSING: "That a model was promoted came from the journal.",
}
"""Where the reader may not see the details."""


def audit_words(link: AuditLink, names: Mapping[str, str]) -> str:
    """Return a link of the chain as a sentence; what it does not record is "unknown"."""
    told = {key: _value(value) for key, value in link.details.items()}
    details = defaultdict(lambda: "unknown", told)
    if "user" in link.details:
        details["user"] = shown(names.get(str(link.details["user"]), "a former user"), 60)
    if not link.details and link.event in _HIDDEN:
        return _HIDDEN[Event(link.event)]
    if link.event in _SENTENCES:
        return _SENTENCES[Event(link.event)].format_map(details)
    said = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in details.items())
    title = f"{link.event[:1].upper()}{link.event[1:]}"
    return f"{title}: {said}." if said else f"{title}."


def _value(value: Any) -> str:
    if value is None or value == "":
        return "nothing said"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return shown("; ".join(map(_value, value)), 120)
    return shown(str(value), 120)
