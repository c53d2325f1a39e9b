"""Tests that ask a meter: two models of the tutorial's mail filter (docs/embedded.md).

In the folder of the tutorial's files, with the meter in `mail`:

    pytest --meter --meter-folder mail test_mail_filter.py
"""

from __future__ import annotations

import pytest

from easeml_meter.integrations.pytest_plugin import Asked


@pytest.mark.meter(max_band=2)
@pytest.mark.parametrize("version", ["v1", "v3"])
def test_the_validation_loss_can_be_believed(meter: Asked, version: str) -> None:
    # Name a model of your own by its commit: a name is answered once, however often a test runs.
    meter.submit(f"{version}-test.csv", f"{version}-validation.csv", model=version)
