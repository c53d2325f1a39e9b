"""A topped-up test set at the command line: the plan, the request, the delivery, the words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.running import run
from tests.service.testsets.test_top_ups import MORE, STEPS, Topped

PLAN = ("plan", "--steps", "10", "--tolerance", "0.01", "--delta", "0.01", "--top-up", "10")


def test_the_plan_shows_both_stages(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *PLAN)
    assert code == 0
    assert "labels needed          52,301" in out
    assert "33,497 labels more, 85,798 in all, for 10 steps more" in out
    _, out, _ = run(capsys, *PLAN, "--json")
    assert json.loads(out)["top_up"] == {"steps": 10, "labels": 85_798, "more_labels": 33_497}
    _, out, _ = run(capsys, *PLAN, "--toml")
    assert out.endswith("[renewal]\nthen = 10\n\n[meter]\ndelta = 0.01\n")


def test_a_meter_asks_for_more_and_answers_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topped = Topped(tmp_path)
    place = ["-C", str(tmp_path / "meter")]
    first = topped.deliver().num_rows
    assert f"{STEPS} steps promised" in run(capsys, "status", *place)[1]
    topped.spend()
    said = " ".join(run(capsys, "status", *place)[1].split())
    assert "gives more once fresh labels join it" in said
    assert f"seal at least {topped.more} labels, fresh and independent, that top it up" in said
    code, _, err = run(capsys, "release", *place)
    assert code != 0
    assert "test set 1 is a part of test set 2: release it when test set 2 is spent, too" in err
    rows = topped.sealed(topped.table(topped.more))
    code, out, _ = run(capsys, "testset", "add", str(rows), *place)
    assert code == 0
    assert f"test set 2 is active: {first + topped.more} rows, {MORE} steps promised" in out
    assert "it has the rows of test set 1, and those that joined" in out
    said = run(capsys, "status", *place)[1]
    assert (
        f"labels: {first + topped.more} in this test set, {topped.more} needed to top it up" in said
    )
    topped.spend()
    said = " ".join(run(capsys, "status", *place)[1].split())
    assert f"seal at least {first} labels, fresh and independent, for test set 3" in said
    _, out, _ = run(capsys, "audit", *place)
    assert "topped up" in out
    for _ in range(2):
        assert run(capsys, "release", *place)[0] == 0
