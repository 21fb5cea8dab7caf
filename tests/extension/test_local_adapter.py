"""The adapter for compatible servers against a real engine: it answers, stops and fails as told."""

import pytest

from nbinline_agent.errors import NotAuthenticated, Overflow, ProviderError
from nbinline_agent.messages import (
    EndReason,
    Message,
    ModelRequest,
    Retrying,
    TextDelta,
    TurnEnded,
    Usage,
)
from nbinline_agent.providers import catalog
from nbinline_agent.providers.base import Provider
from nbinline_agent.providers.opening import open_provider
from nbinline_rtc import local_model, model_package
from nbinline_rtc.local_model import LocalModel

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="session")
def weights():
    """The model as a person installs it; nothing happens where it is installed already."""
    return model_package.install()


async def _ask(provider: Provider, text: str, limit: int) -> tuple[list, ProviderError | None]:
    events: list = []
    request = ModelRequest("trial", ("Be brief.",), (Message("user", text),), None, limit)
    try:
        async with provider.stream(request) as stream:
            async for event in stream:
                # The engine closes connections as it likes; one more is made then.
                if not isinstance(event, Retrying):
                    events += (event,)
    except ProviderError as error:
        return events, error
    return events, None


async def test_the_trial_model(weights):
    async with LocalModel() as model:
        endpoint = await model.endpoint()
        async with open_provider(
            "chat", base_url=endpoint.base_url, api_key=endpoint.api_key
        ) as provider:
            events, error = await _ask(provider, "What is the capital of France?", 60)
            assert error is None
            assert len([event for event in events if isinstance(event, TextDelta)]) > 3
            (usage,) = [event for event in events if isinstance(event, Usage)]
            assert usage.input_tokens > 5
            assert usage.output_tokens > 3
            assert events[-1] == TurnEnded(EndReason.COMPLETE)

            events, error = await _ask(provider, "Count to one hundred.", 5)
            assert error is not None
            assert error.code == "output-truncated"
            assert isinstance(events[0], TextDelta)

            events, error = await _ask(provider, "word " * 6_000, 20)
            assert isinstance(error, Overflow)
            assert events == []

        async with open_provider("chat", base_url=endpoint.base_url, api_key="wrong") as provider:
            _, error = await _ask(provider, "Hi", 5)
            assert isinstance(error, NotAuthenticated)


def test_the_catalog_knows_its_size():
    limits = catalog.limits("local", catalog.CONNECTIONS["local"].default_model)
    assert limits.context_tokens == local_model.CONTEXT_TOKENS
    assert limits.max_output_tokens == local_model.MAX_OUTPUT_TOKENS
