"""What happens to people at browsers: plans, mistakes, sessions that end, keyboards, TLS."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from tests.live import Live
from tests.server.driving import begin, submit
from tests.server.process import started
from tests.service.helpers import actor_of, small_spec

from easeml_meter.core.questions.planning import required_labels
from easeml_meter.service import tokens, users
from easeml_meter.service.actor import SYSTEM
from easeml_meter.spec import MeterSpec
from easeml_meter.storage import schema

from .browsing import PASSWORD, PHONE, Tab, tab


@pytest.fixture(scope="module")
def meter(site: Live) -> str:
    """Make a meter that asks for labels, with everyone at it."""
    return site.served.add_meter()


@pytest.fixture(scope="module")
def in_use(site: Live, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make a meter in use; its users can sign in."""
    served = site.served
    found = served.add_meter(prefix="other ")
    users.change_user(SYSTEM, served.site, served.users["other developer"].id, password=PASSWORD)
    served.tokens["other developer"] = tokens.make_token(
        actor_of(served.users["other developer"].id), served.site, "test"
    )[1]
    begin(served, found, tmp_path_factory.mktemp("in-use"), prefix="other ")
    return found


def test_the_planner_follows_every_change(site: Live, browser: Browser) -> None:
    with tab(browser, site) as found:
        page = found.go("/planner?confidence=99&price=1")  # what few need stands open
        page.get_by_label("I have").fill("1k")
        expect(page.locator("#answer .labels")).to_contain_text("validation error + 8.6 points")
        expect(page.locator("#heard")).to_contain_text("validation error + 8.6 points")
        page.get_by_text("how many labels I need").click()
        page.get_by_label("Tolerance", exact=True).fill("1%")
        for steps, signals in (("10", "5"), ("25", "5"), ("25", "4")):
            page.get_by_label("Answers", exact=True).fill(steps)
            page.get_by_label("Bands", exact=True).fill(signals)
            spec = MeterSpec.uniform(
                steps=int(steps), signals=int(signals), tolerance=0.01, delta=0.01
            )
            expect(page.locator("#answer")).to_contain_text(f"{required_labels(spec).labels:,}")
        assert found.violations() == []
        page.get_by_text("How this compares").click()
        page.get_by_label("Tolerance", exact=True).fill("2")
        expect(page.locator("#answer .problem")).to_contain_text("tolerance")
        page.get_by_label("Tolerance", exact=True).fill("0.02")
        expect(page.locator("#answer .problem")).to_have_count(0)
        expect(page.locator(".compare")).to_be_visible()  # what was opened stays open
        page.get_by_text("How this compares").click()
        shown = page.locator("#answer").inner_text()
        page.goto(page.get_by_role("link", name="Link to this plan").evaluate("link => link.href"))
        assert page.locator("#answer").inner_text() == shown


def test_a_bad_upload_is_refused_by_row_number(
    site: Live, browser: Browser, meter: str, tmp_path: Path
) -> None:
    file = tmp_path / "my rows.csv"
    file.write_text('x,label\n0.5,1\n0.6,\n"0.7",0\n0.8,maybe\n')
    with tab(browser, site, "labeler") as found:
        page = found.go(f"/meters/{meter}/labels")
        page.get_by_label("File with one row per example").set_input_files(file)
        page.get_by_role("button", name="Encrypt and send").click()
        looked = page.locator("#looked li")
        expect(looked).to_have_text(
            [
                re.compile("^4 rows: .* more are needed"),
                "no label in 1 row",
                "a label that is no class in 1 row: maybe",
            ]
        )
        result = page.locator("#labels [data-result]")
        expect(result).to_contain_text("my rows.csv: the label is missing in row 2")
        expect(page.get_by_role("button", name="Encrypt and send")).to_be_enabled()
        assert found.violations() == []
        # What the page loads for this counts, too.
        assert sum(found.weight().values()) < 100_000
        assert "/static/age.js" in found.weight()

        page.locator("#labels").evaluate("form => { form.dataset.largest = 10; }")
        page.get_by_role("button", name="Encrypt and send").click()
        expect(result).to_contain_text("larger than this page takes")
        expect(page.get_by_text("meter seal labels.parquet")).to_be_visible()
        page.reload()
        expect(page.locator("main")).to_contain_text("0 of")


def test_files_of_other_programs_are_looked_at_too(
    site: Live, browser: Browser, meter: str, tmp_path: Path
) -> None:
    semicolons, packed = b"Text;label\r\n0,5;1\r\n", gzip.compress(b'[{"x": 1, "label": 0}]')
    with tab(browser, site, "labeler") as found:
        page = found.go(f"/meters/{meter}/labels")
        page.get_by_label("Label column").fill("LABEL")
        for name, content, words in (
            ("a.csv", semicolons, 'Did you mean "label"? There are: Text, label'),
            ("a.csv", semicolons.replace(b";", b"\t"), "There are: Text, label"),
            ("a.json.gz", packed, "There are: x, label"),
            ("a.xlsx", b"PK", "meter seal"),
        ):
            (tmp_path / name).write_bytes(content)
            page.get_by_label("File with one row per example").set_input_files(tmp_path / name)
            expect(page.locator("#looked li").last).to_contain_text(words)
        page.get_by_label("Label column").fill("label")
        page.get_by_label("File with one row per example").set_input_files(tmp_path / "a.json.gz")
        page.get_by_role("button", name="Encrypt and send").click()
        expect(page.locator("main")).to_contain_text("1 of")
        assert found.violations() == []


def test_rows_with_a_judge_are_looked_at_before_they_are_sent(
    site: Live, browser: Browser, tmp_path: Path
) -> None:
    spec = small_spec(judge_error=0.3, rows=50, pool=300, tolerance=0.3, edges=[0.4], signals=2)
    meter = site.served.add_meter(spec, prefix="judged ")
    file = tmp_path / "rows.csv"
    rows = "".join(f"{i},{i % 2 if i < 50 else ''},{i % 2}\n" for i in range(350))
    file.write_text("x,label,judge\n" + rows)
    with tab(browser, site, "judged labeler") as found:
        page = found.go(f"/meters/{meter}/labels")
        page.get_by_label("File with one row per example").set_input_files(file)
        looked = page.locator("#looked li")
        kept = "no label in 300 rows, as many as the judge speaks for"
        expect(looked).to_have_text(["350 rows: enough", kept, "every label is a class"])
        page.get_by_label("Judge column").fill("word")
        page.get_by_label("Label column").focus()
        expect(looked.nth(1)).to_contain_text('There is no column "word"')
        assert found.violations() == []
        page.get_by_label("Judge column").fill("judge")
        send = page.get_by_role("button", name="Encrypt and send")
        send.hover()
        page.mouse.down()  # ends the typing, so the file is looked at again
        page.wait_for_timeout(300)
        page.mouse.up()
        expect(page.locator("main")).to_contain_text("Test set 1 is active, with 350 rows.")


def test_a_session_that_ends_is_taken_up_again(site: Live, browser: Browser, in_use: str) -> None:
    served = site.served
    with tab(browser, site, "other developer") as found:
        page = found.go(f"/meters/{in_use}")
        table, user = schema.tokens, served.users["other developer"].id
        with served.site.writing() as books:
            where = (table.c.user == user) & (table.c.kind == "session")
            change = {"expires_at": "2020-01-01T00:00:00.000000+00:00"}
            books.connection.execute(table.update().where(where), change)
        page.reload()
        expect(page.locator("main")).to_contain_text("Your session has ended.")
        found.sign_in("other developer")
        expect(page).to_have_url(f"{site.address}/meters/{in_use}")
        expect(page.get_by_role("heading", level=1)).to_contain_text("other meter")


def test_a_developer_who_types_a_labelers_address(
    site: Live, browser: Browser, meter: str, in_use: str
) -> None:
    with tab(browser, site, "developer") as found:
        for path, status in (
            (f"/meters/{meter}/labels", 403),
            (f"/meters/{in_use}/labels", 404),
            (f"/meters/{in_use}", 404),
            ("/admin", 403),
        ):
            answer = found.page.goto(f"{site.address}{path}")
            assert answer is not None
            assert answer.status == status
            assert "labels have arrived" not in found.text()
            assert found.violations() == []


def test_it_works_by_keyboard_at_a_phone(site: Live, browser: Browser, in_use: str) -> None:
    with tab(browser, site, size=PHONE, has_touch=True) as found:
        page = found.go(f"/meters/{in_use}")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        expect(page.get_by_label("Name")).to_be_focused()
        page.keyboard.type("other developer")
        page.keyboard.press("Tab")
        page.keyboard.type(PASSWORD)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text("other meter")


def test_pages_can_be_read_without_scripts(
    site: Live, browser: Browser, meter: str, in_use: str
) -> None:
    with tab(browser, site, "labeler", java_script_enabled=False) as found:
        page = found.go(f"/meters/{meter}/labels")
        expect(page.get_by_text("This needs JavaScript")).to_be_visible()
        expect(page.get_by_role("button", name="Encrypt and send")).to_be_hidden()
        page.get_by_text("Say why, and until when").click()
        page.get_by_label("Reason").fill("the spring release")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("the spring release")).to_be_visible()
    with tab(browser, site, "other developer", java_script_enabled=False) as found:
        page = found.go(f"/meters/{in_use}")
        expect(page.get_by_text("Answers left")).to_be_visible()
        page.get_by_role("link", name="Promise").click()
        expect(page.get_by_role("heading", name="What is promised")).to_be_visible()


def test_a_page_is_painted_before_any_script_has_arrived(
    site: Live, browser: Browser, in_use: str
) -> None:
    with tab(browser, site, "other developer") as found:
        held: list[Any] = []

        def hold(route: Any) -> None:
            held.append(route)

        found.page.route("**/*.js*", hold)
        found.page.goto(f"{site.address}/meters/{in_use}", wait_until="commit")
        painted = "() => performance.getEntriesByName('first-contentful-paint').length > 0"
        found.page.wait_for_function(painted)
        expect(found.page.get_by_text("Answers left")).to_be_visible()
        assert held
        for each in held:
            each.continue_()


def _cookies(found: Tab) -> dict[str, Any]:
    return {str(cookie["name"]): cookie for cookie in found.context.cookies()}


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, ...]:
    """Make a certificate that signs itself."""
    chain, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 1"
    files = ("-keyout", str(key), "-out", str(chain))
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return "--tls-certificate", str(chain), "--tls-key", str(key)


def test_behind_tls_cookies_are_secure(
    browser: Browser, certificate: tuple[str, ...], tmp_path: Path
) -> None:
    with started(tmp_path / "site", *certificate) as server:
        with tab(browser, server.address, ignore_https_errors=True) as found:
            found.go("/")
            found.sign_in("admin", server.token or "")
            expect(found.page.get_by_role("heading", level=1)).to_have_text("Meters")
            cookies = _cookies(found)
            assert "__Host-meter_session" in cookies
            for name, cookie in cookies.items():
                assert name.startswith("__Host-")
                flags = cookie["secure"], cookie["httpOnly"], cookie["sameSite"]
                assert flags == (True, True, "Strict"), name
        server.stop()


def test_what_a_colleague_submits_appears_on_an_open_page(
    site: Live, browser: Browser, tmp_path: Path
) -> None:
    served = site.served
    meter = served.add_meter(prefix="shared ")
    labels = begin(served, meter, tmp_path, prefix="shared ", seed=3)
    with tab(browser, site, "shared developer") as found:
        page = found.go(f"/meters/{meter}")
        expect(page.locator("#live")).to_have_class("live on")
        submit(served.client("shared runner"), meter, labels, model="by a colleague")
        expect(page.locator("#history")).to_contain_text("by a colleague")
        expect(page.locator("#session")).to_contain_text("Band 1 of 3")
        assert found.violations() == []
