"""Kernels that start without the server's vendor keys in their environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import EntryPoint

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets.config import Configurable

from .credentials import KEY_VARIABLES

VENDOR_VARIABLES = frozenset({*KEY_VARIABLES.values(), "ANTHROPIC_AUTH_TOKEN", "OPENAI_ADMIN_KEY"})
"""The environment variables that carry vendors' keys."""

PROVISIONER = "nbinline-scrubbed"


class ScrubbedProvisioner(LocalProvisioner):
    """The local provisioner, less the vendor variables, at every start and restart."""

    def _finalize_env(self, env: dict[str, str]) -> None:
        super()._finalize_env(env)
        for variable in VENDOR_VARIABLES:
            env.pop(variable, None)


def scrub_by_default(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the server runs for a hub, where its environment may hold an operator's keys."""
    variables = os.environ if environ is None else environ
    return "JUPYTERHUB_API_TOKEN" in variables or "JUPYTERHUB_SERVICE_PREFIX" in variables


def scrub_kernel_env(parent: Configurable) -> bool:
    """Let kernels that start from now on go without the vendor variables.

    It takes the place of jupyter-client's default provisioner, which is asked for the environment
    at each start. Kernels whose specification names a provisioner of its own (remote ones) are
    not started from this environment and stay as they are.

    Args:
        parent: The server, whose configuration may have chosen a provisioner.

    Returns:
        False if somebody configured another default provisioner, which is left alone.
    """
    factory = KernelProvisionerFactory.instance(parent=parent)
    if factory.default_provisioner_name not in ("local-provisioner", PROVISIONER):
        return False
    factory.provisioners[PROVISIONER] = EntryPoint(
        PROVISIONER, f"{__name__}:{ScrubbedProvisioner.__name__}", factory.GROUP_NAME
    )
    factory.default_provisioner_name = PROVISIONER
    return True
