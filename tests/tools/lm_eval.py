"""lm-evaluation-harness with its dummy model, on local tasks."""

# needs: lm_eval==0.4.13

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from easeml_meter import Gate, Meter, MeterSpec
from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.lm_eval import read
from easeml_meter.integrations.reading import read_both

TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: {kind}
doc_to_text: "{{{{question}}}}"
{rest}
"""
CHOICE = """\
doc_to_choice: ["yes", "no"]
doc_to_target: "{{gold}}"
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]"""
FILTERS = """\
doc_to_target: "{{question}}"
generation_kwargs: {until: ["."]}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
filter_list:
  - {name: strict, filter: [{function: take_first}]}
  - {name: loose, filter: [{function: regex, regex_pattern: "([0-9]+)"}, {function: take_first}]}"""


def harness(folder: Path, out: str, tasks: str, *options: str) -> None:
    command = [sys.executable, "-m", "lm_eval", "run", "--model", "dummy", "--tasks", tasks]
    command += ["--include_path", "tasks", "--log_samples", "-o", out, *options]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    subprocess.run(command, cwd=folder, env=os.environ | offline, check=True, capture_output=True)


def samples(folder: Path, out: str, task: str) -> Path:
    (found,) = (folder / out).rglob(f"samples_{task}_*.jsonl")
    return found


def refusal(path: Path, spec: MeterSpec) -> str:
    try:
        read(path, spec)
    except InvalidInput as error:
        return str(error)
    raise AssertionError(f"{path} was not refused")


def main(folder: Path) -> None:
    (folder / "tasks").mkdir()
    for name, count in (("hidden", 150), ("dev", 60)):
        documents = [
            {"id": f"{name[0]}{at}", "question": str(at), "gold": at % 2} for at in range(count)
        ]
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(each) + "\n" for each in documents))
        (folder / f"{name}.csv").write_text("id\n" + "\n".join(str(d["id"]) for d in documents))
        task = TASK.format(name=name, data=data, kind="multiple_choice", rest=CHOICE)
        (folder / "tasks" / f"{name}.yaml").write_text(task)
    task = TASK.format(name="filters", data=data, kind="generate_until", rest=FILTERS)
    (folder / "tasks" / "filters.yaml").write_text(task)

    harness(folder, "out", "hidden,dev,filters")
    settings = {"edges": [0.4], "tolerance": 0.2, "steps": 2, "delta": 0.1}
    spec = MeterSpec.uniform(**settings, loss="score[0-1]", metric="acc")  # type: ignore[arg-type]
    meter = Meter.create(folder / "meter", spec)
    meter.seal(folder / "hidden.csv", folder / "t.sealed", id_column="id")
    meter.add_test_set(folder / "t.sealed")
    meter.set_validation(folder / "dev.csv", id_column="id")
    logs = samples(folder, "out", "hidden"), samples(folder, "out", "dev")
    assert meter.submit_any(read_both("lm-eval", *logs, spec), model="dummy").band == 1

    gate = Gate(folder / "gate.jsonl", looks=20)
    harness(folder, "again", "hidden")
    again = samples(folder, "again", "hidden")
    assert gate.ask(logs[0], again, name="again").answer == "discard"
    better = [json.loads(line) | {"acc": 1.0} for line in again.read_text().splitlines()]
    again.write_text("".join(json.dumps(line) + "\n" for line in better))
    assert gate.ask(logs[0], again, name="better").answer == "keep"

    filters = samples(folder, "out", "filters")
    assert "several filters" in refusal(filters, spec.replace(metric="exact_match"))
    assert len(read(filters, spec.replace(metric="exact_match,loose")).ids) == 60
    harness(folder, "limited", "hidden", "--limit", "4")
    assert "4 of 150 documents" in refusal(samples(folder, "limited", "hidden"), spec)
    harness(folder, "predicted", "filters", "--predict_only")
    wanted = spec.replace(metric="exact_match,strict")
    assert "no metric" in refusal(samples(folder, "predicted", "filters"), wanted)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
    print(
        "lm-eval: scores and a gate got answers; filters, limits and predictions alone were refused"
    )
