"""What a developer can observe over HTTP is a function of the signal history alone.

Two servers differ in nothing but the labels of their test sets. The same developer drives both,
side by side. As long as the signals are the same, everything else must be, byte for byte: status
codes, headers, bodies, events, pictures, files, counts, what is logged and traced, and the
statements that the books are asked; ids and times aside.
"""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.stories import (
    INPUTS_SEED,
    JUDGE,
    ROWS,
    STRATA,
    Action,
    Story,
    measured_story,
    one_secret,
    patient,
    predicted,
    sealed_rows,
    stories,
    visible_rows,
)
from tests.server.driving import (
    VALIDATION,
    add,
    packed,
    parquet,
    predictions,
    sealed,
)
from tests.server.helpers import Served, serve
from tests.service.helpers import Clock, Labels, rows, small_spec

from easeml_meter.spec import MeterSpec
from easeml_meter.tables.choosing import NO_LABEL

IDS = re.compile(r"[0-9a-f]{16,64}|age1[0-9a-z]{58}")
_CLOCKS = re.compile(
    r"(meter_(start_time_seconds|request_seconds_(bucket|sum))|process_[a-z_]+)[ {].*\n"
)
"""Clocks, and the memory and files of one process that serves both sides in turn."""
LOOKS = (
    "",
    "/status",
    "/history",
    "/signals",
    "/submissions",
    "/report.html",
    "/report.svg",
    "/badge.svg",
    "/audit",
    "/test-sets",
    "/test-sets/1",
    "/test-sets/1/inputs",
    "/test-sets/1/released/testset.parquet",
    "/validation-sets",
    "/validation-sets/1/file",
    "/notices",
    "/requests",
)


class Lines(logging.Handler):
    """Keeps what is logged, without how long things took."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields = dict(getattr(record, "fields", {}))
        fields.pop("ms", None)
        self.lines.append(IDS.sub("<id>", f"{record.levelname} {record.getMessage()} {fields}"))


@contextmanager
def statements() -> Iterator[list[str]]:
    """Write down what the books are asked: what is done in the same steps takes as long.

    The time itself depends on the machine.
    """
    executed: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        executed.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield executed
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


@dataclass
class Side:
    """One of the two servers, and what its developer sees."""

    served: Served
    folder: Path
    labels: Labels
    spec: MeterSpec
    last: bytes = b""
    lines: Lines = field(default_factory=Lines)

    def __post_init__(self) -> None:
        self.meter = self.served.add_meter(self.spec)
        self.developer = self.served.client("developer")
        visible = visible_rows(self.spec, VALIDATION, seed=7)
        address = f"/meters/{self.meter}/validation-sets"
        given = {"label": "label"}
        assert self.developer.post(address, params=given, content=parquet(visible)).is_success
        table = sealed_rows(self.spec, self.labels)
        clock = self.served.site.clock
        with one_secret():
            label = NO_LABEL if self.spec.on_demand else "label"
            content = sealed(self.served, self.meter, table, self.folder, clock=clock, label=label)
        assert add(self.served.client("labeler"), self.meter, content).is_success

    def ask(self, method: str, path: str, **options: Any) -> dict[str, object]:
        """Ask as the developer does; give everything that comes back."""
        logger = logging.getLogger("easeml_meter")
        logger.addHandler(self.lines)
        level = logger.level
        logger.setLevel(logging.DEBUG)
        self.lines.lines.clear()
        try:
            with statements() as executed:
                answer = self.send(method, path, **options)
        finally:
            logger.removeHandler(self.lines)
            logger.setLevel(level)
        return {
            "status": answer.status_code,
            "headers": [(name, IDS.sub("<id>", value)) for name, value in answer.headers.items()],
            "body": IDS.sub("<id>", answer.content.decode("latin-1")),
            "log": list(self.lines.lines),
            "work": executed,
        }

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send the developer's request."""
        return self.developer.request(method, f"/meters/{self.meter}{path}", **options)

    def metrics(self) -> str:
        """Read all that is counted, as someone on the server's machine may, without clocks."""
        client = self.served.client_from("127.0.0.1")
        return _CLOCKS.sub("", client.get("http://server/metrics").text)

    def answers(self) -> list[str]:
        """Give the signal history."""
        found: httpx.Response = self.developer.get(f"/meters/{self.meter}/history")
        return [signal["answer"] for view in found.json()["items"] for signal in view["signals"]]


@contextmanager
def two_sides(
    first: Labels, second: Labels, spec: MeterSpec, kind: type[Any] = Side, **settings: Any
) -> Iterator[list[Any]]:
    with ExitStack() as stack:
        sides = []
        for labels in (first, second):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            free = serve(folder / "site", clock=Clock(), requests_per_second=0, **settings)
            sides.append(kind(stack.enter_context(free), folder, labels, spec))
        yield sides


def perform(side: Side, action: Action, number: int) -> dict[str, object]:
    """Do on one side what the developer decided to do."""
    kind, detail = action
    if kind in ("submit", "check"):
        guess, errors = detail
        validation = VALIDATION.copy()
        validation[:errors] ^= 1
        body = packed(
            test_parquet=parquet(predicted(side.spec, np.array(guess), str(number))),
            validation_parquet=parquet(predicted(side.spec, validation, str(number))),
        )
        if kind == "check":
            return side.ask("POST", "/submissions/check", content=body)
        side.last = body
        noted = {"note": f"note {number}", "link": "https://example.org/1"}
        if side.spec.compares and not side.answers():
            noted["baseline"] = "true"
        return side.ask("POST", "/submissions", params={"model": "m", **noted}, content=body)
    if kind == "repeat":
        return side.ask("POST", "/submissions", params={"model": "m"}, content=side.last)
    if kind == "bad":
        name, body = bad_submission(detail)
        return side.ask("POST", "/submissions", params={"model": name}, content=body)
    if kind == "validation":
        content = parquet(visible_rows(side.spec, np.zeros(20, dtype=np.int64), seed=detail))
        return side.ask("POST", "/validation-sets", content=content)
    if kind == "events":
        listed = side.developer.get(f"/meters/{side.meter}/submissions").json()["items"]
        newest = listed[0]["id"] if listed else "0" * 32
        return side.ask("GET", f"/submissions/{newest}/events")
    return side.ask("GET", detail)


def bad_submission(kind: str) -> tuple[str, bytes]:
    """Make a submission that must be refused before a label is touched."""
    guess = np.zeros(ROWS - (kind == "short"), dtype=np.int64)
    if kind == "class":
        guess[3] = 9
    ids = np.arange(len(guess)) + (kind == "ids")
    test = parquet(pa.table({"id": ids, "prediction": guess}))
    body = packed(test_parquet=test, validation_parquet=predictions(VALIDATION))
    return ("x" * 10_000 if kind == "name" else "bad"), (b"x" if kind == "tar" else body)


@dataclass(frozen=True)
class ToldOverHttp(Story):
    """A story at two servers."""

    def play(self, kind: type[Side] = Side) -> list[str] | None:
        """Do it on both sides, and compare; return the signals, None if they came to differ."""
        with two_sides(*self.both, self.spec, kind) as sides:
            for number, action in enumerate(self.todo):
                shown = [perform(side, action, number) for side in sides]
                if sides[0].answers() != sides[1].answers():
                    return None  # the signals differ: from here on everything may
                assert shown[0] == shown[1]
                assert sides[0].metrics() == sides[1].metrics()
            for look in LOOKS:
                seen = [side.ask("GET", look) for side in sides]
                assert seen[0] == seen[1]
            answers: list[str] = sides[0].answers()
            return answers


told = stories(
    ToldOverHttp,
    st.tuples(st.just("events"), st.none()),
    validation=20,
    bad=("short", "class", "ids", "name", "tar"),
    looks=LOOKS,
)


@given(story=told)
@settings(patient, max_examples=8)
def test_equal_signals_look_equal(story: ToldOverHttp) -> None:
    story.play()


@pytest.mark.verify
@given(story=told)
@settings(patient, max_examples=200)
def test_equal_signals_look_equal_in_many_stories(story: ToldOverHttp) -> None:
    story.play()


@pytest.mark.parametrize(
    "measured",
    ["precision[1]", "auc[1]", "roc[1]", "macro-recall", "weighted[0.4,0.6]", JUDGE, STRATA],
)
def test_scores_and_estimates_show_nothing_but_their_answers(measured: str) -> None:
    story = measured_story(ToldOverHttp, measured)
    assert story.play() == ["1", "2", {"precision[1]": "too-few", STRATA: "1"}.get(measured, "2")]


def test_a_validation_set_made_of_test_rows_looks_like_any_other() -> None:
    labels = np.random.default_rng(0).integers(0, 2, ROWS)
    with two_sides(labels, labels, small_spec(inputs="public")) as sides:
        probes = [rows(labels, seed=seed).slice(0, 20) for seed in (INPUTS_SEED, 77)]
        shown = []
        for side, probe in zip(sides, probes, strict=True):
            shown.append(side.ask("POST", "/validation-sets", content=parquet(probe)))
        assert shown[0] == shown[1]
        looks = [look for look in LOOKS if not look.startswith("/validation-sets")]
        for look in looks:
            seen = [side.ask("GET", look) for side in sides]
            assert seen[0] == seen[1]


def test_a_check_does_not_depend_on_the_labels_at_all() -> None:
    labels = np.random.default_rng(3).integers(0, 2, ROWS)
    with two_sides(labels, 1 - labels, small_spec()) as sides:
        for guess in (labels, 1 - labels, np.zeros(ROWS, dtype=np.int64)):
            shown = [perform(side, ("check", (guess.tolist(), 3)), 0) for side in sides]
            assert shown[0] == shown[1]
            assert shown[0]["status"] == 200
            assert '"validation_loss":0.15' in str(shown[0]["body"])


def test_the_comparison_sees_a_difference() -> None:
    """Two servers whose signals differ do not look the same to it."""
    labels = np.zeros(ROWS, dtype=np.int64)
    with two_sides(labels, 1 - labels, small_spec(inputs="public")) as sides:
        shown = [perform(side, ("submit", ([0] * ROWS, 0)), 0) for side in sides]
        assert shown[0] != shown[1]
        seen = [side.ask("GET", "/status") for side in sides]
        assert seen[0] != seen[1]
        assert sides[0].metrics() == sides[1].metrics()
