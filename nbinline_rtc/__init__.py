"""nbinline-rtc: an AI agent that lives on the Jupyter server and joins shared notebooks."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("nbinline-rtc")
except PackageNotFoundError:  # a checkout on the path that was never installed
    __version__ = "0.0.0"

__all__ = ["__version__"]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Where JupyterLab finds the prebuilt plugin in a development install."""
    return [{"src": "labextension", "dest": "@nbinline/lab"}]


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    """What Jupyter Server loads."""
    from .extension import NbinlineApp

    return [{"module": "nbinline_rtc", "app": NbinlineApp}]
