"""The dialog for keys: set, used, never shown again, removed."""

from __future__ import annotations

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import prompt
from tests.browser.vendor import requests
from tests.vendor.plugin import Vendor

KEY = "sk-typed-by-ada-0123456789abcdef"


def test_a_key_is_set_used_hidden_and_removed(
    people: People, lab: Lab, write, vendor: Vendor
) -> None:
    path = write(lab, prompt("ask", deltas=3))
    ada = people.visit(lab, path)
    answers: list[str] = []
    ada.page.on(
        "response",
        lambda response: answers.append(response.text()) if "nbinline" in response.url else None,
    )

    ada.select("ask")
    ada.press("Control+Shift+C")
    ada.page.locator(".lm-CommandPalette-input").fill("connections and keys")
    ada.page.locator(".lm-CommandPalette-item", has_text="Connections and Keys").click()
    dialog = ada.page.locator(".jp-Dialog")
    row = dialog.locator("fieldset", has=ada.page.get_by_text("OpenAI", exact=False)).first
    field = row.get_by_label("Key for", exact=False).first
    assert field.get_attribute("type") == "password"
    assert field.get_attribute("autocomplete") == "off"
    before = row.locator(".nbinline-Keys-state").inner_text()
    field.fill(KEY)
    row.get_by_role("button", name="Save").click()
    dialog.get_by_text("The key has been saved.").wait_for()
    assert field.input_value() == ""
    assert KEY not in ada.page.content()
    dialog.get_by_role("button", name="Close").click()

    ada.run("ask")
    ada.wait_status("ask", "done")
    (call,) = requests(vendor)
    assert call["headers"]["Authorization"] == f"Bearer {KEY}"

    _, told = lab.request("GET", "nbinline/settings/keys")
    assert told["connections"]["openai_api"]["configured"]
    files = [path for path in lab.root.rglob("*") if path.is_file()]
    holders = [path for path in files if KEY.encode() in path.read_bytes()]
    assert len(holders) == 1, holders
    assert holders[0].stat().st_mode & 0o777 == 0o600
    assert holders[0].parent.stat().st_mode & 0o777 == 0o700

    ada.command("nbinline:open-keys")
    assert KEY not in ada.page.content()
    row.get_by_role("button", name="Remove").click()
    dialog.get_by_text("The key has been removed.").wait_for()
    assert row.locator(".nbinline-Keys-state").inner_text() == before
    dialog.get_by_role("button", name="Close").click()
    assert not any(KEY.encode() in path.read_bytes() for path in files if path.exists())
    assert answers
    assert not any(KEY in answer for answer in answers), "the server sent a key back"


def test_the_default_connection_is_chosen(people: People, lab: Lab, write, vendor: Vendor) -> None:
    path = write(lab, prompt("ask", deltas=3))
    ada = people.visit(lab, path)
    was = lab.request("GET", "nbinline/settings/keys")[1]["default_connection"]

    ada.command("nbinline:open-keys")
    dialog = ada.page.locator(".jp-Dialog")
    row = dialog.locator("fieldset", has=ada.page.get_by_text("Anthropic", exact=False)).first
    row.get_by_role("radio").click()
    dialog.get_by_text("The default connection has been changed.").wait_for()
    assert row.get_by_role("radio").is_checked()
    dialog.get_by_role("button", name="Close").click()

    try:
        ada.run("ask")
        ada.wait_status("ask", "done")
        (call,) = requests(vendor)
        assert call["path"] == "/v1/messages"
        assert (
            ada.bar("ask")
            .get_by_label("Connection")
            .evaluate("select => select.selectedOptions[0].textContent")
            .startswith("Default: Anthropic")
        )
    finally:
        lab.request("PUT", "nbinline/settings/default-connection", {"connection": was})


def test_no_variable_of_a_vendor_key_is_in_the_document_or_awareness(
    people: People, lab: Lab, write
) -> None:
    path = write(lab, prompt("ask", deltas=30, rate=30))
    ada = people.visit(lab, path)
    ada.run("ask")
    ada.wait("() => nbt.agents().length === 1")

    shown = ada.page.evaluate("() => JSON.stringify([nbt.states(), nbt.shared().toJSON()])")
    ada.wait_status("ask", "done")

    assert "sk-browser" not in shown
    assert "sk-browser" not in lab.log
    assert "sk-browser" not in (lab.work / path).read_text()


def test_signing_in_to_codex_is_begun_and_given_up(people: People, lab: Lab, write) -> None:
    """The address is made on the server; nothing is sent to anybody."""
    ada = people.visit(lab, write(lab, prompt("ask", deltas=3)))
    ada.command("nbinline:open-keys")
    row = ada.page.locator(".jp-Dialog fieldset", has_text="Codex")
    row.get_by_text("Not signed in").wait_for()
    assert row.get_by_label("Key for", exact=False).count() == 0
    row.get_by_role("button", name="Sign in on the server’s machine").click()
    link = row.get_by_role("link", name="Open the sign-in page")
    link.wait_for()
    assert (link.get_attribute("href") or "").startswith("https://")
    _, told = lab.request("GET", "nbinline/settings/codex")
    assert told["login"]["state"] == "waiting"
    row.get_by_role("button", name="Cancel signing in").click()
    link.wait_for(state="detached")
    _, told = lab.request("GET", "nbinline/settings/codex")
    assert (told["login"]["state"], told["signed_in"]) == ("cancelled", False)
    ada.page.locator(".jp-Dialog").get_by_role("button", name="Close").click()
