"""Answering requests: on the control channel, beside what runs; and calls on the main thread."""

from __future__ import annotations

import inspect
import json
import sys
import threading
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .docs import (
        api_names,
        inspect_python,
        inspect_value,
        search_docs,
        search_value,
        show_doc,
        source_files,
    )
    from .functions import BadArguments, bound, functions
    from .limits import VALUE_SECONDS, TooSlow, limited
    from .names import search_kernel_names, variables
    from .tracing import trace_function
    from .values import error_line, rendered, shortened, type_name, values

CHANNEL = "comm_info_request"
"""The request our questions travel in: it counts neither as activity nor as being busy."""
FIELD = "nbinline"
KEPT = 20
"""Results that are kept until they are asked for."""


class Service:
    """What a kernel answers.

    Args:
        shell: IPython's shell, whose names are looked at.
        kernel: The kernel that sends answers.
    """

    def __init__(self, shell, kernel):
        self._shell = shell
        self._kernel = kernel
        self._results = {}
        self._awaited = {}
        self._forgotten = set()

    def begin(self, stream, idents, parent):
        """Answer a question in a thread of its own; returns at once."""
        work = (stream, idents, parent, parent["content"][FIELD])
        threading.Thread(target=self._work, args=work, name="nbinline", daemon=True).start()

    def _work(self, stream, idents, parent, asked):
        try:
            answer = {"ok": self.answer(asked["what"], asked["arguments"], parent["header"])}
        except BadArguments as error:
            answer = {"bad": str(error)}
        except TooSlow:
            answer = {"bad": "it took longer than 2 seconds"}
        except BaseException as error:
            answer = {"bad": f"raised {error_line(error)}"}
        content = {"status": "ok", "comms": {}, FIELD: json.dumps(answer, default=str)}
        reply = CHANNEL.replace("request", "reply")
        stream.io_loop.add_callback(self._send, stream, reply, content, parent, idents)

    def _send(self, stream, reply, content, parent, idents):
        self._kernel.session.send(stream, reply, content, parent, ident=idents)

    def answer(self, what, arguments, parent):
        """The answer to one question; lookups in objects are limited in time."""
        names, hidden = self._shell.user_ns, self._shell.user_ns_hidden
        if what == "values":
            return values(names=names, parent=parent, **arguments)
        if what == "take":
            return self._results.pop(arguments["token"], None)
        if what == "forget":
            return self._forgotten.add(arguments["token"])
        if what == "show_busy":
            return self._show_busy()
        if what == "noted":
            # Tells a call of insert_tools() that waits what became of its note.
            waiting = sys.modules.get("nbinline_rtc.tools.notes")
            return {"known": waiting is not None and waiting.noted(**arguments)}
        if what == "functions":
            work = lambda: functions(arguments["names"], names)  # noqa: E731
        elif what in ("variables", "search_kernel_names"):
            listed = variables if what == "variables" else search_kernel_names
            work = lambda: listed(names, hidden, **arguments)  # noqa: E731
        elif what in _QUESTIONS:
            work = lambda: _QUESTIONS[what](names, **arguments)  # noqa: E731
        else:
            raise BadArguments(f"nothing is known of {what}")
        return limited(work, 5 * VALUE_SECONDS if what == "show_doc" else VALUE_SECONDS, parent)

    def _show_busy(self):
        """Say again that a cell runs: our installation beside it ended with the word idle."""
        frame = sys._current_frames().get(threading.main_thread().ident)
        while frame is not None and frame.f_code.co_name != "run_code":
            frame = frame.f_back
        if frame is not None:
            kernel = self._kernel
            parent, topic = kernel.get_parent("shell"), kernel._topic("status")
            content = {"execution_state": "busy"}
            kernel.session.send(kernel.iopub_socket, "status", content, parent=parent, ident=topic)
        return frame is not None

    # On the main thread

    def perform(self, text):
        """Do something that must be done where cells run; :meth:`answer` hands the result out."""
        asked = json.loads(text)
        if asked["token"] not in self._forgotten:
            self._keep(asked["token"], self._caught(asked, self._begin))

    async def finish(self, token):
        """Await what a function gave that was only begun."""
        asked, value = self._awaited.pop(token)
        try:
            outcome = {"ok": self._shown(await value, asked)}
        except BaseException as error:
            outcome = _failure(error)
        self._keep(token, outcome)

    def _begin(self, asked):
        names = self._shell.user_ns
        if asked["what"] == "trace_function":
            return trace_function(names, **asked["arguments"])
        function, positional, by_name = bound(asked["name"], asked["arguments"], names)
        value = function(*positional, **by_name)
        if inspect.isawaitable(value):
            self._awaited[asked["token"]] = asked, value
            return {"awaits": True}
        return self._shown(value, asked)

    def _shown(self, value, asked):
        if value is None:
            return {"text": "", "type": "NoneType", "cut": False, "images": []}
        text, images = limited(lambda: rendered(value, True), VALUE_SECONDS)
        text, cut = shortened(text, asked["length"])
        return {"text": text, "type": type_name(value), "cut": cut, "images": images}

    def _caught(self, asked, work):
        try:
            return {"ok": work(asked)}
        except BaseException as error:
            return _failure(error)

    def _keep(self, token, outcome):
        while len(self._results) >= KEPT:
            del self._results[next(iter(self._results))]
        self._results[token] = outcome


def _failure(error):
    """What went wrong, with the line of the person's own code it passed through."""
    if isinstance(error, (BadArguments, TooSlow)):
        return {"bad": str(error) or "the result could not be shown within 2 seconds"}
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "CancelledError":
        return {"interrupted": True, "bad": "it was interrupted"}
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<nbinline ")
    ]
    where = f"{frames[-1].name}, line {frames[-1].lineno}: " if frames else ""
    return {"bad": f"{where}{error_line(error)}"}


_QUESTIONS = {
    "inspect_python": inspect_python,
    "show_doc": show_doc,
    "api_names": api_names,
    "search_docs": search_docs,
    "inspect_value": inspect_value,
    "search_value": search_value,
    "source_files": source_files,
}


def install(key):
    """Listen on the control channel of this kernel; once more is as good as once."""
    shell = sys.modules["IPython"].get_ipython()
    kernel = shell.kernel
    listens = kernel.control_handlers[CHANNEL]
    if getattr(listens, "key", "") == key:
        return key
    original = getattr(listens, "original", listens)
    service = Service(shell, kernel)

    def listen(stream, idents, parent):
        if isinstance(parent["content"].get(FIELD), dict):
            return service.begin(stream, idents, parent)
        return original(stream, idents, parent)

    listen.key, listen.original, listen.service = key, original, service
    kernel.control_handlers[CHANNEL] = listen
    return key
