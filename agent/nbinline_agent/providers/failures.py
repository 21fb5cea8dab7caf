"""From what a service says to our errors: the part that is the same for every vendor.

A vendor's own words may end in a message, because they often say exactly what to do. They are
bounded, anything that looks like a key is taken out, and they are dropped altogether where they
quote the request.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio
import httpx2

from nbinline_agent.errors import (
    BadAnswer,
    BadModelRequest,
    ConnectFailed,
    ModelNotFound,
    NotAuthenticated,
    Overflow,
    PermissionRefused,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    Refused,
    TimedOut,
    Unavailable,
)
from nbinline_agent.messages import ModelRequest
from nbinline_agent.providers.retry import Failure, retry_after

_QUOTE_LIMIT = 240
_KEY_LIKE = re.compile(
    r"""(?ix)
    \b(?:sk|pk|rk|gsk|xai|hf|ghp|nvapi|api|key|token|bearer|basic|secret|password)
        [-_=:\s"']+(?:bearer\s+)?[\w.*+/=~-]{6,}
    | \beyJ[\w-]{8,}[\w.-]*            # a JSON web token
    | \bAIza[\w-]{16,}
    | (?<=://)[^/@\s]+@                # user:password@host
    | \b(?=[\w+/=*-]*\d)(?=[\w+/=*-]*[a-z])[\w+/=*-]{32,}
    """
)
_OVERFLOW = re.compile(
    r"""(?ix)
    maximum\ context\ length | context[ _]length | context\ window | context\ size
    | (?:prompt|input|request|conversation)\ is\ too\ (?:long|large)
    | too\ many\ (?:input\ )?tokens | exceeds?\ the\ (?:model'?s\ )?(?:maximum\ )?(?:input|context)
    """
)
_NO_CREDIT = re.compile(r"(?i)credit balance|insufficient (?:quota|credits?|balance|funds)|billing")
_OVERFLOW_CODES = {"context_length_exceeded", "exceed_context_size_error", "request_too_large"}
_NO_CREDIT_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_error"}

UNREADABLE = (
    AttributeError,
    TypeError,
    LookupError,
    ValueError,  # also JSON, Unicode and pydantic errors
    RecursionError,
)
"""What reading a mangled event raises, in the SDK or in the adapter."""

LOST = (
    OSError,
    ssl.SSLError,
    anyio.EndOfStream,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    httpx2.RequestError,
    httpx2.StreamError,
)
"""What a connection that goes away raises where the SDK lets it through."""


_STALE = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
"""Of a kept connection that the service was just closing: a new one will do."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a service said about a failure.

    Attributes:
        text: Its message, or an empty string.
        code: Its machine-readable code, or an empty string.
        kind: Its machine-readable type, or an empty string.
        headers: Of the response.
    """

    text: str = ""
    code: str = ""
    kind: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, error: object, headers: Mapping[str, str] | None = None) -> Said:
        """Read an error object as all vendors write it; anything else says nothing."""
        told = error if isinstance(error, Mapping) else {}
        if isinstance(error, str) and "<" not in error:
            told = {"message": error}  # Ollama's way; with a tag it is an error page
        text = told.get("message") or told.get("detail")
        code, kind = told.get("code"), told.get("type")
        return cls(
            text if isinstance(text, str) else "",
            str(code) if isinstance(code, (str, int)) else "",
            kind if isinstance(kind, str) else "",
            headers or {},
        )

    def names(self) -> set[str]:
        """Both machine-readable names."""
        return {self.code, self.kind} - {""}


@dataclass(frozen=True, slots=True)
class Call:
    """The call a failure belongs to; decides what a message may say.

    Attributes:
        request: Never quoted in a message.
        address: Scheme, host and port of the service.
        key: Never quoted in a message.
    """

    request: ModelRequest = field(repr=False)
    address: str
    key: str | None = field(default=None, repr=False)

    def quote(self, text: str) -> str:
        """A vendor's words as they may be shown: `` The service says: “…”``, or nothing."""
        words = " ".join(text.split())
        if self.key:
            words = words.replace(self.key, "[removed]")
        words = _KEY_LIKE.sub("[removed]", words)
        if len(words) > _QUOTE_LIMIT:
            words = words[:_QUOTE_LIMIT].rstrip() + "…"
        if not words or self._repeats_request(words):
            return ""
        return f" The service says: “{words}”"

    def _repeats_request(self, words: str) -> bool:
        sent = [*self.request.system, *(message.text for message in self.request.messages)]
        flat = " ".join(" ".join(sent).split())
        window = 24
        starts = range(0, max(1, len(words) - window + 1), 6)
        return len(words) >= window and any(words[i : i + window] in flat for i in starts)


def status_failure(status: int, said: Said, call: Call) -> Failure:
    """Map an HTTP error status to our taxonomy."""
    if failure := _by_content(status, said, call):
        return failure
    match status:
        case 401 | 407:
            return Failure(NotAuthenticated())
        case 402:
            return Failure(QuotaExhausted())
        case 403:
            return Failure(PermissionRefused(_with_quote(PermissionRefused, said, call)))
        case 404:
            return Failure(unknown_model(said, call))
        case 408 | 504:
            return Failure(TimedOut(_with_quote(TimedOut, said, call)))
        case 429:
            return rate_limited(said, call)
        case _ if 300 <= status < 400:
            return Failure(ConnectFailed(_redirected(call)))
        case _ if status >= 500 or status in {409, 425, 499}:
            return unavailable(said, call)
    return Failure(BadModelRequest(_with_quote(BadModelRequest, said, call)))


def _by_content(status: int, said: Said, call: Call) -> Failure | None:
    """What the words say more exactly than the status does."""
    if said.names() & _NO_CREDIT_CODES:
        return Failure(QuotaExhausted())
    if status in {400, 402, 403, 429} and _NO_CREDIT.search(said.text):
        return Failure(QuotaExhausted())
    if said.names() & _OVERFLOW_CODES or status == 413:
        return Failure(Overflow(_with_quote(Overflow, said, call)))
    if status in {400, 422, 500} and _OVERFLOW.search(said.text):
        return Failure(Overflow(_with_quote(Overflow, said, call)))
    return None


def rate_limited(said: Said, call: Call) -> Failure:
    """429: repeated after a while, or told with the time the service asks to wait."""
    after = retry_after(said.headers)
    again = {name.lower(): value for name, value in said.headers.items()}.get("x-should-retry")
    if after is not None and after >= 1:
        message = (
            f"The service is limiting requests for this key and asks to wait {_duration(after)}. "
            "Run the prompt again then."
        )
        error = RateLimited(message + call.quote(said.text), retry_after=round(after))
    else:
        error = RateLimited(_with_quote(RateLimited, said, call))
    return Failure(error, again=again != "false", after=after)


def unavailable(said: Said, call: Call) -> Failure:
    """5xx or overloaded."""
    error = Unavailable(_with_quote(Unavailable, said, call))
    return Failure(error, again=True, after=retry_after(said.headers))


def unknown_model(said: Said, call: Call) -> ModelNotFound:
    """404: the model or the address is wrong."""
    return ModelNotFound(
        f"The service at {call.address} does not know the model “{call.request.model}” or has no "
        f"such route. Choose another model, or correct the connection's address."
        + call.quote(said.text)
    )


def bad_request(said: Said, call: Call) -> Failure:
    """A request the service did not take."""
    return _by_content(400, said, call) or Failure(
        BadModelRequest(_with_quote(BadModelRequest, said, call))
    )


def timed_out(call: Call, *, connecting: bool = False, seconds: float | None = None) -> Failure:
    """Nothing came in time."""
    if connecting:
        return Failure(
            TimedOut(
                f"No connection to the model's service at {call.address} could be made in time. "
                "Check the network and the address, then run the prompt again."
            )
        )
    if seconds is None:
        return Failure(TimedOut())
    return Failure(
        TimedOut(
            f"The model's service sent nothing for {_duration(seconds)}. Run the prompt again, or "
            "allow a longer silence in the server's settings."
        )
    )


def transport_failure(exception: BaseException, call: Call, *, opened: bool) -> Failure:
    """A connection that could not be made, or broke off."""
    if isinstance(exception, ProviderError):
        return Failure(exception)  # ours, raised below an SDK that wraps whatever it meets
    if isinstance(exception, httpx2.TimeoutException):
        connecting = isinstance(exception, (httpx2.ConnectTimeout, httpx2.PoolTimeout))
        return timed_out(call, connecting=connecting)
    if isinstance(exception, httpx2.UnsupportedProtocol):
        return Failure(
            ConnectFailed("The connection's address must begin with https:// or http://.")
        )
    if isinstance(exception, httpx2.TooManyRedirects):
        return Failure(ConnectFailed(_redirected(call)))
    if isinstance(exception, httpx2.LocalProtocolError) and not opened:
        return unsendable_key()
    if opened:
        return Failure(BadAnswer(), again=True)
    return Failure(
        ConnectFailed(
            f"The model's service at {call.address} could not be reached. "
            "Check that it runs, the network and the connection's address."
        ),
        again=True,
        after=0.0 if isinstance(exception, _STALE) else None,
    )


def unsendable_key() -> Failure:
    """A key that no header can carry: the only part of a request people put there."""
    return Failure(
        NotAuthenticated(
            "The API key has characters that no key has, so it was not sent. Set it again with "
            "AI Connections and Keys…."
        )
    )


def unreadable(call: Call, text: str = "") -> Failure:
    """An answer that is not what this kind of service sends."""
    return Failure(
        BadAnswer(
            "The answer of the service could not be read. Run the prompt again; if it happens "
            "each time, check that the connection's address belongs to this kind of service."
            + call.quote(text)
        )
    )


def _with_quote(kind: type[ProviderError], said: Said, call: Call) -> str:
    return kind.default_message + call.quote(said.text)


def _redirected(call: Call) -> str:
    return (
        f"The address {call.address} redirects elsewhere, and a key is never sent along. "
        "Set the final address of the service."
    )


def _duration(seconds: float) -> str:
    if seconds >= 120:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds:.3g} s"


def refusal_message(words: str, call: Call) -> str:
    """What a refusal with an explanation of the model or service says."""
    return f"{Refused.default_message}{call.quote(words)}"
