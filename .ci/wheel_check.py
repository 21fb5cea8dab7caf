"""With the installed wheel only: what Jupyter says of it, the doctor, and a server that answers."""

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

BIN = Path(sys.executable).parent


def main(home: Path) -> None:
    """Exit with a sentence where something is not as it must be."""
    for name in ("config", "data", "runtime", "work"):
        (home / name).mkdir(parents=True)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")},
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "XDG_CONFIG_HOME": str(home / "config"),
    }

    def told(*words: str, **more: str) -> str:
        ended = subprocess.run(
            [str(BIN / "jupyter"), *words],
            env={**environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        text = ended.stdout + ended.stderr
        print(f"$ jupyter {' '.join(words)}\n{text}")
        if ended.returncode:
            sys.exit(f"`jupyter {' '.join(words)}` ended with {ended.returncode}")
        return re.sub(r"\x1b\[[0-9;]*m", "", text)

    version = told("nbinline", "--version").strip()
    expect(r"nbinline_rtc enabled[\s\S]*nbinline_rtc \S* ?OK", told("server", "extension", "list"))
    expect(rf"@nbinline/lab v{re.escape(version)} enabled OK", told("labextension", "list"))
    told("nbinline", "doctor", OPENAI_API_KEY="sk-for-the-doctor-only")
    serve(home, environment, version)
    print("5 passed, 0 failed")


def expect(pattern: str, text: str) -> None:
    """Exit unless the text holds the pattern."""
    if not re.search(pattern, text):
        sys.exit(f"expected {pattern!r}")


def serve(home: Path, environment: dict[str, str], version: str) -> None:
    """Start a server and ask it for its status, with and without the token."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    server = subprocess.Popen(
        [
            *(str(BIN / "jupyter"), "lab", "--no-browser", "--ip=127.0.0.1", f"--port={port}"),
            f"--ServerApp.root_dir={home / 'work'}",
            *root,
        ],
        env={**environment, "JUPYTER_TOKEN": token},
        stdin=subprocess.DEVNULL,
        stdout=(home / "server.log").open("wb"),
        stderr=subprocess.STDOUT,
    )
    try:
        url = f"http://127.0.0.1:{port}/nbinline/status"
        status, body = ask(url, token, server)
        if status != 200 or json.loads(body)["version"] != version:
            sys.exit(f"GET nbinline/status: {status} {body[:500]!r}")
        refused, _ = ask(url, None, server)
        if refused != 403:
            sys.exit(f"GET nbinline/status without a token: {refused}")
        print(f"GET nbinline/status: {status}, without a token {refused}")
    except BaseException:
        print((home / "server.log").read_text(errors="replace")[-5000:])
        raise
    finally:
        server.terminate()
        server.wait(30)


def ask(url: str, token: str | None, server: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """The answer, once the server gives one."""
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    if token is not None:
        request.add_header("Authorization", f"token {token}")
    deadline = time.monotonic() + 90
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError as error:
            if time.monotonic() > deadline or server.poll() is not None:
                sys.exit(f"the server does not answer: {error}")
            time.sleep(0.2)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
