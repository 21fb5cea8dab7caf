"""Whose server this is."""

from __future__ import annotations

import os

HUB_USER = "JUPYTERHUB_USER"
"""Environment variable in which JupyterHub names the person a server was started for."""


def owns_server(username: str) -> bool:
    """Whether the server is this person's own.

    Under JupyterHub that is the one it was started for. Elsewhere whoever is logged in has the one
    password or token there is, and works on the account it runs under.
    """
    owner = os.environ.get(HUB_USER)
    return not owner or owner == username


def answers_for_all(username: str) -> bool:
    """Whether this person may answer what other people's runs ask: the owner where there is one."""
    owner = os.environ.get(HUB_USER)
    return bool(owner) and owner == username


def may_watch(username: str, path: str) -> bool:
    """Whether this person may see and end other people's runs, and pause AI, below a path.

    Args:
        username: Who.
        path: A notebook or folder below the server's root; empty for the root.
    """
    return owns_server(username)
