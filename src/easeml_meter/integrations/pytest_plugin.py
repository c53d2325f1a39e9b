"""A plugin of pytest: tests that ask a meter, off unless `--meter` is given.

pytest imports it in every run of anybody who has this package installed. So it imports nothing but
pytest until a test asks for the meter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from easeml_meter.core.gate import Gate
    from easeml_meter.core.views import Signal
    from easeml_meter.meter import MeterVerbs

Found = TypeVar("Found")

_OFF = "spends an answer of a test set: run with --meter"
_MARKER = (
    "meter(max_band=None, most_loss=None): asks a meter, only with --meter; fails if the answer is "
    "a higher band, or if no true loss that low is promised."
)
_PLACES = {
    "folder": "Folder of the meter. Default: METER_FOLDER.",
    "server": "Address of a server. Default: METER_SERVER. The token is METER_TOKEN's.",
    "name": "Name or id of the meter on the server. Default: METER_NAME, or the only one.",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --meter and where the meter is."""
    group = parser.getgroup("meter", "overfitting meter")
    group.addoption("--meter", action="store_true", help="Run the tests that ask a meter.")
    for name, words in _PLACES.items():
        group.addoption(f"--meter-{name}", metavar=name.upper(), help=words)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, so that --strict-markers takes it."""
    config.addinivalue_line("markers", _MARKER)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a marked test before any of its fixtures spends something."""
    if item.get_closest_marker("meter") and not item.config.getoption("--meter"):
        pytest.skip(_OFF)


@pytest.fixture
def meter(request: pytest.FixtureRequest) -> Iterator[Asked]:
    """Return the meter of --meter-folder or --meter-server; its answers pass or fail the test."""
    if not request.config.getoption("--meter"):
        pytest.skip(_OFF)
    marker = request.node.get_closest_marker("meter")
    gate = None if marker is None else _plainly(lambda: _asked_by(marker))
    opened = _plainly(lambda: _open(request.config))
    try:
        yield Asked(opened, gate, request.node.user_properties)
    finally:
        opened.close()


class Asked:
    """A meter in a test: each answer is recorded with the test, and judged by its marker.

    A name that was answered before is not charged again, so a test may be repeated. Everything
    but the three verbs that are answered is the meter's own.
    """

    def __init__(
        self, meter: MeterVerbs, gate: Gate | None, properties: list[tuple[str, object]]
    ) -> None:
        self._meter, self._gate, self._properties = meter, gate, properties

    def __getattr__(self, name: str) -> Any:
        return getattr(self._meter, name)

    def submit(self, *given: Any, once: bool = True, **options: Any) -> Signal:
        """Submit predictions, as `Meter.submit` does."""
        return self._judged(self._meter.submit, *given, once=once, **options)

    def submit_any(self, *given: Any, once: bool = True, **options: Any) -> Signal:
        """Submit predictions or a model, as `Meter.submit_any` does."""
        return self._judged(self._meter.submit_any, *given, once=once, **options)

    def evaluate(self, *given: Any, once: bool = True, **options: Any) -> Signal:
        """Let an estimator predict on both sets, as `Meter.evaluate` does."""
        return self._judged(self._meter.evaluate, *given, once=once, **options)

    def _judged(self, verb: Callable[..., Signal], *given: Any, **options: Any) -> Signal:
        from easeml_meter.core.gate import Gate

        limits = self._gate
        if limits is not None:  # one that this question cannot have is found before it costs
            _plainly(lambda: limits.check(self._meter.spec))
        signal = _plainly(lambda: verb(*given, **options))
        for name in ("step", "generation", "steps_left", "repeated"):
            self._properties.append((f"meter.{name}", getattr(signal, name)))
        self._properties.append(("meter.answer", signal.name))
        # A meter that answers pass or fail is a gate by itself.
        gate = limits or (None if not signal.spec.meter.question.verdict else Gate())
        if gate is not None:
            verdict = gate.judge(signal)
            if not verdict.passed:
                pytest.fail(f"{verdict.sentence}. {signal.promise}", pytrace=False)
        return signal


def _plainly(work: Callable[[], Found]) -> Found:
    """Fail the test with one line, where the meter refuses."""
    from easeml_meter.errors import MeterError

    try:
        return work()
    except MeterError as error:
        pytest.fail(f"{error.word}: {error}", pytrace=False)


def _asked_by(marker: pytest.Mark) -> Gate | None:
    """Return the gate of a marker; a limit that is not understood must not let a model pass."""
    from easeml_meter.errors import invalid

    try:
        return _gate(*marker.args, **marker.kwargs)
    except TypeError:
        given = map(repr, marker.args), (f"{name}={each!r}" for name, each in marker.kwargs.items())
        words = ", ".join(chain(*given))
        raise invalid("meter marker", words, "numbers max_band or most_loss needed") from None


def _gate(max_band: int | None = None, most_loss: float | None = None) -> Gate | None:
    from easeml_meter.core.gate import Gate

    return None if (max_band, most_loss) == (None, None) else Gate(max_band, most_loss)


def _open(config: pytest.Config) -> MeterVerbs:
    from easeml_meter.client import connect
    from easeml_meter.errors import invalid
    from easeml_meter.meter import Meter

    folder, server, name = (config.getoption(f"--meter-{each}") for each in _PLACES)
    if not (folder or server):
        folder, server = os.environ.get("METER_FOLDER"), os.environ.get("METER_SERVER")
    if bool(folder) == bool(server):
        given = "a folder and a server" if folder else "nothing"
        raise invalid("meter", given, "give --meter-folder FOLDER or --meter-server URL")
    if server:
        named = name or os.environ.get("METER_NAME")
        return connect(server, named, ca=os.environ.get("METER_CA"))
    return Meter.open(folder)
