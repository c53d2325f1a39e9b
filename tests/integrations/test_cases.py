"""Logs of harnesses as the cases of a gate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integrations.artefacts import FOLDER

from easeml_meter import Gate
from easeml_meter.client.results import Form, read_results
from easeml_meter.errors import InvalidInput

LM_EVAL = next((FOLDER / "lm_eval").glob("samples_hidden_*"))
FILTERS = next((FOLDER / "lm_eval").glob("samples_filters_*"))


@pytest.mark.parametrize(
    ("path", "form", "cases", "right", "score"),
    [
        (FOLDER / "inspect/hidden.json", Form(), 20, 16, "includes"),
        (FOLDER / "inspect/several.json", Form(score="match"), 20, 16, "match"),
        # A sample that failed has no score in the log: it counts as wrong.
        (FOLDER / "inspect/errored.json", Form(), 20, 15, "includes"),
        (LM_EVAL, Form(), 12, 8, "acc"),
        (FOLDER / "promptfoo/hidden.json", Form(), 12, 8, "score"),
        (FOLDER / "promptfoo/hidden.json", Form(reader="promptfoo"), 12, 8, "success"),
    ],
)
def test_logs_of_harnesses(path: Path, form: Form, cases: int, right: int, score: str) -> None:
    found = read_results(path, form, "old")
    assert (len(found.cases), sum(found.cases.values())) == (cases, right)
    assert found.form.score == score


@pytest.mark.parametrize(
    ("path", "form", "said"),
    [
        (FOLDER / "inspect/several.json", Form(), "2 metrics are in it: --score NAME, one of"),
        (FOLDER / "inspect/failed.json", Form(), "the run ended with status"),
        (FILTERS, Form(), "metrics are in it: --score NAME, one of 'exact_match,loose'"),
        (Path("gone.eval"), Form(), "gone.eval: No such file"),
        (LM_EVAL, Form(reader="lm-evil"), "did you mean 'lm-eval'"),
        (LM_EVAL, Form(lower=True), "no --lower-is-better"),
    ],
)
def test_logs_that_are_refused(path: Path, form: Form, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_results(path, form, "new")


def test_a_log_never_names_the_case_that_is_wrong(tmp_path: Path) -> None:
    log = json.loads((FOLDER / "inspect/hidden.json").read_text())
    log["reductions"][0]["samples"][7]["value"] = {"secret": 1}
    (tmp_path / "a.json").write_text(json.dumps(log))
    with pytest.raises(InvalidInput) as refused:
        read_results(tmp_path / "a.json", Form(), "new")
    assert str(refused.value) == "new results: a case stands there twice, or has no single number"


def test_a_sealed_gate_charges_a_log_that_is_broken(tmp_path: Path) -> None:
    """However a candidate breaks its log, all that comes back is a discard."""
    old, log = FOLDER / "inspect/hidden.json", tmp_path / "new.json"
    text = old.read_text()
    broken = [
        *(text[:-9], text.replace('"success"', '"error"', 1), text.replace('"h0"', '"h1"')),
        *(text.replace('"includes"', '"other"'), text.replace('"reductions"', '"reduced"')),
        *((FOLDER / "inspect/limited.json").read_text(), LM_EVAL.read_text(), "", "{" * 10_000),
    ]
    said = set()
    for number, content in enumerate(broken):
        assert content != text
        log.write_text(content)
        gate = Gate(tmp_path / str(number) / "gate.jsonl", looks=3, sealed=True)
        gate.path.parent.mkdir()
        answer = gate.ask(old, log, name="new")
        said.add((answer.answer, answer.answers_left, answer.text[:2], gate.status()["answers"]))
    ((word, left, _, charged),) = said
    assert (word, left, charged) == ("discard", 2, 1)
