"""What cannot be done is said in a sentence where it was asked, and nothing is written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import prompt
from tests.browser.vendor import requests
from tests.vendor.plugin import Vendor


def marked(cell: dict[str, Any], **choices: Any) -> dict[str, Any]:
    """A question with choices in its mark."""
    cell["metadata"]["nbinlineai"].update(choices)
    return cell


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (prompt("ask", "   "), "empty"),
        (prompt("ask", "x" * 16_001), "16,000"),
        (marked(prompt("ask", "Hi"), backend="nobody"), "connection"),
    ],
    ids=["empty", "too long", "unknown connection"],
)
def test_refused_questions(
    people: People, lab: Lab, write, vendor: Vendor, cell: dict[str, Any], sentence: str
) -> None:
    path = write(lab, cell)
    ada = people.visit(lab, path)
    before = ada.cells()

    ada.run("ask")

    status = ada.bar("ask").locator(".nbinline-CellBar-status[data-tone='failed']")
    status.wait_for()
    assert sentence in status.inner_text()
    assert status.inner_text().endswith(".")
    ada.page.locator(".Toastify__toast").get_by_text(status.inner_text()[:30]).first.wait_for()
    assert ada.cells() == before
    assert requests(vendor) == []


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ({"status": 401, "error": {"message": "bad key"}}, "not-authenticated"),
        ({"status": 404, "error": {"message": "no model"}}, "model-not-found"),
        ({"deltas": 20, "drop": {"after": 10}}, "bad-answer"),
    ],
)
def test_failures_of_the_service_are_said_to_everybody(
    people: People, lab: Lab, write, script: dict[str, Any], code: str
) -> None:
    path = write(lab, prompt("ask", **script))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")

    ada.run("ask")

    for page in (ada, bob):
        answer = page.wait_status("ask", "error")
        error = answer["mark"]["error"]
        assert error["code"] == code
        assert error["message"].endswith((".", "”")), "no sentence"
        page.bar(answer["id"]).get_by_text(error["message"]).wait_for()
        page.bar(answer["id"]).get_by_role("button", name="Run again").wait_for()
        assert "sk-browser" not in str(answer)
