#!/usr/bin/env bash
# The physical proof of the layers: the agent's tests where no Jupyter server is installed.
source "$(dirname "$0")/setup.sh"

ALONE=$ROOT/build/agent-venv
# What the agent imports; the versions are those the whole project was tested with.
PARTS='^(pycrdt|pycrdt-websocket|jupyter-ydoc|anyio|sniffio|structlog|openai|anthropic|nbformat|httpx|httpx2|pydantic|pillow)=='
# What runs the tests; the fake vendor is a Tornado program beside them.
TESTING='^(pytest|pytest-asyncio|pytest-timeout|hypothesis|blockbuster|psutil|tornado|numpy|pandas|polars|matplotlib)=='

say "Installing the agent's own dependencies alone"
pip freeze --all | grep -iE "$PARTS|$TESTING" | tr '_' '-' >build/agent.txt
if ! cmp -s build/agent.txt "$ALONE/installed.txt"; then
  rm -rf "$ALONE"
  "$PYTHON" -m venv "$ALONE"
  "$ALONE/bin/pip" install -qq -r build/agent.txt
  cp build/agent.txt "$ALONE/installed.txt"
fi
"$ALONE/bin/python" - <<'P'
import importlib.util, sys
found = [name for name in ("jupyter_server", "jupyter_server_ydoc", "jupyter_client", "jupyterlab") if importlib.util.find_spec(name)]
sys.exit(f"{found} must not be there" if found else 0)
P
say "tests/agent and tests/properties without a Jupyter server"
PYTHONPATH=agent:. exec "$ALONE/bin/python" -P -m pytest -q tests/agent tests/properties
