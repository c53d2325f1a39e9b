"""What a runner makes of hidden inputs is an answer, whatever is wrong with it.

A candidate may write a broken file where it meets an input with X. Were that refused, free of
charge, its developer would read off whether X is hidden. So the ways of being broken look the same
to developers, and the same as a model that is merely bad where both get the same answer.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from tests.properties.stories import ROWS, predicted
from tests.properties.test_noninterference_over_http import LOOKS, Side, two_sides
from tests.server.driving import VALIDATION, packed, parquet
from tests.service.helpers import condition_spec, small_spec

from easeml_meter.spec import MeterSpec

GAP = small_spec(signals=2, edges=[0.4], steps=3)
DRAWN = small_spec(signals=1, edges=[], drawn=0.5, steps=3)
PASS = condition_spec(steps=3, passes=1, inputs="hidden")
COMPARED = condition_spec(steps=3, passes=1, inputs="hidden", question="n - o > 0 +/- 0.3")
ALARM = condition_spec(
    steps=3, inputs="hidden", question="alarm", labels=ROWS, alarms=2, delta=0.25
)


def table(guess: Any, **columns: Any) -> pa.Table:
    return pa.table({"id": np.arange(len(guess)), "prediction": guess} | columns)


RIGHT = np.arange(ROWS) % 2
VISIBLE = parquet(table(VALIDATION))
BROKEN: dict[str, Callable[[], dict[str, bytes]]] = {
    "absent": lambda: {"test_csv": b""},
    "unreadable": lambda: {"test_parquet": b"PAR1 and no more"},
    "not unpacked": lambda: {"test_csv.gz": gzip.compress(b"id,prediction\n0,0\n")[:-9]},
    "of no format": lambda: {"test_xyz": parquet(table(RIGHT))},
    "without a row": lambda: {"test_parquet": parquet(table(RIGHT[:-1]))},
    "doubled": lambda: {"test_parquet": parquet(table(np.append(RIGHT, 0), id=[*range(ROWS), 5]))},
    "another id": lambda: {"test_parquet": parquet(table(RIGHT, id=np.arange(1, ROWS + 1)))},
    "no class": lambda: {"test_parquet": parquet(table(RIGHT + 7))},
    "out of range": lambda: {"test_parquet": parquet(table(RIGHT + 0.5))},
    "no column": lambda: {"test_parquet": parquet(pa.table({"id": RIGHT, "a": RIGHT, "b": RIGHT}))},
    "too large": lambda: {"test_csv": b"x" * (3 << 20)},
}


class Handed(Side):
    """A server at which a runner hands in."""

    def hand_in(self, model: str, **files: bytes) -> httpx.Response:
        runner = self.served.client("runner")
        body = packed(**({"validation_parquet": VISIBLE} | files))
        given = {"model": model} | ({"baseline": "true"} if model == "deployed" else {})
        path = f"/meters/{self.meter}/submissions"
        return runner.post(path, params=given, content=body)

    def handed(self, model: str, guess: Any) -> httpx.Response:
        return self.hand_in(model, test_parquet=parquet(predicted(self.spec, guess)))


def all_looks(side: Handed) -> list[dict[str, object]]:
    """Give everything that a developer can look at."""
    return [side.ask("GET", look) for look in LOOKS]


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_file_of_a_runner_is_an_answer(how: str) -> None:
    """It was refused, free, with a reason that counted hidden rows."""
    with two_sides(RIGHT, RIGHT, GAP, Handed, largest_body=2 << 20) as sides:
        told = [
            sides[0].hand_in("m", **BROKEN[how]()),
            sides[1].hand_in("m", **BROKEN["absent"]()),
        ]
        assert [each.status_code for each in told] == [200, 200], told[0].text
        receipts = [each.json() for each in told]
        for receipt in receipts:
            assert (receipt["state"], receipt["signal"], receipt["problem"]) == ("done", None, None)
        if how == "too large":  # nothing was read: the validation loss is 1 as well
            assert sides[0].answers() == ["1"]
            return
        assert [side.answers() for side in sides] == 2 * [["2"]]  # as if wrong on every row
        assert all_looks(sides[0]) == all_looks(sides[1])
        # A broken file was charged once, and its name stands for it.
        again = sides[0].handed("m", RIGHT)
        assert (again.json()["step"], sides[0].answers()) == (1, ["2"])


@pytest.mark.parametrize(
    ("spec", "answer"),
    [(GAP, "2"), (DRAWN, "3"), (PASS, "fail"), (COMPARED, "fail"), (ALARM, "alarm")],
    ids=["gap", "drawn", "pass", "compared", "alarm"],
)
@pytest.mark.parametrize("how", ["absent", "no class"])
def test_a_broken_file_looks_like_a_bad_model(spec: MeterSpec, answer: str, how: str) -> None:
    with two_sides(RIGHT, RIGHT, spec, Handed) as sides:
        first = []
        if spec.compares:
            for side in sides:
                assert side.handed("deployed", RIGHT).status_code == 200
            first = ["baseline"]
        sides[0].handed("m", 1 - RIGHT)
        sides[1].hand_in("m", **BROKEN[how]())
        assert [side.answers() for side in sides] == 2 * [[*first, answer]]
        assert all_looks(sides[0]) == all_looks(sides[1])
        assert sides[0].metrics() == sides[1].metrics()


def test_beside_a_broken_model_nothing_passes() -> None:
    """The first one, that others are compared with, is the same answer whatever it is."""
    with two_sides(RIGHT, RIGHT, COMPARED, Handed) as sides:
        sides[0].handed("deployed", RIGHT)
        sides[1].hand_in("deployed", **BROKEN["no class"]())
        assert all_looks(sides[0]) == all_looks(sides[1])
        for side in sides:
            side.handed("m", RIGHT)
        assert [side.answers() for side in sides] == 2 * [["baseline", "fail"]]
        assert all_looks(sides[0]) == all_looks(sides[1])


def test_a_broken_validation_file_is_an_answer_too() -> None:
    """The same code writes both files, and may have seen the hidden inputs first."""
    with two_sides(RIGHT, RIGHT, GAP, Handed) as sides:
        good = parquet(predicted(GAP, RIGHT))
        sides[0].hand_in("m", test_parquet=good, validation_parquet=b"PAR1")
        sides[1].hand_in("m", test_parquet=b"", validation_parquet=b"")
        assert [side.answers() for side in sides] == 2 * [["1"]]  # wrong on every row it shows
        assert all_looks(sides[0]) == all_looks(sides[1])


def test_what_a_runner_hands_in_is_not_checked_for_free() -> None:
    with two_sides(RIGHT, RIGHT, GAP, Handed) as sides:
        shown = []
        for side, guess in zip(sides, (RIGHT, RIGHT + 7), strict=True):
            body = packed(test_parquet=parquet(table(guess)), validation_parquet=VISIBLE)
            path = f"/meters/{side.meter}/submissions/check"
            refused = side.served.client("runner").post(path, content=body)
            assert (refused.status_code, refused.json()["error"]) == (403, "denied")
            shown.append(refused.json()["message"])
        assert shown[0] == shown[1]
        assert sides[0].answers() == []


@pytest.mark.parametrize(("who", "inputs"), [("developer", "hidden"), ("runner", "public")])
def test_files_of_developers_and_with_public_inputs_are_checked_free(who: str, inputs: str) -> None:
    spec = small_spec(signals=2, edges=[0.4], steps=3, inputs=inputs)
    with two_sides(RIGHT, RIGHT, spec, Handed) as sides:
        client = sides[0].served.client(who)
        for how, files in BROKEN.items():
            if how == "too large":
                continue
            body = packed(**files(), validation_parquet=VISIBLE)
            path = f"/meters/{sides[0].meter}/submissions"
            refused = client.post(path, params={"model": how}, content=body)
            assert refused.status_code == 422, how
        assert sides[0].answers() == []
