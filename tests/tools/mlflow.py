"""Answers in MLflow, read back from a database of its own."""

# needs: mlflow-skinny==3.17.2

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

import mlflow
from tests.service.helpers import make_session

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.mlflow import reporter
from easeml_meter.integrations.reporting import json_of


def main(folder: Path) -> None:
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.set_experiment("mail")
    client = mlflow.MlflowClient()
    session = make_session(folder)
    first, second = session.submit(0, 0, model="a"), session.submit(30, 0, model="b")
    view = session.meter.status()

    with mlflow.start_run() as training:
        reporter("")(first, view)
    run = client.get_run(training.info.run_id)
    assert run.data.metrics["meter/band"] == 1
    assert run.data.metrics["meter/steps_left"] == first.steps_left
    assert run.data.tags["meter.promise"] == first.promise
    path = client.download_artifacts(training.info.run_id, "meter/signal.json", str(folder))
    assert json.loads(Path(path).read_text()) == json.loads(json_of(first))
    files = {each.path for each in client.list_artifacts(training.info.run_id, "meter")}
    assert files == {"meter/signal.json", "meter/report.html"}

    # Another process, while the run goes on: it is not ended.
    open_run = client.create_run(run.info.experiment_id).info.run_id
    os.environ["MLFLOW_RUN_ID"] = open_run
    reporter("")(first, view)
    reporter("")(second, view)
    del os.environ["MLFLOW_RUN_ID"]
    assert client.get_run(open_run).info.status == "RUNNING"
    steps = [(each.step, each.value) for each in client.get_metric_history(open_run, "meter/band")]
    assert steps == [(1, 1), (2, second.band)]

    reporter("")(second, view)
    assert mlflow.last_active_run().data.tags["meter.model"] == "b"

    model = mlflow.initialize_logged_model(name="filter", source_run_id=training.info.run_id)
    mlflow.finalize_logged_model(model.model_id, "READY")
    client.create_registered_model("spam")
    version = client.create_model_version(
        "spam", f"models:/{model.model_id}", training.info.run_id, model_id=model.model_id
    )
    client.set_registered_model_alias("spam", "candidate", version.version)
    for where in ("models:/spam@candidate", f"models:/spam/{version.version}"):
        reporter(where)(second, view)
    found = client.get_model_version("spam", version.version)
    assert found.tags["meter.answer"] == second.name
    logged = {each.key: each.value for each in client.get_logged_model(model.model_id).metrics}
    assert logged["meter/band"] == second.band

    for wrong in ("no-such-run", "models:/spam@nobody", "models:/spam", "models:/other/1"):
        assert refusal(wrong).startswith("mlflow: ")
        assert "\n" not in refusal(wrong)


def refusal(where: str) -> str:
    try:
        reporter(where)
    except InvalidInput as error:
        return str(error)
    raise AssertionError(f"{where} was not refused")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):  # files go to ./mlruns
        main(Path(name))
    print("MLflow has a run, its metrics, tags and files; and a model in the registry")
