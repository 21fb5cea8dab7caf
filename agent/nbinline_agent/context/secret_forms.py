"""Keys and passwords that are left out of what goes to a model, known by their forms.

A table and not a library: those that exist read files line by line and guess by entropy, which
takes out hashes and data as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from nbinline_agent.messages import Message, ModelRequest, ToolAnswer, ToolSpec

Known = Callable[[], Sequence[str]]
"""Gives the very values that a server keeps secret, longer ones before what they contain."""

OWN = "key of this server"
"""The kind of such a value."""

_AWS = r"['\"]?\s{0,4}[:=]\s{0,4}['\"]?[A-Za-z0-9/+]{40}"
_FORMS: Sequence[tuple[str, str, str]] = (
    ("private key", "-----BEGIN ", r"(?:[A-Z0-9]+ ){0,3}PRIVATE KEY-----[\s\S]*?(?:-----END |\Z)"),
    ("Anthropic key", "sk-ant-", r"[A-Za-z0-9_-]{16,}"),
    ("OpenRouter key", "sk-or-", r"[A-Za-z0-9_-]{16,}"),
    ("API key", "sk-", r"(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{16,}"),
    ("AWS key", "AKIA", r"[0-9A-Z]{16}\b"),
    ("AWS key", "ASIA", r"[0-9A-Z]{16}\b"),
    ("AWS secret", "aws_secret_access_key", _AWS),
    ("AWS secret", "AWS_SECRET_ACCESS_KEY", _AWS),
    ("AWS secret", "SecretAccessKey", _AWS),
    ("Azure key", "AccountKey=", r"[A-Za-z0-9+/]{60,}={0,2}"),
    ("Databricks token", "dapi", r"[0-9a-f]{32}\b"),
    *(("GitHub token", f"gh{letter}_", r"[A-Za-z0-9]{30,}") for letter in "pousr"),
    ("GitHub token", "github_pat_", r"[A-Za-z0-9_]{40,}"),
    ("GitLab token", "glpat-", r"[A-Za-z0-9_-]{20,}"),
    ("Google key", "AIza", r"[0-9A-Za-z_-]{35}"),
    ("Google key", "GOCSPX-", r"[0-9A-Za-z_-]{20,}"),
    ("Google key", "ya29.", r"[0-9A-Za-z_-]{20,}"),
    ("Groq key", "gsk_", r"[A-Za-z0-9]{30,}"),
    ("Hugging Face token", "hf_", r"[A-Za-z0-9]{30,}"),
    ("npm token", "npm_", r"[A-Za-z0-9]{36}\b"),
    ("PyPI token", "pypi-", r"[A-Za-z0-9_-]{50,}"),
    ("Replicate token", "r8_", r"[A-Za-z0-9]{30,}"),
    ("SendGrid key", "SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    *(("Slack token", f"xox{letter}-", r"[A-Za-z0-9-]{10,}") for letter in "abeoprs"),
    *(("Stripe key", each, r"[A-Za-z0-9]{16,}") for each in ("sk_live_", "rk_live_", "sk_test_")),
    ("xAI key", "xai-", r"[A-Za-z0-9]{30,}"),
    ("signed token", "eyJ", r"[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    (
        "password in an address",
        "://",
        r"[^\s/:@'\"<>]{1,64}:[^\s/:@'\"<>]{3,128}(?=@[A-Za-z0-9.-])",
    ),
)
"""Kind, how it begins, and how it goes on."""


def _compiled(begins: str, goes_on: str) -> re.Pattern[str]:
    # A pattern that begins with plain characters is searched for a hundred times as fast; that no
    # letter stands before it is looked at behind them.
    alone = "" if begins == "://" else rf"(?<![A-Za-z0-9_-]{re.escape(begins)})"
    return re.compile(re.escape(begins) + alone + goes_on)


_PATTERNS = tuple((kind, begins, _compiled(begins, rest)) for kind, begins, rest in _FORMS)


class Left:
    """Takes secrets out of texts and counts them by kind.

    Args:
        known: The server's own.

    Attributes:
        counts: How many were left out, by kind.
    """

    def __init__(self, known: Known | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self._known = known() if known is not None else ()

    def text(self, text: str) -> str:
        """The text with a note in place of each secret."""
        for value in self._known:
            if value in text:
                self.counts[OWN] += text.count(value)
                text = text.replace(value, _note(OWN))
        for kind, begins, pattern in _PATTERNS:
            if begins in text:
                text, found = pattern.subn(_note(kind), text)
                if found:
                    self.counts[kind] += found
        return text

    def request(self, request: ModelRequest) -> ModelRequest:
        """The same request without secrets; tool traffic is not looked at, see ``answer``."""
        cleaned = replace(
            request,
            system=tuple(map(self.text, request.system)),
            messages=tuple(map(self._message, request.messages)),
            tools=tuple(map(self._tool, request.tools)),
        )
        return cleaned if self.counts else request

    def answer(self, answer: ToolAnswer) -> ToolAnswer:
        """The same result of a tool without secrets."""
        return replace(answer, text=self.text(answer.text))

    def _message(self, message: Message) -> Message:
        return replace(message, text=self.text(message.text))

    def _tool(self, tool: ToolSpec) -> ToolSpec:
        return replace(tool, description=self.text(tool.description))


def _note(kind: str) -> str:
    return f"[{kind} left out]"
