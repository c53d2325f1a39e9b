"""What the meter understands of a submission that was checked and not submitted, in words."""

from __future__ import annotations

from typing import Any

from easeml_meter.core.submissions import CheckedFile, CheckedSubmission
from easeml_meter.report.words import loss_name, measured_words, shown
from easeml_meter.spec import MeterSpec

_MOST_CLASSES = 20
_LONGEST = 40


def checked_lines(checked: CheckedSubmission, spec: MeterSpec) -> list[str]:
    """Say how a submission was understood and what it would cost, line by line."""
    files = {"Test predictions": checked.test, "Validation predictions": checked.validation}
    lines = [f"{name}: {_file(file)}" for name, file in files.items() if file is not None]
    if checked.classes:
        some = ", ".join(shown(str(each), _LONGEST) for each in checked.classes[:_MOST_CLASSES])
        more = f", and {len(checked.classes) - _MOST_CLASSES:,} more"
        order = some + (more if len(checked.classes) > _MOST_CLASSES else "")
        lines.append(f"Classes, in this order: {order}.")
    if spec.meter.sample.measured.curve:
        lines.append("The ROC curve on the test set is compared with that on the validation set.")
    elif checked.validation_loss is not None:
        name, loss = loss_name(spec), measured_words(spec, checked.validation_loss)
        lines.append(f"Validation {name}: {loss}.")
    else:
        lines.append("The model is run on the validation set when it is submitted.")
    if checked.repeated:
        lines.append("It was answered before: submitting it again costs nothing.")
    elif checked.baseline:
        lines.append("Others will be compared with it (--baseline): submitting it uses no answer.")
    else:
        lines.append(
            f"Submitting it uses answer {checked.answer:,} of {checked.answers:,} from test set "
            f"{checked.generation}."
        )
    return [*lines, "This check was free: no label of the test set was touched."]


def _file(file: CheckedFile) -> str:
    rows = f"{file.rows:,} rows"
    if file.matched is not None:
        rows += f", {file.matched:,} matched by id"
    if file.missing:
        rows += f", {file.missing:,} missing, which count as wrong"
    first = "; ".join(shown(_prediction(each), 2 * _LONGEST) for each in file.first)
    return f"{rows}; the first are read as {first}."


def _prediction(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return " ".join(f"{name}={_prediction(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return " > ".join(map(_prediction, value))
    if value == "":
        return "an empty text"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
