"""Keys and passwords never leave in a request, whatever form they have."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbinline_agent.context.secret_forms import OWN, Left
from nbinline_agent.messages import Message, ModelRequest, ToolAnswer, ToolSpec

LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF" * 3

SECRETS = {
    f"sk-ant-api03-{LETTERS[:40]}": "Anthropic key",
    f"sk-or-v1-{LETTERS[:40]}": "OpenRouter key",
    f"sk-proj-{LETTERS[:40]}": "API key",
    "sk-test-0123456789abcdef": "API key",
    f"AKIA{'ABCD' * 4}": "AWS key",
    f"aws_secret_access_key = {LETTERS[:40]}": "AWS secret",
    f"AccountKey={LETTERS[:86]}==": "Azure key",
    f"dapi{'0a' * 16}": "Databricks token",
    f"ghp_{LETTERS[:36]}": "GitHub token",
    f"github_pat_{LETTERS[:60]}": "GitHub token",
    f"glpat-{LETTERS[:20]}": "GitLab token",
    f"AIza{LETTERS[:35]}": "Google key",
    f"gsk_{LETTERS[:52]}": "Groq key",
    f"hf_{LETTERS[:34]}": "Hugging Face token",
    f"npm_{LETTERS[:36]}": "npm token",
    f"pypi-{LETTERS[:60]}": "PyPI token",
    f"r8_{LETTERS[:37]}": "Replicate token",
    f"SG.{LETTERS[:22]}.{LETTERS[:43]}": "SendGrid key",
    f"xoxb-{LETTERS[:40]}": "Slack token",
    f"sk_live_{LETTERS[:24]}": "Stripe key",
    f"xai-{LETTERS[:60]}": "xAI key",
    f"eyJ{LETTERS[:20]}.eyJ{LETTERS[:30]}.{LETTERS[:43]}": "signed token",
    f"-----BEGIN RSA PRIVATE KEY-----\n{LETTERS}\n-----END RSA PRIVATE KEY-----": "private key",
}


@pytest.mark.parametrize("secret", SECRETS, ids=list(SECRETS.values()))
def test_every_form_is_left_out_and_named(secret: str) -> None:
    for text in (secret, f'key = "{secret}"', f"a\n{secret}\nb", f"({secret})", f"KEY={secret};"):
        left = Left()
        cleaned = left.text(text)
        assert LETTERS[:12] not in cleaned
        assert secret not in cleaned
        assert left.counts == {SECRETS[secret]: 1}, cleaned
        assert f"[{SECRETS[secret]} left out]" in cleaned


def test_a_password_in_an_address() -> None:
    left = Left()
    cleaned = left.text("create_engine('postgresql://ada:hunter2pass@db.example/x')")
    assert "hunter2pass" not in cleaned
    assert "db.example/x" in cleaned
    assert left.counts == {"password in an address": 1}


@pytest.mark.parametrize(
    "text",
    [
        "from sklearn import svm  # sk-learn is a library, see sk-learn-contrib-something-long",
        "task-1234567890123456789, risk-based-approach-1234567",
        "https://example.test:8080/path?user=ada@example.test",
        "git@github.test:ada/course.git and http://localhost:8888/lab",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
        "SG.head() and hf_model, xai-lab, dapi_url, npm_config, AIzawl",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    left = Left()
    assert left.text(text) == text
    assert not left.counts


def test_the_servers_own_values() -> None:
    left = Left(lambda: ["gateway-value-long", "gateway-value"])
    assert left.text("x gateway-value-long y gateway-value") == (
        f"x [{OWN} left out] y [{OWN} left out]"
    )
    assert left.counts == {OWN: 2}


def test_a_whole_request_and_a_result() -> None:
    key = f"sk-proj-{LETTERS[:40]}"
    request = ModelRequest(
        model="m",
        system=("Be brief.", f"k = '{key}'"),
        messages=(Message("user", f"What is {key}?"), Message("assistant", key)),
        tools=(ToolSpec("f", f"Uses {key}", {}),),
    )
    left = Left()
    cleaned = left.request(request)
    assert key not in repr(cleaned)
    assert left.counts == {"API key": 4}
    assert cleaned.system[0] == "Be brief."
    answer = left.answer(ToolAnswer("c", f"stdout: {key}", failed=True))
    assert answer == ToolAnswer("c", "stdout: [API key left out]", failed=True)


def test_a_request_without_secrets_is_the_same() -> None:
    request = ModelRequest(model="m", system=("Be brief.",), messages=(Message("user", "Why?"),))
    assert Left().request(request) is request


@given(st.text(max_size=200), st.sampled_from(sorted(SECRETS)), st.text(max_size=200))
def test_whatever_stands_around(before: str, secret: str, after: str) -> None:
    assert secret not in Left().text(f"{before} {secret} {after}")


@given(st.text(max_size=400))
def test_twice_is_as_once(text: str) -> None:
    once = Left().text(text)
    again = Left()
    assert again.text(once) == once
    assert not again.counts


@pytest.mark.parametrize(
    "text",
    [
        "eyJ" + "a-eyJ" * 200_000,
        "eyJaaaaaaaaaaa." * 60_000,
        "-SG.aaaaaaaaaaaaaaaaaaa" * 40_000,
        "sk-" + "a-" * 500_000,
        "://a:" * 200_000,
        "-----BEGIN PRIVATE KEY-----" * 30_000,
    ],
    ids=lambda text: text[:10],
)
def test_no_text_takes_long(text: str) -> None:
    started = time.perf_counter()
    Left().text(text)
    assert time.perf_counter() - started < 3.0  # 0.04 s on a machine with nothing else to do
