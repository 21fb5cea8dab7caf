"""What the OpenAI SDK raises, in our terms: shared by the two adapters that use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import openai

from nbinline_agent.errors import (
    BadModelRequest,
    ContentFiltered,
    NotAuthenticated,
    OutputTruncated,
    PermissionRefused,
    QuotaExhausted,
)
from nbinline_agent.providers.failures import (
    Call,
    Said,
    bad_request,
    rate_limited,
    status_failure,
    timed_out,
    transport_failure,
    unavailable,
    unknown_model,
    unreadable,
)
from nbinline_agent.providers.retry import Failure

Explain = Callable[[Said, Call], Failure]

_IMAGE_CODES = (
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "invalid_image_mode",
    "image_file_too_large",
    "unsupported_image_media_type",
    "empty_image_file",
    "failed_to_download_image",
    "image_file_not_found",
)

BY_CODE: Mapping[str, Explain] = {
    # of a failed response
    "server_error": unavailable,
    "rate_limit_exceeded": rate_limited,
    "invalid_prompt": bad_request,
    "data_residency_mismatch": bad_request,
    "bio_policy": lambda said, call: Failure(ContentFiltered()),
    "misalignment_policy_violation": lambda said, call: Failure(ContentFiltered()),
    "image_content_policy_violation": lambda said, call: Failure(ContentFiltered()),
    "vector_store_timeout": unavailable,
    **dict.fromkeys(_IMAGE_CODES, bad_request),
    # of error bodies and error events; compatible servers use these too
    "insufficient_quota": lambda said, call: Failure(QuotaExhausted()),
    "billing_hard_limit_reached": lambda said, call: Failure(QuotaExhausted()),
    "content_filter": lambda said, call: Failure(ContentFiltered()),
    "content_policy_violation": lambda said, call: Failure(ContentFiltered()),
    "invalid_api_key": lambda said, call: Failure(NotAuthenticated()),
    "authentication_error": lambda said, call: Failure(NotAuthenticated()),
    "permission_error": lambda said, call: Failure(PermissionRefused()),
    "model_not_found": lambda said, call: Failure(unknown_model(said, call)),
    "not_found_error": lambda said, call: Failure(unknown_model(said, call)),
    "NotFoundError": lambda said, call: Failure(unknown_model(said, call)),
    "rate_limit_error": rate_limited,
    "tokens": rate_limited,
    "requests": rate_limited,
    "invalid_request_error": bad_request,
    "BadRequestError": bad_request,
    "overloaded_error": unavailable,
    "service_unavailable": unavailable,
    "api_error": unavailable,
    "internal_error": unavailable,
    "InternalServerError": unavailable,
}
"""By the machine-readable code or type of an error."""


def explain(exception: Exception, call: Call, opened: bool) -> Failure | None:
    """Map an exception of the OpenAI SDK; None if it is not one."""
    match exception:
        case openai.APITimeoutError():
            cause = exception.__cause__
            return transport_failure(cause, call, opened=opened) if cause else timed_out(call)
        case openai.APIConnectionError():
            return transport_failure(exception.__cause__ or exception, call, opened=opened)
        case openai.APIResponseValidationError():
            return unreadable(call)
        case openai.APIStatusError():
            return _status(exception, call)
        case openai.APIError():
            return named_failure(_said(exception), call)
        case openai.ContentFilterFinishReasonError():
            return Failure(ContentFiltered())
        case openai.LengthFinishReasonError():
            return Failure(OutputTruncated())
        case openai.OpenAIError() | openai.InvalidWebhookSignatureError():
            # Missing or conflicting credentials, and parts of the SDK that are not used here.
            return Failure(BadModelRequest())
    return None


def named_failure(said: Said, call: Call) -> Failure:
    """Map an error that came without a status, such as an event in the stream."""
    for name in (said.code, said.kind):
        if name in BY_CODE:
            return BY_CODE[name](said, call)
        if name.isdigit() and 300 <= int(name) < 600:
            return status_failure(int(name), said, call)
    named = bad_request(said, call)
    return named if not isinstance(named.error, BadModelRequest) else unavailable(said, call)


def _status(exception: openai.APIStatusError, call: Call) -> Failure:
    said = _said(exception)
    if said.code in BY_CODE and exception.status_code < 500 and said.code != "not_found_error":
        return BY_CODE[said.code](said, call)
    return status_failure(exception.status_code, said, call)


def _said(exception: openai.APIError) -> Said:
    headers = exception.response.headers if isinstance(exception, openai.APIStatusError) else None
    # A body that is no JSON is an error page, not a message.
    return Said.of(exception.body, headers)
