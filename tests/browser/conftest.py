"""Browser tests: a real JupyterLab, real Chromium, two people in one notebook.

Playwright's synchronous API runs a loop of its own in the main thread, which the server tests'
plugins must not meet; so these run alone: ``pytest tests/browser --confcutdir=tests/browser``.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser import notebooks
from tests.browser.lab import Lab
from tests.browser.pages import DEADLINE, SCRIPT, NotebookPage
from tests.vendor.plugin import Vendor, vendor, vendor_process

__all__ = ["vendor", "vendor_process"]

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """The system's Chromium.

    Raises:
        RuntimeError: There is none; the message says what to install.
    """
    path = os.environ.get("NBINLINE_CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise RuntimeError(
            "The browser tests need Chromium: `apt-get install chromium`, or set "
            "NBINLINE_CHROMIUM to the path of one."
        )
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for the session."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shared_lab(tmp_path_factory: pytest.TempPathFactory, vendor_process: Vendor) -> Iterator[Lab]:
    """One server for the tests that do not kill theirs; it works under a prefix, as a hub's."""
    root = tmp_path_factory.mktemp("lab")
    with Lab(root, vendor=vendor_process.url, base_url="/user/ada/") as lab:
        yield lab


@pytest.fixture
def lab(shared_lab: Lab, vendor: Vendor) -> Iterator[Lab]:
    """The shared server, with nothing running and no stored key."""
    yield shared_lab
    shared_lab.end_sessions()


@pytest.fixture
def own_lab(tmp_path: Path, vendor: Vendor) -> Iterator[Lab]:
    """A server of the test's own, without a prefix, that it may kill."""
    with Lab(tmp_path, vendor=vendor.url) as lab:
        yield lab


class People:
    """Who sits at the browsers: each has cookies, hence an identity, of their own.

    Tabs are kept from test to test, since loading JupyterLab is most of a test's time; after a
    failure everybody starts anew.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: dict[tuple[str, str], BrowserContext] = {}
        self._pages: list[Page] = []
        self.errors: list[str] = []

    def visit(self, lab: Lab, path: str, name: str = "ada") -> NotebookPage:
        """Let somebody open a notebook in their tab."""
        context = self.context(lab, name)
        page = context.pages[0] if context.pages else self.new_page(context)
        return NotebookPage(page, lab, path).open()

    def second_tab(self, lab: Lab, path: str, name: str = "ada") -> NotebookPage:
        """Let somebody open a notebook in one more tab, a workspace of its own."""
        page = self.new_page(self.context(lab, name))
        return NotebookPage(page, lab, path).open(workspace=f"tab-{len(self._pages)}")

    def context(self, lab: Lab, name: str) -> BrowserContext:
        """Somebody's browser."""
        key = (lab.url, name)
        if key not in self._contexts:
            context = self._browser.new_context(viewport={"width": 1200, "height": 900})
            context.set_default_timeout(DEADLINE)
            context.add_init_script(SCRIPT)
            self._contexts[key] = context
        return self._contexts[key]

    def new_page(self, context: BrowserContext) -> Page:
        """A tab whose uncaught errors are noted."""
        page = context.new_page()
        page.on("pageerror", lambda error: self.errors.append(error.stack or str(error)))
        # jupyter-collaboration asks this on a busy machine, and the question stays.
        waiting = page.get_by_role("button", name="Continue waiting")
        page.add_locator_handler(waiting, lambda button: button.click())
        lost = page.get_by_role("dialog", name="Server Connection Error")
        page.add_locator_handler(lost, lambda dialog: dialog.get_by_role("button").first.click())
        self._pages.append(page)
        return page

    def tidy(self, lab: Lab) -> None:
        """Close notebooks and extra tabs on the server; the first tabs stay for the next test."""
        for (url, _), context in self._contexts.items():
            if url == lab.url:
                for page in context.pages[1:]:
                    page.close()
                for page in context.pages[:1]:
                    NotebookPage(page, lab, "").close()

    def leave(self, pictures: Path | None = None) -> None:
        """Close everything, with a last picture of each tab if wanted."""
        for place, page in enumerate(self._pages):
            if pictures is not None and not page.is_closed():
                page.screenshot(path=pictures / f"failed-{place}.png")
        for context in self._contexts.values():
            context.close()
        self._contexts.clear()
        self._pages.clear()


@pytest.fixture(scope="session")
def _people(browser: Browser) -> Iterator[People]:
    people = People(browser)
    yield people
    people.leave()


@pytest.fixture
def people(
    _people: People, lab: Lab, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[People]:
    """Whom the test needs, at the shared server; a test fails if a page raised an error."""
    _people.errors.clear()
    yield _people
    if getattr(request.node, "failed", False):
        _people.leave(pictures=tmp_path)
        return
    _people.tidy(lab)
    assert _people.errors == []


@pytest.fixture
def witnesses(
    browser: Browser, own_lab: Lab, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[People]:
    """Whom the test needs, at its own server; pages may see that server die."""
    people = People(browser)
    yield people
    people.leave(pictures=tmp_path if getattr(request.node, "failed", False) else None)


@pytest.fixture
def write(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Write a notebook of the test's own name into a server's folder; its path there."""

    def write(
        lab: Lab,
        *cells: dict[str, Any],
        kernel: bool = False,
        nbinline: dict[str, Any] | None = None,
    ) -> str:
        name = re.sub(r"\W+", "-", request.node.name).strip("-")
        path = lab.work / f"{name}.ipynb"
        notebooks.write(path, *cells, kernel=kernel, nbinline=nbinline)
        return f"{name}.ipynb"

    return write


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Let fixtures know that their test failed, for a picture of what was seen."""
    report = yield
    if call.when == "call" and report.failed:
        item.failed = True  # type: ignore[attr-defined]
    return report
