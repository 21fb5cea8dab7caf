"""Everything that can go wrong, each with a stable code and a sentence a person can act on.

::

    NbinlineError
    ├── RequestError            what was asked cannot be done; nothing was written
    │   ├── BadRequest             the request itself is malformed
    │   ├── UnknownNotebook        no such file, or it is not a notebook
    │   ├── UnknownCell            no such cell in the document
    │   ├── NotAPrompt             the cell is not a question
    │   ├── EmptyPrompt            the question has no text
    │   ├── PromptTooLong          the question is over the limit
    │   ├── UnknownConnection      no such connection
    │   ├── UnknownModel           the connection cannot use that model id
    │   ├── NotConfigured          the connection has no key or address yet
    │   ├── ReadOnlyNotebook       the file cannot be written
    │   ├── NotCaughtUp            the server has not seen what the asker saw
    │   ├── RunActive              the prompt is being answered already (carries the run id)
    │   ├── AnswerKept             the answer is protected by Keep answer
    │   ├── NothingToContinue      the run has no cut answer to go on from
    │   ├── UnknownRun             no such run, or not one the asker may see
    │   ├── NotAllowed             the asker has no right to do this
    │   ├── DocumentSuspect        the shared document looks emptied or doubled
    │   ├── UnknownApproval        the run asks for no such approval
    │   ├── ApprovalAnswered       somebody answered before, or the time was over
    │   ├── NotYours               only the person who asked, or the server's owner, may answer
    │   ├── Paused                 AI is paused in the notebook, its folder or on the server
    │   ├── ContextTooLarge        the fixed part of the request is over the budget
    │   └── TooManyRuns            the queue of this notebook or server is full
    ├── EditConflict            told to the model, never to a person
    │   ├── SourceChanged          somebody edited the cell meanwhile
    │   └── CellGone               the cell was deleted meanwhile
    ├── KernelError             the notebook's kernel
    │   ├── NoKernel               no kernel runs for the notebook
    │   ├── KernelBusy             it is busy and cannot be looked into, or its turn did not come
    │   ├── KernelDied             it died, or was restarted, meanwhile
    │   ├── KernelRefused          what was asked of it cannot be done there
    │   └── CellFailed             a person's cell, run by the server, did not end well
    ├── NoProgress              the model repeats itself, or never comes to an answer
    ├── RunLimit                a limit of one run was reached
    ├── RoomLost                the shared document went away under us
    ├── JournalUnavailable      the record of runs cannot be read or written
    └── ProviderError           the model's service
        ├── NotAuthenticated       401
        ├── PermissionRefused      403
        ├── ModelNotFound          404
        ├── RateLimited            429
        ├── QuotaExhausted         the account has no credit left
        ├── BadModelRequest        other 4xx
        ├── Overflow               the context is over the model's window
        ├── OutputTruncated        the output limit was reached
        ├── Refused                the model declined
        ├── ContentFiltered        a filter cut the answer
        ├── Unavailable            5xx, overloaded
        ├── ConnectFailed          no connection to the service
        ├── TimedOut               connect or silence time-out
        └── BadAnswer              a broken or unreadable stream

Cancelled is a status of a run, not an error.
"""

from __future__ import annotations

from typing import ClassVar


class NbinlineError(Exception):
    """Base of all errors of this project.

    Attributes:
        code: Stable, machine-readable, kebab-case.
        retryable: Whether the same request may succeed if it is sent again.
        http_status: What the server answers when this error ends a request.
        message: One sentence a person can act on; it never carries a secret.
        details: Further JSON values for the error body (for example ``run_id``).
    """

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    http_status: ClassVar[int] = 500
    default_message: ClassVar[str] = "Something went wrong inside the server; its log says what."

    def __init__(self, message: str | None = None, **details: str | int | float | bool) -> None:
        self.message = message or self.default_message
        self.details = details
        super().__init__(self.message)


class RequestError(NbinlineError):
    """What was asked cannot be done; nothing was written."""

    code = "bad-request"
    http_status = 400
    default_message = "The request could not be understood."


class BadRequest(RequestError):
    """The body is not the JSON object the route expects."""


class UnknownNotebook(RequestError):
    """There is no such file, or the file is not a notebook."""

    code = "unknown-notebook"
    http_status = 404
    default_message = "There is no notebook at that path. It may have been renamed or deleted."


class UnknownCell(RequestError):
    """The document has no cell of that id."""

    code = "unknown-cell"
    http_status = 404
    default_message = "That cell is not in the notebook any more."


class NotAPrompt(RequestError):
    """The cell is not a Markdown cell marked as a question."""

    code = "not-a-prompt"
    default_message = "That cell is not an AI prompt. Insert one with the + AI prompt button."


class EmptyPrompt(RequestError):
    """The question has no text."""

    code = "empty-prompt"
    default_message = "The prompt is empty. Write a question in the cell, then run it."


class PromptTooLong(RequestError):
    """The question is over the limit of characters."""

    code = "prompt-too-long"
    http_status = 413
    default_message = "The prompt is longer than 16,000 characters. Shorten it."


class UnknownConnection(RequestError):
    """No connection of that id."""

    code = "unknown-connection"
    default_message = "There is no such connection. Choose another one in the prompt's header."


class UnknownModel(RequestError):
    """The connection cannot use a model of that id."""

    code = "unknown-model"
    default_message = "That model is not available on this connection. Choose another one."


class NotConfigured(RequestError):
    """The connection has no key, or no address."""

    code = "not-configured"
    http_status = 409
    default_message = "This connection has no key yet. Set one with AI Connections and Keys…."


class ReadOnlyNotebook(RequestError):
    """The file or the asker is read-only."""

    code = "read-only"
    http_status = 403
    default_message = (
        "This notebook is read-only, so the answer could not be saved. Work on a copy."
    )


class NotCaughtUp(RequestError):
    """The server has not seen the document as the asker saw it."""

    code = "not-caught-up"
    retryable = True
    http_status = 409
    default_message = "Your latest edits have not reached the server yet. Run the prompt again."


class RunActive(RequestError):
    """The prompt is being answered already; ``details["run_id"]`` names the run."""

    code = "run-active"
    http_status = 409
    default_message = "This prompt is being answered already."


class AnswerKept(RequestError):
    """Keep answer protects the finished answer."""

    code = "answer-kept"
    http_status = 409
    default_message = "Keep answer is on for this prompt, so its answer was left as it is."


class NothingToContinue(RequestError):
    """The run ended well, has no text, or its answer is gone."""

    code = "nothing-to-continue"
    http_status = 409
    default_message = "There is no cut answer to continue. Run the prompt again instead."


class UnknownRun(RequestError):
    """No run of that id that the asker may see."""

    code = "unknown-run"
    http_status = 404
    default_message = "That run is not known to this server."


class NotAllowed(RequestError):
    """The asker has no right to do this."""

    code = "not-allowed"
    http_status = 403
    default_message = "You are not allowed to do this. Ask the owner of this server."


class DocumentSuspect(RequestError):
    """The shared document looks emptied or doubled; nothing is written into it."""

    code = "document-suspect"
    http_status = 409
    default_message = (
        "The shared notebook looks emptied or doubled since the last run, so nothing was written. "
        "Check it, then run again to go on."
    )


class UnknownApproval(RequestError):
    """The run asks for no approval of that id."""

    code = "unknown-approval"
    http_status = 404
    default_message = "There is no such request for approval. The run may have ended."


class ApprovalAnswered(RequestError):
    """The approval was answered before, or its time was over."""

    code = "approval-answered"
    http_status = 409
    default_message = "This request was answered already, or its time was over."


class NotYours(RequestError):
    """Only the person who asked, or the owner of the server, may answer an approval or revert."""

    code = "not-yours"
    http_status = 403
    default_message = "Only the person who asked the question may answer this."


class Paused(RequestError):
    """AI is paused in the notebook, in its folder or on the server."""

    code = "ai-paused"
    http_status = 409
    default_message = "AI is paused here. Ask again when it is resumed."


class ContextTooLarge(RequestError):
    """The part of the request that cannot be left out is over the budget."""

    code = "context-too-large"
    http_status = 413
    default_message = "The question with its instructions is too large for this model. Shorten it."


class TooManyRuns(RequestError):
    """The queue is full."""

    code = "too-many-runs"
    retryable = True
    http_status = 429
    default_message = "Too many prompts are waiting. Let some finish, then run this one again."


class EditConflict(NbinlineError):
    """The document moved on under an edit; the model is told, nothing was written."""

    code = "edit-conflict"
    http_status = 409


class SourceChanged(EditConflict):
    """Somebody edited the cell after it was read."""

    code = "source-changed"
    default_message = "The cell was edited meanwhile."


class CellGone(EditConflict):
    """The cell was deleted after it was read."""

    code = "cell-gone"
    default_message = "The cell was deleted while the answer was being written."


class KernelError(NbinlineError):
    """The notebook's kernel could not be used."""

    code = "kernel-error"
    http_status = 502
    default_message = "The notebook's kernel could not be used. Restart it and try again."


class NoKernel(KernelError):
    """No kernel runs for the notebook."""

    code = "no-kernel"
    http_status = 409
    default_message = "The notebook has no running kernel. Start one, then run the prompt again."


class KernelBusy(KernelError):
    """The kernel is busy, and cannot be looked into meanwhile."""

    code = "kernel-busy"
    retryable = True
    http_status = 409
    default_message = "The kernel is busy. Wait until its cells have run, or interrupt it."


class KernelDied(KernelError):
    """The kernel died, or was restarted, meanwhile; all its variables are gone."""

    code = "kernel-died"
    retryable = True
    default_message = "The kernel died or was restarted. Everything it knew is gone."


class KernelRefused(KernelError):
    """What was asked of the kernel cannot be done there."""

    code = "kernel-refused"
    http_status = 409
    default_message = "The kernel cannot do this."


class NoProgress(NbinlineError):
    """The model repeats the same call with the same result, or never comes to an answer."""

    code = "no-progress"
    http_status = 409
    default_message = (
        "The model kept repeating the same step without getting further. Ask in smaller steps, "
        "or choose another model."
    )


class RunLimit(NbinlineError):
    """A limit of one run was reached; what came stays."""

    code = "run-limit"
    http_status = 409
    default_message = "This run reached a limit of the server. Continue it to get the rest."


class CellFailed(KernelError):
    """A person's code cell, run by the server, raised an error, was interrupted or was dropped."""

    code = "cell-failed"
    http_status = 422
    default_message = "The cell failed; its outputs say how."


class RoomLost(NbinlineError):
    """The shared document went away, and joining it again failed."""

    code = "room-lost"
    retryable = True
    http_status = 503
    default_message = (
        "The shared notebook was closed under the run. Open it and run the prompt again."
    )


class JournalUnavailable(NbinlineError):
    """The record of runs cannot be read or written: disk full, read-only, locked or damaged."""

    code = "journal-unavailable"
    retryable = True
    http_status = 503
    default_message = (
        "The server cannot write its journal of runs. Check the disk of the Jupyter data directory."
    )


class ProviderError(NbinlineError):
    """The model's service failed; the code says how."""

    code = "provider-error"
    http_status = 502
    default_message = "The model's service failed."


class NotAuthenticated(ProviderError):
    """401: the key is missing, wrong or expired."""

    code = "not-authenticated"
    default_message = (
        "The service refused the API key. Set a valid one with AI Connections and Keys…."
    )


class PermissionRefused(ProviderError):
    """403: the key may not use this model or service."""

    code = "permission-refused"
    default_message = (
        "The API key is valid but may not use this model. Choose another model or key."
    )


class ModelNotFound(ProviderError):
    """404: the service does not know the model or the address."""

    code = "model-not-found"
    default_message = "The service does not know this model. Choose another one."


class RateLimited(ProviderError):
    """429 that did not go away with back-off."""

    code = "rate-limited"
    retryable = True
    default_message = "The service is limiting requests for this key. Wait a little and run again."


class QuotaExhausted(ProviderError):
    """402, or 429 for an empty balance: waiting does not help."""

    code = "quota-exhausted"
    default_message = (
        "The account behind this API key has no credit left. Add credit there or set another key."
    )


class BadModelRequest(ProviderError):
    """Another 4xx: the service did not take the request."""

    code = "bad-model-request"
    default_message = "The service did not accept the request."


class Overflow(ProviderError):
    """The request is over the model's context window."""

    code = "context-overflow"
    default_message = (
        "The context is too long for this model. Choose less context or a larger model."
    )


class OutputTruncated(ProviderError):
    """The model's output limit was reached; what came stays."""

    code = "output-truncated"
    default_message = "The model reached its output limit. Continue the answer to get the rest."


class Refused(ProviderError):
    """The model declined to answer."""

    code = "refused"
    default_message = "The model declined to answer. Rephrase the question."


class ContentFiltered(ProviderError):
    """A filter of the service cut the answer."""

    code = "content-filtered"
    default_message = "A content filter of the service stopped the answer. Rephrase the question."


class Unavailable(ProviderError):
    """5xx or overloaded."""

    code = "unavailable"
    retryable = True
    default_message = "The model's service is not available right now. Run the prompt again later."


class ConnectFailed(ProviderError):
    """The service could not be reached."""

    code = "connect-failed"
    retryable = True
    default_message = "The model's service could not be reached. Check the network and the address."


class TimedOut(ProviderError):
    """No connection, or no sign of life from the service, in time."""

    code = "timed-out"
    retryable = True
    default_message = "The model's service stopped answering. Run the prompt again."


class BadAnswer(ProviderError):
    """The stream broke off or could not be read."""

    code = "bad-answer"
    retryable = True
    default_message = "The answer broke off. Continue it, or run the prompt again."
