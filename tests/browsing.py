"""A real Chromium for tests, and what a page must never do while it is open."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 90_000  # for what hangs; a busy machine is only slow
WIDE, NARROW = (1600, 1000), (390, 844)


@contextmanager
def chromium() -> Iterator[Browser]:
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    assert path, "Chromium is missing: make parts installs it (apt-get install chromium)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A page, and everything that went wrong in it."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def check(self) -> None:
        assert self.complaints == []


def watched(browser: Browser, size: tuple[int, int] = WIDE, **more: Any) -> Watched:
    """A new window of its own, whose console, errors and refused loads are kept."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **more)
    context.set_default_timeout(PATIENCE_MS)
    seen = Watched(context.new_page())
    seen.page.on("pageerror", lambda error: seen.complaints.append(f"error: {error}"))
    seen.page.on(
        "console",
        lambda said: (
            seen.complaints.append(f"{said.type}: {said.text} ({said.location['url']})")
            if said.type in ("error", "warning")
            else None
        ),
    )
    return seen


def overflow(page: Page) -> int:
    """Pixels by which the page is wider than its window."""
    script = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    return int(page.evaluate(script))
