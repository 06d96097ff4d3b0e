"""A served site for the tests in a browser, and what they look at on it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.conftest import ROOT
from wesichain.web import ApprovalFolder

from .browser import Page
from .kit import TOKEN

SHOTS = ROOT / "artifacts"


class Site:
    """A server with a store of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.runs = folder / "runs"
        self.approvals = ApprovalFolder(folder / "approvals")

    def open(self, page: Page, place: str = "#/") -> None:
        """Come with the printed address, then go to a page."""
        page.open(f"{self.url}/#token={TOKEN}")
        page.wait("document.getElementById('main')?.dataset.ready === 'list'")
        page.evaluate(f"location.hash = {place!r}")


def is_clean(page: Page, site: Site) -> None:
    """Nothing went wrong, nothing was asked, nothing went elsewhere."""
    page.evaluate("new Promise(done => setTimeout(done, 50))")
    assert page.errors == []
    assert page.dialogs == []
    assert [url for url in page.requests if not url.startswith(f"{site.url}/") and url != "about:blank"] == []


def wait_for_count(page: Page, selector: str, number: int) -> None:
    page.wait(f"document.querySelectorAll('{selector}').length === {number}")


def shoot(page: Page, name: str) -> None:
    """See that the page fits a desktop and a phone; with `WESICHAIN_SHOTS` set, pictures of it are kept."""
    for device, width, height in (("desktop", 1100, 900), ("phone", 390, 844)):
        for tint in ("light", "dark") if "WESICHAIN_SHOTS" in os.environ else ("light",):
            page.look(width=width, height=height, dark=tint == "dark")
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{name} is {wide} pixels too wide at {width}"
            if "WESICHAIN_SHOTS" in os.environ:
                page.screenshot(SHOTS / f"{name}-{device}-{tint}.png")
    page.look()
