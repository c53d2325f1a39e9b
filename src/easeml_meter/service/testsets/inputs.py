"""The inputs of a test set, without labels: developers see them only if the meter says public."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from easeml_meter.core.history import MeterState
from easeml_meter.core.model import TestSet
from easeml_meter.errors import Denied, WrongPhase
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.writing import write_table
from easeml_meter.vault.sealing import SealedTestSet


def inputs_visible(spec: MeterSpec, actor: Actor) -> bool:
    """Whether an actor may see test inputs: by role, or because the meter says public.

    Public inputs are as good as the validation set, so whoever may see that may see them.
    """
    by_role = actor.may(Permission.SEE_TEST_INPUTS)
    return actor.may(Permission.SEE_VALIDATION) and inputs_told(spec, by_role=by_role)


def inputs_told(spec: MeterSpec, *, by_role: bool) -> bool:
    """Whether somebody who may see the validation set is told of test inputs, too."""
    return by_role or spec.meter.sample.inputs == "public"


@needs(Permission.SEE_TEST_INPUTS, Permission.SEE_VALIDATION)
def export_inputs(actor: Actor, space: Workspace, destination: Path) -> int:
    """Write ids and inputs of the test set in use to a file; return the number of rows.

    The format is the one that the name of the file says.

    Raises:
        Denied: the actor may not see test inputs, and the meter does not say public.
        InvalidInput: the name says no format that is written, or one that cannot hold the inputs.
        WrongPhase: no test set is in use.
    """
    test_set = _visible_state(actor, space).active()
    with open_sealed(space, test_set) as sealed:
        schema = _visible_columns(sealed)
        return write_table(destination, schema, sealed.batches(schema.names))


@needs(Permission.SEE_TEST_INPUTS, Permission.SEE_VALIDATION)
def stream_inputs(actor: Actor, space: Workspace, number: int) -> Iterator[bytes]:
    """Return ids and inputs of a delivered test set as the bytes of a Parquet file.

    Raises:
        Denied: the actor may not see test inputs, and the meter does not say public.
        NotFound: there is no test set of that number.
        WrongPhase: it was not delivered yet.
    """
    # This is no generator itself: an answer that has begun could not be refused any more.
    test_set = _visible_state(actor, space).numbered(number)
    if test_set.rows is None:
        raise WrongPhase(f"test set {number} was not delivered yet")
    return _pieces(space, test_set)


def _visible_state(actor: Actor, space: Workspace) -> MeterState:
    state = space.read_state()
    if not inputs_visible(state.spec, actor):
        raise Denied(
            f"{actor.role}s may not {Permission.SEE_TEST_INPUTS}: the meter does not say public"
        )
    return state


def _pieces(space: Workspace, test_set: TestSet) -> Iterator[bytes]:
    """Write a Parquet file a row group at a time: no more than one is ever decrypted."""
    import pyarrow.parquet as pq

    with open_sealed(space, test_set) as sealed:
        schema = _visible_columns(sealed)
        sink = io.BytesIO()
        with pq.ParquetWriter(sink, schema) as writer:
            for batch in sealed.batches(schema.names):
                writer.write_batch(batch)
                yield _taken_from(sink)
        yield _taken_from(sink)


def _visible_columns(sealed: SealedTestSet) -> pa.Schema:
    return pa.schema([field for field in sealed.schema if field.name != sealed.manifest.label.name])


def _taken_from(sink: io.BytesIO) -> bytes:
    data = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return data
