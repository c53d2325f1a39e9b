"""Pictures of the seeded site for README and docs: `make screenshots` takes them again."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.server.process import started

from .browsing import FLAGS, Tab, tab

FOLDER = Path(__file__).parents[2] / "docs" / "images" / "pages"
ADDRESS = "https://meter.example.org"
"""What pages give as the address of the site."""
PICTURES = {
    "meter": ("dan", "mail-filter", "/meters/{}"),
    "labels-needed": ("lena", "review-filter", "/meters/{}/labels"),
    "admin-meter": ("ada", "mail-filter", "/admin/meters/{}"),
}
"""Who sees what of which meter, by the name of the picture."""
_QUALITY = 68
"""Of WebP: letters are still crisp, and a page is a third of its size as PNG."""
_MEASURE = "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"


def _picture(found: Tab) -> bytes:
    """Take a picture of the whole page, as WebP, which playwright itself does not offer."""
    width, height = found.page.evaluate(_MEASURE)
    browser = found.context.new_cdp_session(found.page)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    options = {"format": "webp", "quality": _QUALITY, "captureBeyondViewport": True, "clip": clip}
    taken = browser.send("Page.captureScreenshot", options)
    browser.detach()
    return base64.b64decode(taken["data"])


def main() -> None:
    """Take all pictures, in a wide window with light colours."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        options = ("--demo", "--public-url", ADDRESS, "--requests-per-second", "0")
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        with started(Path(folder) / "site", *options) as server:
            assert server.token is not None  # the password of everybody
            for name, (who, meter, path) in PICTURES.items():
                with server.client("none") as api, tab(chromium, server.address) as found:
                    door = {"name": who, "password": server.token}
                    token = api.post("/login", json=door).json()["token"]
                    headers = {"Authorization": f"Bearer {token}"}
                    address = path.format(api.get(f"/meters/{meter}", headers=headers).json()["id"])
                    found.go("/sign-in")
                    found.sign_in(who, server.token)
                    found.go(address)
                    found.look(wide=True, dark=False)
                    (FOLDER / f"{name}-desktop-light.webp").write_bytes(_picture(found))
            server.stop()
        chromium.close()


if __name__ == "__main__":
    main()
