"""A whole session at real browsers: from an empty site to a released test set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.live import Live, live
from tests.server.driving import VALIDATION, parquet, predictions
from tests.service.helpers import Labels, rows, small_spec, with_errors

from easeml_meter.core.questions.planning import plan_of

from .browsing import PASSWORD, Tab, tab

STEPS = 2


@pytest.fixture
def empty_site(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "site") as found:
        found.served.add_user("ada", admin=True, password=PASSWORD)
        yield found


def test_from_sign_in_to_release(empty_site: Live, browser: Browser, tmp_path: Path) -> None:
    with ExitStack() as stack:
        admin, labeler, developer = (
            stack.enter_context(tab(browser, empty_site)) for _ in range(3)
        )
        admin.go("/")
        admin.sign_in("ada")
        passwords = [_add_user(admin, name) for name in ("lena", "dan")]
        _make_meter(admin, "spam filter")
        _give_seat(admin, "lena", "labeler")
        _give_seat(admin, "dan", "developer")

        labeler.go("/")
        labeler.sign_in("lena", passwords[0])
        labels = _deliver_in_parts(labeler, tmp_path)

        developer.go("/")
        developer.sign_in("dan", passwords[1])
        developer.page.get_by_role("link", name="spam filter").click()
        _give_validation(developer.page, tmp_path)
        told = _check(developer.page, tmp_path, "first", labels, errors=0)
        expect(told).to_contain_text("Checked, not submitted.")
        expect(told).to_contain_text("Submitting it uses answer 1 of 2 from test set 1.")
        developer.page.get_by_role("button", name="Submit, use answer 1 of 2").click()
        expect(told).to_contain_text("Answer 1: band 1.")
        refused = _check(developer.page, tmp_path, "short", labels[:-1], errors=0)
        expect(refused).to_contain_text("ids of the test set without a row")
        _check(developer.page, tmp_path, "second", labels, errors=len(labels) // 4)
        developer.page.get_by_role("button", name="Submit, use answer 2 of 2").click()
        expect(told).to_contain_text("Answer 2: band 2.")
        expect(developer.page.locator("#state")).to_contain_text("Spent")
        assert "In retrospect" not in developer.text()

        labeler.page.reload()
        labeler.page.get_by_label("I want every developer").check()
        labeler.page.get_by_role("button", name="Release test set 1").click()
        expect(labeler.page.locator("main")).to_contain_text("Test set 1 is released")

        developer.page.reload()
        expect(developer.page.locator("main")).to_contain_text("In retrospect")
        with developer.page.expect_download() as download:
            developer.page.get_by_role("link", name="The test set, with its labels").click()
        released = pq.read_table(download.value.path())
        assert released.column("label").to_pylist() == labels.tolist()

        developer.page.locator("details.menu summary").click()
        developer.page.get_by_role("button", name="Sign out").click()
        expect(developer.page.locator("main")).to_contain_text("You are signed out.")
        developer.go("/meters")
        expect(developer.page.get_by_role("heading", level=1)).to_have_text("Sign in")


def _add_user(admin: Tab, name: str) -> str:
    """Open an account; give its first password."""
    page = admin.go("/admin/users")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Add", exact=True).click()
    return page.locator(".done code").inner_text()


def _make_meter(admin: Tab, name: str) -> None:
    """Fill in the form; the plan beside it follows."""
    page = admin.go("/admin/meters/new")
    page.get_by_label("Classes").fill("0, 1")
    page.get_by_text("Developers download the inputs").click()
    page.get_by_text("How far validation and test loss are apart").click()
    fields = {"Answers": STEPS, "How sure, in percent": 80, "Tolerance": "25%"}
    for label, value in fields.items():
        page.get_by_label(label, exact=True).fill(str(value))
    page.get_by_label("Edges of the bands").fill("0.1, 0.3")
    labels = plan_of(small_spec(steps=STEPS, inputs="public")).labels
    make = page.get_by_role("button", name=f"Make it: {labels} labels")
    expect(make).to_be_visible()
    expect(page.locator("#heard")).to_contain_text("at most the validation error + 35.0 points")
    page.get_by_label("Edges of the bands").fill("0.3, 0.1")
    expect(page.locator("#plan .problem")).to_be_visible()
    page.get_by_label("Edges of the bands").fill("0.1, 0.3")
    assert admin.violations() == []
    page.get_by_label("Name", exact=True).fill(name)  # the plan does not wait for it
    make.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)


def _give_seat(admin: Tab, name: str, role: str) -> None:
    admin.page.get_by_label("User").select_option(label=name)
    admin.page.get_by_label("Role").select_option(role)
    admin.page.get_by_role("button", name="Give the seat").click()
    expect(admin.page.locator("main")).to_contain_text(f"{name} is {role} of this meter now")


def _deliver_in_parts(labeler: Tab, folder: Path) -> Labels:
    """Send the labels that are asked for, encrypted by the page, in two parts."""
    page = labeler.page
    page.get_by_role("link", name="spam filter").click()
    page.get_by_role("link", name="Labels needed").click()
    needed = int(page.locator("#here").get_attribute("max") or 0)
    labels = np.random.default_rng(1).integers(0, 2, needed)
    table = rows(labels, seed=1)
    bodies: list[bytes] = []
    page.on("request", lambda sent: bodies.append(sent.post_data_buffer or b""))
    for start, stop in ((0, 10), (10, needed)):
        file = folder / f"labels-{start}.csv"
        pyarrow.csv.write_csv(table.slice(start, stop - start), file)
        page.get_by_label("File with one row per example").set_input_files(file)
        if start == 0:  # later parts must be like the first one: the page knows
            page.get_by_label("Id column").fill("id")
        page.get_by_role("button", name="Encrypt and send").click()
        said = f"10 of {needed} labels have arrived." if start == 0 else "Test set 1 is active"
        expect(page.locator("main")).to_contain_text(said)
    sent = [body for body in bodies if body]
    assert len(sent) == 2
    assert all(body.startswith(b"age-encryption.org/v1\n") for body in sent)
    assert not any(b"label" in body for body in sent)
    return labels


def _give_validation(page: Page, folder: Path) -> None:
    file = folder / "validation.parquet"
    file.write_bytes(parquet(rows(VALIDATION, seed=7)))
    page.get_by_role("link", name="Hand in the validation set").click()
    page.get_by_label("Labelled rows").set_input_files(file)
    page.get_by_label("Name of the label column").fill("label")
    page.get_by_role("button", name="Hand in", exact=True).click()
    expect(page.locator("main")).to_contain_text("Validation set 1 with 20 rows")
    page.get_by_role("link", name="To the meter").click()


def _check(page: Page, folder: Path, model: str, labels: Labels, *, errors: int) -> Locator:
    """Choose files of predictions, which checks them; give where that and the answer appear."""
    test, validation = folder / f"{model}-test.parquet", folder / f"{model}-validation.parquet"
    test.write_bytes(predictions(with_errors(labels, errors), model))
    validation.write_bytes(predictions(VALIDATION, model))
    page.get_by_label("Name of the model").fill(model)
    page.get_by_label("On the test inputs").set_input_files(test)
    page.get_by_label("On the validation set").set_input_files(validation)
    return page.locator("form[data-upload=form] [data-result]")
