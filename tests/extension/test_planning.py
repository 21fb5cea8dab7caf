"""Whose choice counts: this run's, the question's, the notebook's, the account's, the server's."""

import pytest

from nbinline_agent.asking import Override, StartRun
from nbinline_agent.context.choices import Mode
from nbinline_agent.errors import BadRequest, NotConfigured, UnknownConnection, UnknownModel
from nbinline_agent.ids import CellId, FileId, NotebookPath
from nbinline_agent.journal import Author
from nbinline_agent.testing import open_notebook, prompt
from nbinline_rtc.connections import Addresses, ServerConnections
from nbinline_rtc.credentials import CredentialStore
from nbinline_rtc.earlier import SavedSettings
from nbinline_rtc.local_model import LocalModel
from nbinline_rtc.planning import ServerPlanner

SAVED = SavedSettings(
    defaults={
        "backend": "openai_api",
        "model": "saved-model",
        "promptMode": "learning",
        "contextMode": "all-above",
    },
    styles={"learning": "Ask back.", "full": "Tell all."},
)


@pytest.fixture
def connections(tmp_path):
    environ = {"OPENAI_API_KEY": "sk-a-0123456789", "ANTHROPIC_API_KEY": "sk-ant-0123456789"}
    store = CredentialStore(tmp_path / "k" / "credentials.json", environ=environ)
    missing = LocalModel(model_path=tmp_path / "none.gguf")
    return ServerConnections(store, missing, addresses=Addresses())


async def plan(connections, saved=SAVED, *, cell=None, defaults=None, **override):
    await connections.refresh()
    metadata = {"nbinlineai": {"defaults": defaults}} if defaults else None
    question = prompt("Why?", "q", **(cell or {}))
    async with open_notebook([question], metadata=metadata) as (notebook, _):
        start = StartRun(
            path=NotebookPath("n.ipynb"),
            cell_id=CellId("q"),
            author=Author("ada", "Ada"),
            override=Override(**override),
        )
        return ServerPlanner(connections, b"secret", saved).plan(start, notebook, FileId("f"))


async def test_the_accounts_saved_choices_count_where_the_notebook_has_none(connections):
    planned = await plan(connections)
    assert (planned.connection, planned.model) == ("openai_api", "saved-model")
    assert planned.choices.style == "learning"
    assert planned.choices.style_text == "Ask back."
    assert planned.choices.mode is Mode.ALL_ABOVE


async def test_nearer_choices_win(connections):
    notebook = {"promptMode": "full", "contextMode": "full-notebook", "model": "of-the-notebook"}
    planned = await plan(connections, defaults=notebook)
    assert planned.choices.style_text == "Tell all."
    assert planned.choices.mode is Mode("full-notebook")
    assert planned.model == "of-the-notebook"

    question = {"promptMode": "compact", "model": "of-the-question"}
    planned = await plan(connections, defaults=notebook, cell=question)
    assert (planned.choices.style, planned.choices.style_text) == ("compact", None)
    assert planned.model == "of-the-question"

    planned = await plan(connections, defaults=notebook, cell=question, model="now", style="full")
    assert (planned.model, planned.choices.style) == ("now", "full")


async def test_a_saved_model_stays_with_its_connection(connections):
    planned = await plan(connections, defaults={"backend": "anthropic_api"})
    assert planned.connection == "anthropic_api"
    assert planned.model == connections.infos()["anthropic_api"].default_model


async def test_without_anything_saved_our_own_wording_holds(connections):
    planned = await plan(connections, SavedSettings())
    assert (planned.choices.style, planned.choices.style_text) == ("compact", None)
    assert planned.model == connections.infos()["openai_api"].default_model


@pytest.mark.parametrize(
    ("error", "override"),
    [
        (UnknownConnection, {"connection": "no-such"}),
        (NotConfigured, {"connection": "local"}),
        (NotConfigured, {"connection": "openai_compatible"}),
        (UnknownModel, {"model": "x" * 300}),
        (BadRequest, {"style": "no-such"}),
        (BadRequest, {"context_mode": "no-such"}),
    ],
)
async def test_what_cannot_be_is_refused(connections, error, override):
    with pytest.raises(error):
        await plan(connections, **override)
