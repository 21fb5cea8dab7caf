"""What the Anthropic SDK raises, in our terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import anthropic

from nbinline_agent.errors import (
    BadModelRequest,
    NotAuthenticated,
    PermissionRefused,
    QuotaExhausted,
    TimedOut,
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

BY_TYPE: Mapping[str, Callable[[Said, Call], Failure]] = {
    "invalid_request_error": bad_request,
    "authentication_error": lambda said, call: Failure(NotAuthenticated()),
    "billing_error": lambda said, call: Failure(QuotaExhausted()),
    "permission_error": lambda said, call: Failure(
        PermissionRefused(PermissionRefused.default_message + call.quote(said.text))
    ),
    "not_found_error": lambda said, call: Failure(unknown_model(said, call)),
    "rate_limit_error": rate_limited,
    "timeout_error": lambda said, call: Failure(TimedOut()),
    "api_error": unavailable,
    "overloaded_error": unavailable,
    "conflict_error": unavailable,
    "request_too_large": lambda said, call: status_failure(413, said, call),
    # of parts of the API that are not used here
    "memory_precondition_failed_error": bad_request,
    "memory_path_conflict_error": bad_request,
}
"""By the type of an error body or event."""

BY_CODE: Mapping[str, Callable[[Said, Call], Failure]] = {
    "contract_spend_limit_reached": lambda said, call: Failure(QuotaExhausted()),
    "enforced_spend_limit_reached": lambda said, call: Failure(QuotaExhausted()),
    "organization_on_hold": BY_TYPE["permission_error"],
}
"""By the stable code of an error, where it says more than its type."""


def explain(exception: Exception, call: Call, opened: bool) -> Failure | None:
    """Map an exception of the Anthropic SDK; None if it is not one."""
    match exception:
        case anthropic.APITimeoutError():
            cause = exception.__cause__
            return transport_failure(cause, call, opened=opened) if cause else timed_out(call)
        case anthropic.APIConnectionError():
            return transport_failure(exception.__cause__ or exception, call, opened=opened)
        case anthropic.APIResponseValidationError():
            return unreadable(call)
        case anthropic.APIStatusError():
            return _status(exception, call)
        case anthropic.CredentialsError():
            return Failure(NotAuthenticated())
        case anthropic.RetryableError():
            return unavailable(Said(), call)
        case anthropic.AnthropicError():
            # Webhooks and other parts of the SDK that are not used here.
            return Failure(BadModelRequest())
    return None


def _status(exception: anthropic.APIStatusError, call: Call) -> Failure:
    said = _said(exception)
    if said.code in BY_CODE:
        return BY_CODE[said.code](said, call)
    if said.kind in BY_TYPE and not (exception.status_code == 429 and said.kind == "api_error"):
        # An error event inside a stream comes with the status 200.
        return BY_TYPE[said.kind](said, call)
    if exception.status_code < 300:
        return unavailable(said, call)
    return status_failure(exception.status_code, said, call)


def _said(exception: anthropic.APIStatusError) -> Said:
    body = exception.body
    error = body.get("error", body) if isinstance(body, Mapping) else None
    said = Said.of(error, exception.response.headers)
    return replace(said, code=exception.error_code or said.code)
