"""What every test shares: fixtures of the parts it runs on; no request leaves this machine."""

import importlib.util
import ipaddress
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

# Before the adapters are imported, and for the processes that tests start.
os.environ["NBINLINE_ALLOW_REQUESTS"] = "0"

# The agent's tests also run where no Jupyter server is installed, to prove that it needs none.
WITH_SERVER = importlib.util.find_spec("jupyter_server") is not None
SERVER_PLUGINS = [
    "jupyter_server.pytest_plugin",
    "jupyter_server_fileid.pytest_plugin",
    "jupyter_server_ydoc.pytest_plugin",
]

pytest_plugins = [
    *(SERVER_PLUGINS if WITH_SERVER else []),
    "tests.vendor.plugin",
    "tests.node.plugin",
    "tests.results.plugin",
]

HERE = Path(__file__).parent

WATCHED = {
    "agent": ["nbinline_agent"],
    "properties": ["nbinline_agent"],
    # The host as well; what other packages block with on their own account is not ours to fail.
    "extension": ["nbinline_agent", "nbinline_rtc"],
}
"""By folder of tests, whose calls must never block the event loop."""

THIRD_PARTY = (
    # The file id manager is synchronous: one indexed SQLite look-up on local disk.
    ("jupyter_server_fileid/manager.py", {"index", "get_id", "get_path", "save", "__del__"}),
    # Found by the loader when the collaboration extension opens a room; reads run in threads.
    ("jupyter_server/services/contents/fileio.py", {"_get_os_path"}),
    (
        "jupyter_server/services/contents/filemanager.py",
        {"get", "is_hidden", "dir_exists", "file_exists"},
    ),
    # Sessions stand in a database in memory.
    (
        "jupyter_server/services/sessions/sessionmanager.py",
        {"cursor", "get_session", "save_session", "list_sessions", "start_kernel_for_session"},
    ),
    # Starting and restarting a kernel writes its connection file, looks for its specification and
    # forks; the server does so for browsers as well.
    ("jupyter_server/services/kernels/kernelmanager.py", {"_async_start_kernel"}),
    ("jupyter_client/manager.py", {"_async_start_kernel", "_async_restart_kernel"}),
    ("jupyter_client/manager.py", {"_async_shutdown_kernel", "kernel_spec"}),
    ("jupyter_client/connect.py", {"load_connection_file", "get_connection_info"}),
    # Formatting a traceback for the log of a developer reads the lines of source it shows.
    ("structlog/dev.py", {"__call__"}),
    # Creating a TLS context reads the certificates once for each client.
    ("ssl.py", {"create_default_context"}),
)
"""Functions of others that block by their nature when our code calls them on the loop."""


OURS = (
    # A server calls it before its loop runs; only tests load extensions inside a running loop.
    ("nbinline_rtc/extension.py", {"initialize"}),
)
"""Functions of ours that may block."""


class OutsideRequest(OSError):
    """A test tried to reach another machine."""


attempts: list[str] = []
"""Where tests tried to go; a test that leaves anything here fails."""


def stay_here(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse look-ups of, and connections to, anything but this machine; an audit hook."""
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) and address else None
    else:
        return
    if not is_here(host):
        attempts.append(f"{event} {host!r}")
        raise OutsideRequest(f"Tests stay on this machine: {event} {host!r}")


def is_here(host: object) -> bool:
    """Whether a host is this machine, or a name that by its definition never leads anywhere."""
    if host is None or host in ("", b""):
        return True
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    if name == "localhost" or name.endswith(".invalid"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


sys.addaudithook(stay_here)


@pytest.fixture(autouse=True)
def outside() -> Iterator[list[str]]:
    """Fail a test that tried to reach another machine, also if it swallowed the error."""
    attempts.clear()
    yield attempts
    assert not attempts, "the test tried to leave this machine"


@pytest.fixture(autouse=True)
def blockbuster(request: pytest.FixtureRequest) -> Iterator[BlockBuster | None]:
    """A call of ours that blocks the event loop fails the test."""
    where = request.path.relative_to(HERE).parts[0]
    if where not in WATCHED:
        yield None
        return
    with blockbuster_ctx(WATCHED[where]) as buster:
        for function in buster.functions.values():
            for file, names in (*THIRD_PARTY, *OURS):
                function.can_block_in(file, names)
        yield buster
