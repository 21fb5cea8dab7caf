"""The child process of the local connection: an OpenAI-compatible server around one GGUF file.

It is run as ``python -m nbinline_rtc.local_engine`` and speaks to its parent over its standard
streams only. The first line of input is a JSON object with the settings, the key among them, so
that no key stands in the arguments or the environment. Once the model is loaded it answers with
one JSON line. It ends when its input ends, which is also what happens when the parent is killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

MODEL_NAME = "local"
"""What the server calls its model, so that no path of this machine is told to clients."""


def main() -> None:
    """Serve until the parent closes our input, or goes away."""
    settings = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    server = _serve(settings)
    sys.stdout.write(json.dumps({"address": server.listening_address}) + "\n")
    sys.stdout.flush()
    threading.Event().wait()


def _serve(settings: dict[str, Any]) -> Any:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = settings["model_path"]
    parameters.model_alias = {MODEL_NAME}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [settings["key"]]
    parameters.n_parallel = settings["slots"]
    # The context is shared out evenly among the slots.
    parameters.n_ctx = settings["context_tokens"] * settings["slots"]
    for processor in (parameters.cpuparams, parameters.cpuparams_batch):
        processor.n_threads = settings["threads"]
        # Threads that wait by spinning would take the time of those they wait for.
        processor.poll = 0
    # Without these a model this small soon repeats itself.
    parameters.sampling.temp = 0.2
    parameters.sampling.top_p = 0.9
    parameters.sampling.penalty_repeat = 1.1
    parameters.cache_ram_mib = 0
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.offline = True
    parameters.cors_origins = "http://127.0.0.1"
    parameters.verbosity = 1
    return xllamacpp.Server(parameters)


def _end_with_parent() -> None:
    while sys.stdin.readline():
        pass
    # Not sys.exit: the engine's own threads must not keep a child alive that nobody owns.
    os._exit(0)


if __name__ == "__main__":
    main()
