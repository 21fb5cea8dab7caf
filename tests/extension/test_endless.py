"""A model that never ends by itself."""

from typing import Any

import pytest

from tests.extension.conftest import stopping
from tests.extension.running import Asker, source_of
from tests.vendor.plugin import Vendor

BOUND = 1_000


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any],
    vendor: Vendor,
    bound: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Any]:
    """The server with our extension, one connection and a bound."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    jp_server_config["ServerApp"]["jpserver_extensions"]["nbinline_rtc"] = True
    jp_server_config["NbinlineApp"] = {"openai_base_url": vendor.v1, **bound}
    return jp_server_config


@pytest.fixture
def asker(jp_fetch: Any, jp_root_dir: Any, ydoc: Any, vendor: Vendor) -> Asker:
    """Somebody who asks."""
    return Asker(jp_fetch, jp_root_dir, ydoc, vendor)


@pytest.mark.row("The model's answer never ends")
@pytest.mark.parametrize(
    ("bound", "code"),
    [({"answer_characters": BOUND}, "output-truncated"), ({"answer_seconds": 1.0}, "timed-out")],
)
async def test_an_answer_has_an_end(
    asker: Asker, matrix: Any, bound: dict[str, Any], code: str
) -> None:
    async with stopping(asker.ydoc):
        words = [f"word{number} " for number in range(3_000)]
        asker.write("Count for ever.")
        await asker.vendor.script({"deltas": words, "rate": 100})
        run = await asker.ended(await asker.ask())
        assert (run["status"], run["error"]["code"]) == ("error", code)
        text = source_of(asker.answer(await asker.document()))
        assert "".join(words).startswith(text)
        assert text
        if code == "output-truncated":
            assert len(text) == BOUND
        matrix.record(outcome="it is ended at the bound, what came stays, Continue goes on")
