"""Reports answers to Weights & Biases, online or offline, as WANDB_MODE says."""

from __future__ import annotations

import os

from easeml_meter.core.views import SessionView, Signal
from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.reporting import Report, metrics_of, tags_of
from easeml_meter.report.page import html_page


def reporter(where: str) -> Report:
    """Report to a run, by its id; by default to the active one or WANDB_RUN_ID's, else to a new."""
    try:
        import wandb
    except ImportError:
        raise InvalidInput("wandb: it is not installed: pip install wandb") from None

    def report(signal: Signal, view: SessionView) -> None:
        run_id = where or os.environ.get("WANDB_RUN_ID")
        active = wandb.run if not where else None
        # By default it would copy all that is printed from here on to its servers.
        quiet = wandb.Settings(console="off", silent=True)
        run = active or wandb.init(
            id=run_id,
            name=None if run_id else signal.model,
            resume="allow" if run_id else None,
            settings=quiet,
        )
        # Its own steps count calls; an answer has the step of the meter.
        run.define_metric("meter/step")
        run.define_metric("meter/*", step_metric="meter/step")
        drawn = {"meter/report": wandb.Html(html_page(view))}
        run.log({"meter/step": signal.step, **metrics_of(signal), **drawn})
        run.summary.update(tags_of(signal))
        if active is None:
            run.finish()

    return report
