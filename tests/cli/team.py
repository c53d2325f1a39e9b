"""A throwaway server for the pages that tell what each role does there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.forking import SCRIPT, run
from tests.live import live

from easeml_meter.core.people import Role
from easeml_meter.service import seats
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.spec import MeterSpec

FILES = Path(__file__).parent / "pages" / "embedded.py"
PEOPLE = {"ann": Role.LABELER, "dan": Role.DEVELOPER, "rob": Role.RUNNER}


@contextmanager
def team(folder: Path, role: str) -> Iterator[dict[str, str]]:
    """Serve the mail filter of the tutorial up to where a role comes in; give its environment.

    The admin finds an empty server, the labeler a meter, the developer one with a test set, and the
    runner one whose inputs are hidden, with a validation set, too.
    """
    made = run([str(FILES)], program=SCRIPT, folder=folder)
    assert made.returncode == 0, made.stderr
    header, *rows = (folder / "labelled.csv").read_text().splitlines(keepends=True)
    (folder / "monday.csv").write_text("".join([header, *rows[:200]]))
    (folder / "tuesday.csv").write_text("".join([header, *rows[200:]]))
    with live(folder / "server") as found:
        served = found.served
        name = "admin"
        if role != Role.ADMIN:
            name = next(each for each, seat in PEOPLE.items() if seat == role)
            spec = MeterSpec.read(folder / "meter.toml")
            if role == Role.RUNNER:
                spec = replace(spec, inputs="hidden")
            meter = create_meter(SYSTEM, served.site, spec, "spam").id
            for each, seat in PEOPLE.items():
                tenant = 0 if seat is Role.LABELER else 1
                user = served.add_user(each)
                seats.add_seat(SYSTEM, served.site.space(meter), user.id, seat, tenant)
        if role in (Role.DEVELOPER, Role.RUNNER):
            with found.meter("ann") as labeler:
                labelled, sealed = folder / "labelled.csv", folder / "all.sealed"
                labeler.seal(labelled, sealed, label="label", id_column="id")
                labeler.add_test_set(sealed)
        if role == Role.RUNNER:
            with found.meter("dan") as developer:
                developer.set_validation(folder / "validation.csv", label="label")
        yield {
            "METER_SERVER": found.address,
            "METER_TOKEN": served.tokens[name],
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
