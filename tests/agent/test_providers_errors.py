"""Every exception and every ending of the SDKs has its place in our taxonomy."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

import anthropic
import anthropic.types
import httpx2
import openai
import pytest
from anthropic.types import stop_reason
from anthropic.types.shared import error_type
from openai.types.chat import chat_completion_chunk
from openai.types.responses import Response, ResponseError, ResponseStreamEvent

from nbinline_agent import errors
from nbinline_agent.messages import EndReason, Message, ModelRequest
from nbinline_agent.providers import (
    anthropic as anthropic_adapter,
)
from nbinline_agent.providers import (
    anthropic_errors,
    chat,
    failures,
    openai_errors,
)
from nbinline_agent.providers import (
    openai as openai_adapter,
)
from nbinline_agent.providers.failures import Call, Said

KEY = "sk-test-0123456789abcdef"
CALL = Call(
    ModelRequest("m-1", ("Be brief.",), (Message("user", "What is the secret of this cell?"),)),
    "https://api.example.org",
    KEY,
)
REQUEST = httpx2.Request("POST", "https://api.example.org/v1", headers={"x-api-key": KEY})


def subclasses(base: type[BaseException]) -> Iterator[type[BaseException]]:
    yield base
    for each in base.__subclasses__():
        yield from subclasses(each)


def response(status: int, headers: dict[str, str] | None = None) -> httpx2.Response:
    return httpx2.Response(status, request=REQUEST, headers=headers)


def code_of(kind: type[BaseException]) -> str | None:
    """The stable code that belongs to one of Anthropic's narrow classes."""
    told = get_args(kind.__dict__.get("__annotations__", {}).get("error_code"))
    return told[0] if told else None


def example(kind: type[BaseException]) -> Exception:
    """An instance as the SDK makes it."""
    made: Any
    if issubclass(kind, (openai.OAuthError,)):
        made = kind(response=response(401), body={"error": "invalid_grant"})
    elif issubclass(kind, (openai.APIStatusError, anthropic.APIStatusError)):
        status = getattr(kind, "status_code", 500)
        status = status if isinstance(status, int) else 500
        body = {"error": {"details": {"error_code": code_of(kind)}}}
        made = kind("text", response=response(status), body=body)
    elif issubclass(
        kind, (openai.APIResponseValidationError, anthropic.APIResponseValidationError)
    ):
        made = kind(response(200), None)
    elif issubclass(kind, (openai.APIConnectionError, anthropic.APIConnectionError)):
        made = kind(request=REQUEST)
    elif issubclass(kind, (openai.APIError, anthropic.APIError)):
        made = kind("text", REQUEST, body=None)
    elif issubclass(kind, openai.LengthFinishReasonError):
        made = kind(completion=chat_completion_chunk.ChatCompletionChunk.construct(usage=None))
    elif issubclass(kind, openai.ContentFilterFinishReasonError):
        made = kind()
    elif issubclass(kind, openai.WebSocketConnectionClosedError):
        made = kind("text", unsent_messages=[])
    else:
        # Misuse of the SDK: the constructors differ, and only the class is looked at.
        made = kind.__new__(kind)
    assert isinstance(made, Exception)
    return made


OPENAI = {
    "OpenAIError": "bad-model-request",
    "SubjectTokenProviderError": "bad-model-request",
    "APIError": "unavailable",
    "APIResponseValidationError": "bad-answer",
    "APIStatusError": "unavailable",
    "APIConnectionError": "connect-failed",
    "APITimeoutError": "timed-out",
    "BadRequestError": "bad-model-request",
    "AuthenticationError": "not-authenticated",
    "OAuthError": "not-authenticated",
    "PermissionDeniedError": "permission-refused",
    "NotFoundError": "model-not-found",
    "ConflictError": "unavailable",
    "UnprocessableEntityError": "bad-model-request",
    "RateLimitError": "rate-limited",
    "InternalServerError": "unavailable",
    "LengthFinishReasonError": "output-truncated",
    "ContentFilterFinishReasonError": "content-filtered",
    "WebSocketConnectionClosedError": "bad-model-request",
    "WebSocketQueueFullError": "bad-model-request",
    "InvalidWebhookSignatureError": "bad-model-request",
    # misuse of parts of the SDK that are not used here
    "APIRemovedInV1": "bad-model-request",
    "MutuallyExclusiveAuthError": "bad-model-request",
    "StreamAlreadyConsumed": "bad-model-request",
    "_AmbiguousModuleClientUsageError": "bad-model-request",
}

ANTHROPIC = {
    "AnthropicError": "bad-model-request",
    "APIError": "bad-model-request",
    "APIResponseValidationError": "bad-answer",
    "APIWebhookValidationError": "bad-model-request",
    "APIStatusError": "unavailable",
    "APIConnectionError": "connect-failed",
    "APITimeoutError": "timed-out",
    "RetryableError": "unavailable",
    "CredentialsError": "not-authenticated",
    "IdentityTokenFileError": "not-authenticated",
    "BadRequestError": "bad-model-request",
    "AuthenticationError": "not-authenticated",
    "PaymentRequiredError": "quota-exhausted",
    "PermissionDeniedError": "permission-refused",
    "NotFoundError": "model-not-found",
    "RequestTimeoutError": "timed-out",
    "ConflictError": "unavailable",
    "PreconditionFailedError": "bad-model-request",
    "ContentTooLargeError": "context-overflow",
    "UnprocessableEntityError": "bad-model-request",
    "RateLimitError": "rate-limited",
    "RequestHeaderFieldsTooLargeError": "bad-model-request",
    "ClientClosedRequestError": "unavailable",
    "InternalServerError": "unavailable",
    "HTTPNotImplementedError": "unavailable",
    "ServiceUnavailableError": "unavailable",
    "GatewayTimeoutError": "timed-out",
    "OverloadedError": "unavailable",
    # narrower than their base
    "ContractSpendLimitReachedError": "quota-exhausted",
    "EnforcedSpendLimitReachedError": "quota-exhausted",
    "OrganizationOnHoldError": "permission-refused",
    # misuse of parts of the SDK that are not used here
    "MissingDependencyError": "bad-model-request",
    "MutuallyExclusiveAuthError": "bad-model-request",
    "StreamAlreadyConsumed": "bad-model-request",
    "ToolsetUsageError": "bad-model-request",
    "WorkloadIdentityError": "bad-model-request",
}

ROOTS = {"OpenAIError", "AnthropicError", "APIError", "APIStatusError"}
"""Say too little: a class right below one of these must be named in the table."""


def expected(kind: type[BaseException], table: Mapping[str, str]) -> str:
    """The code of the class, or of its nearest base that is named."""
    for base in kind.__mro__:
        if base is kind or base.__name__ not in ROOTS:
            if base.__name__ in table:
                return table[base.__name__]
    raise AssertionError(f"{kind} of the SDK is new: decide what it means")


def of_sdk(base: type[BaseException], package: str) -> list[type[BaseException]]:
    found = {each for each in subclasses(base) if each.__module__.partition(".")[0] == package}
    return sorted(found, key=lambda each: each.__name__)


@pytest.mark.parametrize(
    "kind",
    [*of_sdk(openai.OpenAIError, "openai"), openai.InvalidWebhookSignatureError],
    ids=lambda kind: kind.__name__,
)
def test_every_exception_of_openai_is_mapped(kind: type[BaseException]) -> None:
    failure = openai_errors.explain(example(kind), CALL, False)
    assert failure is not None
    assert failure.error.code == expected(kind, OPENAI)


@pytest.mark.parametrize(
    "kind", of_sdk(anthropic.AnthropicError, "anthropic"), ids=lambda kind: kind.__name__
)
def test_every_exception_of_anthropic_is_mapped(kind: type[BaseException]) -> None:
    failure = anthropic_errors.explain(example(kind), CALL, False)
    assert failure is not None
    assert failure.error.code == expected(kind, ANTHROPIC)


HTTP = {
    "ConnectTimeout": "timed-out",
    "ReadTimeout": "timed-out",
    "WriteTimeout": "timed-out",
    "PoolTimeout": "timed-out",
    "TimeoutException": "timed-out",
}


@pytest.mark.parametrize("kind", of_sdk(httpx2.RequestError, "httpx2"), ids=lambda k: k.__name__)
def test_every_exception_of_the_http_client_is_mapped(kind: type[BaseException]) -> None:
    exception = kind("text")
    assert isinstance(exception, httpx2.RequestError)
    before = failures.transport_failure(exception, CALL, opened=False)
    after = failures.transport_failure(exception, CALL, opened=True)
    # What this side would not send: a header, and the only one people fill is the key.
    unsendable = {"LocalProtocolError": "not-authenticated"}
    assert before.error.code == {**HTTP, **unsendable}.get(kind.__name__, "connect-failed")
    never_sent = {"UnsupportedProtocol": "connect-failed", "TooManyRedirects": "connect-failed"}
    assert after.error.code == {**HTTP, **never_sent}.get(kind.__name__, "bad-answer")
    assert isinstance(exception, failures.LOST)


def literals(annotation: object) -> set[str]:
    """Every literal text inside an annotation."""
    found = {each for each in get_args(annotation) if isinstance(each, str)}
    for inner in get_args(annotation):
        if get_args(inner):
            found |= literals(inner)
    return found


def test_every_code_of_a_failed_response_is_mapped() -> None:
    codes = literals(ResponseError.model_fields["code"].annotation)
    assert "server_error" in codes
    assert codes <= set(openai_errors.BY_CODE)


def test_every_reason_of_an_incomplete_response_is_mapped() -> None:
    annotation = Response.model_fields["incomplete_details"].annotation
    (details,) = [each for each in get_args(annotation) if each is not type(None)]
    reasons = literals(details.model_fields["reason"].annotation)
    assert "max_output_tokens" in reasons
    assert reasons <= {reason for reason in openai_adapter.INCOMPLETE if reason}


def test_every_status_of_a_response_has_its_event() -> None:
    statuses = literals(Response.model_fields["status"].annotation)
    ends = {"completed", "failed", "incomplete", "queued"}
    # A streamed response is never cancelled by somebody else, and in progress is no end.
    assert statuses == ends | {"cancelled", "in_progress"}
    assert {f"response.{status}" for status in ends} <= set(openai_adapter.HANDLERS)


def test_every_finish_reason_of_chat_is_mapped() -> None:
    reasons = literals(chat_completion_chunk.Choice.model_fields["finish_reason"].annotation)
    assert "stop" in reasons
    assert reasons <= set(chat.FINISH)


def test_every_stop_reason_of_anthropic_is_mapped() -> None:
    assert literals(stop_reason.StopReason) <= set(anthropic_adapter.STOP)
    assert anthropic_adapter.STOP["end_turn"] is EndReason.COMPLETE


def test_every_error_type_of_anthropic_is_mapped() -> None:
    assert literals(error_type.ErrorType) <= set(anthropic_errors.BY_TYPE)


PASSED_OVER = (
    "response.audio.",
    "response.code_interpreter_call",
    "response.compaction.",
    "response.content_part.",
    "response.created",
    "response.custom_tool_call_input.",
    "response.file_search_call.",
    "response.function_call_arguments.done",
    "response.image_generation_call.",
    "response.in_progress",
    "response.mcp_",
    "response.output_text.annotation.added",
    "response.reasoning_summary_part.",
    "response.reasoning_summary_text.done",
    "response.reasoning_text.done",
    "response.refusal.done",
    "response.shell_call_",
    "response.web_search_call.",
)
"""Said again elsewhere, or of tools of the service that are never offered."""


def types_of(union: object) -> set[str]:
    (members, *_) = get_args(union) if get_origin(union) is not None else (union,)
    return {
        name
        for member in get_args(members)
        for name in literals(member.model_fields["type"].annotation)
    }


def test_every_event_of_a_response_is_handled_or_passed_over_on_purpose() -> None:
    known = types_of(ResponseStreamEvent)
    assert "response.output_text.delta" in known
    for name in known:
        assert name in openai_adapter.HANDLERS or name.startswith(PASSED_OVER), name
    assert not any(name.startswith(PASSED_OVER) for name in openai_adapter.HANDLERS)


def test_every_event_of_a_message_is_handled() -> None:
    assert types_of(anthropic.types.RawMessageStreamEvent) == set(anthropic_adapter.HANDLERS)


@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        (300, Said(), "connect-failed"),
        (307, Said(), "connect-failed"),
        (400, Said("bad temperature"), "bad-model-request"),
        (400, Said("This model's maximum context length is 8192 tokens"), "context-overflow"),
        (400, Said("prompt is too long: 210000 tokens > 200000 maximum"), "context-overflow"),
        (400, Said("too much", code="context_length_exceeded"), "context-overflow"),
        (400, Said("x", kind="exceed_context_size_error"), "context-overflow"),
        (400, Said("Your credit balance is too low"), "quota-exhausted"),
        (401, Said(), "not-authenticated"),
        (402, Said(), "quota-exhausted"),
        (403, Said("region"), "permission-refused"),
        (404, Said("no such model"), "model-not-found"),
        (405, Said(), "bad-model-request"),
        (408, Said(), "timed-out"),
        (409, Said(), "unavailable"),
        (413, Said(), "context-overflow"),
        (418, Said(), "bad-model-request"),
        (422, Said("field required"), "bad-model-request"),
        (429, Said(), "rate-limited"),
        (
            429,
            Said("You exceeded your current quota", code="insufficient_quota"),
            "quota-exhausted",
        ),
        (500, Said(), "unavailable"),
        (500, Said("the request exceeds the available context size"), "context-overflow"),
        (502, Said("<html>"), "unavailable"),
        (503, Said(), "unavailable"),
        (504, Said(), "timed-out"),
        (529, Said(kind="overloaded_error"), "unavailable"),
        (599, Said(), "unavailable"),
    ],
)
def test_statuses(status: int, said: Said, code: str) -> None:
    assert failures.status_failure(status, said, CALL).error.code == code


def test_any_status_has_a_sentence() -> None:
    for status in range(300, 600):
        error = failures.status_failure(status, Said(), CALL).error
        assert error.message.endswith(".")
        assert type(error) is not errors.ProviderError


class TestQuoting:
    @pytest.mark.parametrize(
        "words",
        [
            f"Incorrect API key provided: {KEY}.",
            "Incorrect API key provided: sk-pr********************abcd.",
            "Bearer abcdefghijklmnop is expired",
            "token=0123456789abcdef",
            "bad header Authorization: Basic dXNlcjpwYXNzd29yZA==",
            "see https://user:password@proxy.example.org/v1",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
            "gsk_abcdef0123456789abcdef",
            "AIzaSyA1234567890abcdefghij",
            "hash 0123456789abcdef0123456789abcdef01",
        ],
    )
    def test_keys_are_taken_out(self, words: str) -> None:
        told = CALL.quote(words)
        for secret in (KEY, "abcd", "abcdefghijklmnop", "0123456789abcdef", "dXNl", "password@"):
            assert secret not in told
        assert "[removed]" in told

    def test_plain_words_stay(self) -> None:
        words = "The model `claude-sonnet-4-5-20250929` does not exist in workspace 17."
        assert CALL.quote(words) == f" The service says: “{words}”"

    def test_the_request_is_never_repeated(self) -> None:
        assert CALL.quote("invalid: What is the secret of\n this cell? is not allowed") == ""
        assert CALL.quote("a" * 100 + " secret of this cell? What is the") != ""

    def test_it_is_bounded(self) -> None:
        assert len(CALL.quote("word " * 5_000)) < 300

    def test_nothing_is_said_about_nothing(self) -> None:
        assert CALL.quote("  \n ") == ""


def test_an_error_page_is_not_quoted() -> None:
    exception = openai.InternalServerError("<html>…", response=response(502), body="<html>…")
    failure = openai_errors.explain(exception, CALL, False)
    assert failure is not None
    assert "html" not in failure.error.message


def test_a_bare_word_is_quoted() -> None:
    exception = openai.NotFoundError(
        "x", response=response(404), body="model 'x' not found, pull it"
    )
    failure = openai_errors.explain(exception, CALL, False)
    assert failure is not None
    assert "pull it" in failure.error.message


def test_a_call_does_not_show_what_it_holds() -> None:
    assert KEY not in repr(CALL)
    assert "secret of this cell" not in repr(CALL)


def test_a_key_in_the_address_is_not_told() -> None:
    from nbinline_agent.providers.http import address

    assert address("https://u:pw@gate.example.org:8443/sk-123/v1?key=1") == (
        "https://gate.example.org:8443"
    )
