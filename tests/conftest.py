"""What every test shares: fixtures of the parts it runs on; no request leaves this machine."""

import os

# Before the adapters are imported, and for the processes that tests start.
os.environ["NBINLINE_ALLOW_REQUESTS"] = "0"

pytest_plugins = [
    "jupyter_server.pytest_plugin",
    "jupyter_server_fileid.pytest_plugin",
    "jupyter_server_ydoc.pytest_plugin",
    "tests.vendor.plugin",
    "tests.node.plugin",
]
