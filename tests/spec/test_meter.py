"""What a meter may be, and how everything else is refused."""

from __future__ import annotations

import dataclasses
import math
import pickle
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from tests.promise.sums import possible_bands

from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.spec import Band, Gap, MeterSpec, Protocol

PLAIN: dict[str, Any] = {"signals": 3, "tolerance": 0.05, "steps": 10, "delta": 0.01}


def meter(**options: Any) -> MeterSpec:
    return MeterSpec.uniform(**(PLAIN | options))


def bands(*edges_and_tolerances: tuple[float, float, float]) -> tuple[Band, ...]:
    return tuple(Band(*each) for each in edges_and_tolerances)


# --- What is allowed ---

fractions = st.floats(0, 1, exclude_min=True, exclude_max=True)


@st.composite
def specs(draw: st.DrawFn) -> MeterSpec:
    """Any meter that is one, with some of its options."""
    inner = sorted(draw(st.sets(fractions, max_size=5)))
    signals = len(inner) + 1
    tolerated = st.floats(1e-6, 1, exclude_max=True)
    tolerances = sorted(draw(st.lists(tolerated, min_size=signals, max_size=signals)))
    steps = draw(st.integers(2, 50))
    options: dict[str, Any] = {"protocol": draw(st.sampled_from(Protocol))}
    options["loss"] = draw(st.sampled_from(["0-1", "top-5", "squared", "log"]))
    options["gap"] = draw(st.sampled_from(Gap))
    options["ceiling"] = draw(st.none() | st.floats(1e-100, 1, exclude_max=True))
    special: dict[str, dict[str, Any]] = {
        "none": {},
        "tenants": {"tenants": (1, steps - 1), "handover": draw(st.booleans())},
        "reverts": {"reverts": tuple(sorted(draw(st.sets(st.integers(1, steps)))))},
        "memory": {"memory": draw(st.integers(1, 9))},
        "classes": {"classes": ("cat", 3), "inputs": "public"},
    }
    if options["protocol"] in (Protocol.REGULAR, Protocol.INCREMENTAL):
        options |= special[draw(st.sampled_from(sorted(special)))]
    return MeterSpec.uniform(
        signals=signals,
        tolerance=tolerances,
        steps=steps,
        delta=draw(st.floats(1e-12, 0.999)),
        edges=inner,
        **options,
    )


@given(specs(), st.floats(0, 1))
def test_every_gap_falls_into_exactly_one_band(spec: MeterSpec, gap: float) -> None:
    edges = [edge for band in spec.bands for edge in (band.lower, band.upper)]
    for value in [gap, *edges]:
        inside = [band for band in spec.bands if band.lower <= value < band.upper]
        assert inside if value < 1 else not inside  # the last band also holds its upper edge
        assert len(inside) <= 1


@given(specs())
def test_toml_round_trip(spec: MeterSpec) -> None:
    text = tomli_w.dumps(spec.to_mapping())
    assert MeterSpec.from_mapping(tomllib.loads(text)) == spec


def test_a_file_reads_like_this(tmp_path: Path) -> None:
    path = tmp_path / "meter.toml"
    path.write_text(
        """
        [question]
        ask = "gap"
        tolerance = [0.01, 0.02]
        edges = [0.02]
        worst = true

        [budget]
        teams = [4, 6]

        [meter]
        delta = 0.01
        """,
        encoding="utf-8",
    )
    assert MeterSpec.read(path) == MeterSpec(
        bands=bands((0, 0.02, 0.01), (0.02, 1, 0.02)),
        steps=10,
        delta=0.01,
        protocol=Protocol.INCREMENTAL,
        tenants=(4, 6),
    )


def test_names_become_choices() -> None:
    spec = meter(protocol="incremental", gap="signed")
    assert spec.protocol is Protocol.INCREMENTAL
    assert spec.gap is Gap.SIGNED


def test_one_tolerance_is_for_all_bands() -> None:
    assert meter().tolerances == (0.05, 0.05, 0.05)
    assert meter(tolerance=[0.01, 0.01, 2]).tolerances == (0.01, 0.01, 2)


@pytest.mark.parametrize("value", [meter(), Band(0, 1, 0.1)])
def test_nothing_can_be_assigned(value: object) -> None:
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, 0.5)


def test_a_copy_is_validated_again() -> None:
    assert meter().replace(steps=20).steps == 20
    with pytest.raises(InvalidInput):
        meter().replace(steps=0)
    with pytest.raises(InvalidInput):
        meter().with_tolerances((0.3, 0.2, 0.1))


def test_specs_are_values() -> None:
    assert meter() == meter()
    assert len({meter(), meter(), meter(steps=11)}) == 2
    assert meter(tenants=[4, 6]) == meter(tenants=(4, 6))


# --- What is refused: one line that names the field, the value given, and what is allowed ---


def refused(options: dict[str, Any]) -> str:
    with pytest.raises(InvalidInput) as caught:
        meter(**options)
    assert isinstance(caught.value, MeterError)
    message = str(caught.value)
    assert "\n" not in message
    assert " given, " in message
    return message


def shown(value: object) -> str:
    return "nothing" if value is None else repr(value)


@pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5, math.nan, math.inf, -math.inf, "x", True, None])
def test_delta(delta: object) -> None:
    assert refused({"delta": delta}).startswith(f"delta: {shown(delta)} given, ")


@pytest.mark.parametrize("steps", [0, -1, 2.5, 10.0, True, "ten", None, math.nan])
def test_steps(steps: object) -> None:
    assert refused({"steps": steps}).startswith(f"steps: {shown(steps)} given, ")


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ({"signals": 0}, "signals", "0"),
        ({"signals": 2.0}, "signals", "2.0"),
        ({"loss": ""}, "loss", "''"),
        ({"loss": 1}, "loss", "1"),
        ({"protocol": "irregular"}, "protocol", "'irregular'"),
        ({"protocol": None}, "protocol", "nothing"),
        ({"inputs": "shown"}, "inputs", "'shown'"),
        ({"classes": ("cat", "dog", "cat")}, "classes", "['cat', 'dog', 'cat']"),
        ({"classes": ("cat", ["dog"])}, "classes", "['cat', ['dog']]"),
        # ceiling
        ({"ceiling": 0}, "ceiling", "0"),
        ({"ceiling": 1.0}, "ceiling", "1.0"),
        ({"ceiling": -0.1}, "ceiling", "-0.1"),
        ({"ceiling": 1e-320}, "ceiling", "1e-320"),
        ({"ceiling": math.nan}, "ceiling", "nan"),
        ({"ceiling": "low"}, "ceiling", "'low'"),
        # tolerances and edges
        ({"tolerance": 0}, "tolerance", "0"),
        ({"tolerance": -0.1}, "tolerance", "-0.1"),
        ({"tolerance": 1}, "tolerance", "1"),
        ({"tolerance": math.inf}, "band tolerance", "inf"),
        ({"tolerance": "small"}, "tolerance", "['s', 'm', 'a', 'l', 'l']"),
        ({"tolerance": None}, "band tolerance", "nothing"),
        ({"tolerance": True}, "band tolerance", "True"),
        ({"tolerance": (0.1, 0.2)}, "tolerance", "[0.1, 0.2]"),
        ({"tolerance": (0.1, 0.3, 0.2)}, "tolerance", "'0.3 then 0.2'"),
        ({"edges": (0.5,)}, "edges", "[0.5]"),
        ({"edges": (0.5, 0.5)}, "edges", "[0.5, 0.5]"),
        ({"edges": (0.5, 0.2)}, "edges", "[0.5, 0.2]"),
        ({"edges": (0.5, 1.5)}, "band", "'[0.5, 1.5)'"),
        ({"edges": (-0.5, 0.5)}, "band", "'[0.0, -0.5)'"),
        ({"edges": (math.nan, 0.5)}, "band upper", "nan"),
        # bands
        ({"bands": ()}, "bands", "'none'"),
        ({"bands": (0.1, 0.2)}, "bands", "(0.1, 0.2)"),
        ({"bands": bands((0.1, 1, 0.1))}, "bands", "'first band starts at 0.1'"),
        ({"bands": bands((0, 0.9, 0.1))}, "bands", "'last band ends at 0.9'"),
        (
            {"bands": bands((0, 0.4, 0.1), (0.5, 1, 0.1))},
            "bands",
            "'gap between 0.4 and 0.5'",
        ),
        (
            {"bands": bands((0, 0.6, 0.1), (0.5, 1, 0.1))},
            "bands",
            "'overlap between 0.6 and 0.5'",
        ),
        # tenants
        ({"tenants": (4, 5)}, "tenants", "'4,5'"),
        ({"tenants": (0, 10)}, "tenants", "0"),
        ({"tenants": (2.5, 7.5)}, "tenants", "2.5"),
        ({"tenants": "55"}, "tenants", "'55'"),
        ({"handover": True}, "handover", "True"),
        ({"tenants": (4, 6), "memory": 1}, "tenants", "'4,6'"),
        ({"tenants": (4, 6), "reverts": (1,)}, "tenants", "'4,6'"),
        ({"tenants": (4, 6), "protocol": "independent"}, "tenants", "'with the independent"),
        # reverts
        ({"reverts": (11,)}, "reverts", "11"),
        ({"reverts": (0,)}, "reverts", "0"),
        ({"reverts": (5, 3)}, "reverts", "3"),
        ({"reverts": (1, 1)}, "reverts", "1"),
        ({"reverts": (1, 2.0)}, "reverts", "2.0"),
        ({"reverts": (1,), "memory": 2}, "reverts", "'with memory'"),
        ({"reverts": (1,), "protocol": "resampling"}, "reverts", "'with the resampling"),
        # memory
        ({"memory": -1}, "memory", "-1"),
        ({"memory": 1.5}, "memory", "1.5"),
        # the published analysis
        ({"published": True, "ceiling": 0.1}, "ceiling", "0.1"),
        ({"published": True, "memory": 0}, "memory", "0"),
        ({"gap": "relative"}, "gap", "'relative'"),
        # drawn edges
        ({"drawn": 0}, "drawn", "0.0"),
        ({"drawn": 1.5}, "drawn", "1.5"),
        ({"drawn": math.nan}, "drawn", "nan"),
        ({"drawn": "wide"}, "drawn", "'wide'"),
        ({"drawn": 0.1234567}, "drawn", "0.1234567"),
        ({"drawn": 0.2, "tolerance": (0.1, 0.2, 0.2)}, "tolerance", "[0.1, 0.2, 0.2]"),
    ],
)
def test_refused(options: dict[str, Any], field: str, value: str) -> None:
    if "bands" in options:
        with pytest.raises(InvalidInput) as caught:
            MeterSpec(steps=10, delta=0.01, **options)
        message = str(caught.value)
        assert "\n" not in message
    else:
        message = refused(options)
    assert message.startswith(f"{field}: {value}")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"protocol": "incremental"}, "the incremental protocol"),
        ({"protocol": "independent"}, "the independent protocol"),
        ({"reverts": (1,)}, "reverts"),
        ({"memory": 0}, "memory"),
        ({"published": True}, "published"),
        ({"count": "all"}, 'count = "all"'),
        ({"ceiling": 0.5}, "ceiling"),
    ],
)
def test_drawn_edges_are_refused_by_name_where_no_proof_stands(
    options: dict[str, Any], named: str
) -> None:
    assert f"not with {named}:" in refused({"drawn": 0.2} | options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"protocol": "incremental"}, "the incremental protocol"),
        ({"reverts": (1,)}, "reverts"),
        ({"memory": 0}, "memory"),
        ({"published": True}, "published"),
        ({"count": "all"}, 'count = "all"'),
        ({"ceiling": 0.2}, "ceiling"),
        ({"tenants": (4, 6)}, "tenants"),
        ({"loss": "brier"}, "the loss brier"),
        ({"loss": "f1[1]"}, "the loss f1[1]"),
    ],
)
def test_a_window_is_refused_by_name_where_no_proof_stands(
    options: dict[str, Any], named: str
) -> None:
    assert f"not with {named}:" in refused({"window": 3} | options)


def test_a_window_has_one_tolerance_and_asks_for_the_gap() -> None:
    tolerances = [0.01, 0.02, 0.03]
    assert "not with unequal tolerances:" in refused({"window": 3, "tolerance": tolerances})
    with pytest.raises(InvalidInput, match=r'not with the question "n > 0\.8'):
        MeterSpec(bands=(), question="n > 0.8 +/- 0.1", steps=3, delta=0.1, window=3)
    assert "only with a window" in refused({"submissions": 2})
    for options in ({"window": 0}, {"window": 2.5}, {"window": 3, "submissions": 0}):
        assert refused(options)


def test_drawn_edges_take_the_place_of_the_bands(tmp_path: Path) -> None:
    spec = meter(drawn=0.2, tenants=(4, 6))
    assert spec.bands == (Band(0, 1, 0.05),)
    spec.write(tmp_path / "meter.toml")
    assert MeterSpec.read(tmp_path / "meter.toml") == spec


@pytest.mark.parametrize(
    "options",
    [
        {"tenants": 10},
        {"reverts": 3},
        {"published": "no"},
        {"handover": "no", "tenants": (4, 6)},
    ],
)
def test_a_value_of_the_wrong_type_is_refused_too(options: dict[str, Any]) -> None:
    """A meter.toml is written by hand: `tenants = 10` or `handover = "no"` will come."""
    refused(options)


@pytest.mark.parametrize("field", ["lower", "upper", "tolerance"])
@pytest.mark.parametrize("value", [math.nan, math.inf, "0.1", True, None])
def test_band(field: str, value: object) -> None:
    edges: dict[str, Any] = {"lower": 0, "upper": 1, "tolerance": 0.1} | {field: value}
    with pytest.raises(InvalidInput, match=rf"^band {field}: .* given, a finite number needed$"):
        Band(**edges)


# --- Files ---


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps = = 10", "not a valid TOML file"),
        (f"a = {'[' * 2000}", "nested too deeply"),
        (f"a = {'9' * 5000}", "not a valid TOML file"),
        ("", "question.ask: nothing given, gap, alarm, keep, or a condition"),
        ("question = 3", "question: 3 given, a table: [question]"),
        ('question = {ask = "gap", tolerance = 1e-12}', "0.000001 to below 1"),
        ('question = {ask = "gap", edges = 0.1}', "question.edges: Expected `array | null`"),
        ('question = {ask = "gap", edges = [0.1, 1]}', "edges: 1 given, below 1 needed"),
        ('question = {ask = "gap", worse = true}', "'worse' is no setting: did you mean 'worst'?"),
        ('question = {ask = "gap", than = "kept"}', "which has tolerance, edges, drawn"),
        ('question = {ask = "better"}', 'write "n - o > 0 +/- 0.02", and than = "kept"'),
        ('question = {ask = "n > 0.8 +/- 0.1", than = "kept"}', 'ask = "n - o > 0 +/- 0.02" alone'),
        ('question = {ask = "keep"}', "no meter has it yet"),
        ('question = {ask = "alarm"}', "labels: nothing given"),
        ('question = {ask = "gap"}\nbudget = {steps = 0}', "steps: 0 given, at least 1 needed"),
        ('question = {ask = "gap"}\nbudget = {steps = 2020-01-01}', "budget.steps: Expected"),
        ('question = {ask = "gap"}\nbudget = {teams = [5, 5], steps = 9}', "not with teams"),
        ('question = {ask = "gap"}\nbudget = {handover = true}', "only with teams = [5, 5]"),
        ('question = {ask = "gap"}\nbudget = {steps = "no end"}', "no meter has it yet"),
        ('question = {ask = "gap"}\nsample = {loss = 0.5}', "sample.loss: Expected `str`"),
        ('question = {ask = "gap"}\nmeter = {delta = nan}', "meter.delta: 'nan' given"),
        ('question = {ask = "gap"}\nmeter = {colour = 1}', "did you mean [sample] cluster?"),
        ('question = {ask = "gap"}\nmeter = {xyz = 1}', "known: [question], [budget]"),
        ("[extra]\nkey = 1", "'extra' is no table: "),
    ],
)
def test_a_file_that_is_no_meter(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "meter.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as caught:
        MeterSpec.read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert words in message
    assert "\n" not in message


def test_what_is_no_file(tmp_path: Path) -> None:
    for name, why in (("none.toml", "No such file"), ("", "Is a directory")):
        with pytest.raises(InvalidInput, match=rf"{name}: cannot be read \({why}"):
            MeterSpec.read(tmp_path / name)


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\x00\xff", b"\x00\x01\x02", b"\xff\xfe"])
def test_a_binary_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "meter.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"meter\.toml: not a valid TOML file: [^\n]+$"):
        MeterSpec.read(path)


@pytest.mark.parametrize(
    ("tolerance", "edges"),
    [
        (0.01, (0.005, 0.025, 0.05, 0.1, 0.2, 0.4)),
        (0.010001, (0.01, 0.035, 0.07, 0.14, 0.28)),
        (0.05, (0.025, 0.125, 0.25)),
        (0.051, (0.03, 0.135, 0.27)),
        (0.14, (0.07, 0.35)),
        (0.5, (0.25,)),
        (1e-6, (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)),
    ],
)
def test_default_bands_begin_at_half_a_tolerance_and_cost_nothing(
    tolerance: float, edges: tuple[float, ...]
) -> None:
    spec = MeterSpec.uniform(tolerance=tolerance)
    assert spec.edges == edges
    assert spec.has_default_edges
    assert possible_bands(spec) == 2
    for costly in ({"protocol": "incremental"}, {"memory": 2}):
        other = MeterSpec.uniform(tolerance=tolerance, **costly)
        assert other.edges == edges[:1]
        assert other.has_default_edges


def test_bands_are_equally_wide_where_their_number_is_given() -> None:
    common: dict[str, Any] = {"steps": 10, "delta": 0.01}
    assert MeterSpec.uniform(signals=4, tolerance=0.01, **common).edges == (0.25, 0.5, 0.75)
    assert MeterSpec.uniform(tolerance=[0.01, 0.02], **common).edges == (0.5,)
    assert MeterSpec.uniform(tolerance=0.01, edges=(0.3,), **common).edges == (0.3,)


@pytest.mark.parametrize("options", [{}, {"drawn": 0.2}])
def test_equal_meters_have_one_hash_in_every_process(options: dict[str, Any]) -> None:
    """Checks settle settings on the way, and another process hashes texts in another way."""
    given: dict[str, Any] = {"tolerance": 0.1, "steps": 3, "delta": 0.1} | options
    spec, same = MeterSpec.uniform(**given), MeterSpec.uniform(**given)
    assert hash(spec) == hash(same) == hash(MeterSpec.from_mapping(spec.to_mapping()))
    assert spec.tolerances == tuple(band.tolerance for band in spec.bands)
    assert len({spec, same, spec.replace(steps=4)}) == 2
    sent = pickle.dumps(spec)
    assert b"_hash" not in sent
    assert pickle.loads(sent) == spec  # noqa: S301 - made above
