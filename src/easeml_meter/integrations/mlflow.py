"""Reports answers to MLflow: metrics, tags and files of a run, and of a model in the registry."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from easeml_meter.core.views import SessionView, Signal
from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.reporting import Report, json_of, metrics_of, one_line, tags_of
from easeml_meter.report.page import html_page

_REGISTERED = "models:/"


def reporter(where: str) -> Report:
    """Report to a run, by its id, or to a model of the registry (models:/NAME@ALIAS, /VERSION).

    By default, to the run that is active here or that MLFLOW_RUN_ID names, else to a new one.
    """
    try:
        import mlflow
    except ImportError:
        raise InvalidInput("mlflow: it is not installed: pip install mlflow-skinny") from None
    client = mlflow.MlflowClient()
    try:
        target = _target(mlflow, client, where)
    except mlflow.exceptions.MlflowException as error:
        raise InvalidInput(f"mlflow: {one_line(error)}") from None

    def report(signal: Signal, view: SessionView) -> None:
        if target.run:
            _report(client, target, signal, view)
            return
        with mlflow.start_run(run_name=signal.model) as run:
            made = _Target(run.info.run_id, target.model, target.version)
            _report(client, made, signal, view)

    return report


@dataclass(frozen=True)
class _Target:
    """What an answer is written to; without a run, to a new one."""

    run: str | None
    model: str | None = None
    """The id of a logged model (MLflow 3)."""
    version: tuple[str, str] | None = None
    """Name and version in the registry."""


def _target(mlflow: Any, client: Any, where: str) -> _Target:
    if where.startswith(_REGISTERED):
        model = where.removeprefix(_REGISTERED)
        name, at, alias = model.rpartition("@")
        if at:
            found = client.get_model_version_by_alias(name, alias)
        else:
            name, _, number = model.rpartition("/")
            found = client.get_model_version(name, number)
        # A registry in a database knows the logged model only as the source of the version.
        source = (found.source or "").removeprefix(_REGISTERED)
        model_id = found.model_id or (source if source.startswith("m-") else None)
        return _Target(found.run_id or None, model_id, (found.name, str(found.version)))
    active = mlflow.active_run()
    run = where or (active.info.run_id if active else os.environ.get("MLFLOW_RUN_ID"))
    # Asked for now, so that a wrong id costs nothing. Its status is left alone: it may be training.
    return _Target(client.get_run(run).info.run_id if run else None)


def _report(client: Any, target: _Target, signal: Signal, view: SessionView) -> None:
    on_model = {} if target.model is None else {"model_id": target.model}
    for name, value in metrics_of(signal).items():
        client.log_metric(target.run, name, value, step=signal.step, **on_model)
    for name, text in tags_of(signal).items():
        client.set_tag(target.run, name, text)
        if target.version:
            client.set_model_version_tag(*target.version, name, text)
    client.log_text(target.run, json_of(signal), "meter/signal.json")
    client.log_text(target.run, html_page(view), "meter/report.html")
