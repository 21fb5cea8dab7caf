"""Whose server this is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


def groups_of(user: Any) -> frozenset[str]:
    """The JupyterHub groups of a request's user, as the hub says; none without a hub."""
    told = getattr(user, "hub_user", None)
    listed = told.get("groups") if isinstance(told, Mapping) else None
    return frozenset(each for each in listed or () if isinstance(each, str))


@dataclass(frozen=True, slots=True)
class Watchers:
    """Who may see and end other people's runs, and pause AI.

    Attributes:
        names: Usernames of instructors, and JupyterHub groups of them with a leading ``@``.
    """

    names: frozenset[str] = frozenset()

    def may_watch(self, username: str, groups: frozenset[str], path: str) -> bool:
        """Whether this person may, below a path.

        Args:
            username: Who.
            groups: Their groups.
            path: A notebook or folder below the server's root; empty for the root.
        """
        if owns_server(username) or username in self.names:
            return True
        return any(f"@{group}" in self.names for group in groups)
