"""When a call is repeated, what the catalog knows, and who may leave this machine."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbinline_agent.errors import ConnectFailed, NotAuthenticated, RateLimited, Unavailable
from nbinline_agent.providers import base, catalog
from nbinline_agent.providers.retry import Failure, RetryPolicy, retry_after

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After-Ms": "250", "Retry-After": "1"}, 0.25),
        ({"Retry-After-Ms": "x", "Retry-After": "1"}, 1.0),
        ({"Retry-After": format_datetime(NOW + timedelta(seconds=90), usegmt=True)}, 90.0),
        ({"Retry-After": format_datetime(NOW - timedelta(days=1), usegmt=True)}, 0.0),
        ({"Retry-After": "Tue, 01 Dec 2026 12:00:05 -0000"}, 5.0),
    ],
)
def test_what_a_service_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=NOW.timestamp()) == seconds


@given(st.text(), st.sampled_from(["Retry-After", "retry-after-ms"]))
def test_any_header_is_understood_or_passed_over(value: str, name: str) -> None:
    seconds = retry_after({name: value})
    assert seconds is None or seconds >= 0


@given(st.integers(1, 10), st.one_of(st.none(), st.floats(0, 1e6)))
def test_waiting_is_bounded(attempt: int, after: float | None) -> None:
    policy = RetryPolicy()
    wait = policy.wait(Failure(RateLimited(), again=True, after=after), attempt)
    if attempt > policy.rate_limited or (after is not None and after > policy.patience):
        assert wait is None
    elif after is None or (after == 0 and attempt > 1):
        assert wait is not None
        assert 0 < wait <= policy.longest
    else:
        assert wait is not None
        assert after <= wait <= 1.1 * after


def test_back_off_doubles_and_spreads() -> None:
    policy = RetryPolicy(first=1.0, longest=100.0)
    failure = Failure(RateLimited(), again=True)
    for attempt, most in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0)):
        waits = {policy.wait(failure, attempt) for _ in range(50)}
        assert all(wait is not None and most / 2 <= wait <= most for wait in waits)
        assert len(waits) > 1


def test_what_does_not_pass_is_not_repeated() -> None:
    policy = RetryPolicy()
    assert policy.wait(Failure(NotAuthenticated()), 1) is None
    assert policy.wait(Failure(Unavailable(), again=True), 2) is not None
    assert policy.wait(Failure(Unavailable(), again=True), 3) is None


class TestCatalog:
    def test_the_connections_of_the_contract(self) -> None:
        assert list(catalog.CONNECTIONS) == [
            "openai_api",
            "anthropic_api",
            "openai_codex_subscription",
            "openai_compatible",
            "local",
        ]

    @pytest.mark.parametrize("connection", catalog.CONNECTIONS.values(), ids=lambda c: c.id)
    def test_limits_make_sense(self, connection: catalog.Connection) -> None:
        ids = [known.id for known in connection.models]
        assert len(set(ids)) == len(ids)
        for known in (*connection.models, connection.other):
            limits = known.limits
            assert 1 < limits.chars_per_token < 6
            asked = limits.default_output_tokens or 0
            assert asked <= (limits.max_output_tokens or 10**9)
            assert asked < (limits.context_tokens or 10**9)

    def test_any_other_model_may_be_typed(self) -> None:
        typed = catalog.model("anthropic_api", "claude-next-9")
        assert typed.id == "claude-next-9"
        assert not typed.adaptive_thinking
        assert catalog.limits("openai_compatible", "llama-9").context_tokens is None

    def test_a_dated_snapshot_is_its_family(self) -> None:
        dated = catalog.model("anthropic_api", "claude-haiku-4-5-20251001")
        assert dated.id == "claude-haiku-4-5-20251001"
        assert dated.limits == catalog.limits("anthropic_api", "claude-haiku-4-5")

    def test_what_a_person_may_know(self) -> None:
        info = catalog.CONNECTIONS["openai_api"].info(configured=True, source="saved")
        assert info.default_model == info.models[0] == "gpt-6.2-sol"
        assert info.efforts["gpt-6-luna"][0] == "none"
        served = catalog.CONNECTIONS["openai_compatible"].info(
            configured=True, source="none-needed", models=("llama",)
        )
        assert served.default_model == "llama"
        assert "wrong" in catalog.CONNECTIONS["local"].notice


@pytest.mark.parametrize(
    "host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"]
)
def test_this_machine(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "ALLOW_REQUESTS", False)
    base.check_allowed(host)


@pytest.mark.parametrize(
    "host", ["api.openai.com", "127.0.0.1.example.org", "localhost.example.org", "10.0.0.1", ""]
)
def test_other_machines(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "ALLOW_REQUESTS", False)
    with pytest.raises(ConnectFailed):
        base.check_allowed(host)
    monkeypatch.setattr(base, "ALLOW_REQUESTS", True)
    base.check_allowed(host)


def test_tests_stay_on_this_machine() -> None:
    assert base.ALLOW_REQUESTS is False
