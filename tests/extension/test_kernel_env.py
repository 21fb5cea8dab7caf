"""Kernels without the server's keys, shown on a real kernel."""

import anyio
import pytest
from jupyter_client.multikernelmanager import AsyncMultiKernelManager
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from traitlets.config import Configurable

from nbinline_rtc.kernel_env import VENDOR_VARIABLES, scrub_by_default, scrub_kernel_env

SHOW = "import os; print(sorted(n for n in os.environ if 'API_KEY' in n or n == 'PLAIN'))"


@pytest.fixture
def factory(monkeypatch):
    monkeypatch.delenv("JUPYTER_DEFAULT_PROVISIONER_NAME", raising=False)
    KernelProvisionerFactory.clear_instance()
    yield
    KernelProvisionerFactory.clear_instance()


async def _printed(client, code):
    client.execute(code)
    while True:
        message = await client.get_iopub_msg(timeout=30)
        if message["msg_type"] == "stream":
            return message["content"]["text"].strip()


async def _shown(restart):
    kernels = AsyncMultiKernelManager()
    kernel_id = await kernels.start_kernel(kernel_name="python3")
    manager = kernels.get_kernel(kernel_id)
    client = manager.client()
    try:
        client.start_channels()
        await client.wait_for_ready(timeout=60)
        seen = [await _printed(client, SHOW)]
        if restart:
            await manager.restart_kernel(now=True)
            await client.wait_for_ready(timeout=60)
            seen.append(await _printed(client, SHOW))
        return seen
    finally:
        client.stop_channels()
        await kernels.shutdown_all(now=True)


@pytest.fixture
def keys(monkeypatch):
    for variable in VENDOR_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-operator-0123456789")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-operator-0123456789")
    monkeypatch.setenv("PLAIN", "stays")


def test_a_scrubbed_kernel_has_no_vendor_variable_also_after_a_restart(factory, keys):
    assert scrub_kernel_env(Configurable()) is True
    assert scrub_kernel_env(Configurable()) is True
    assert anyio.run(_shown, True) == ["['PLAIN']", "['PLAIN']"]


def test_without_it_they_pass_for_peoples_own_code(factory, keys):
    assert anyio.run(_shown, False) == ["['ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'PLAIN']"]


def test_a_provisioner_that_somebody_chose_is_left_alone(factory, monkeypatch):
    monkeypatch.setenv("JUPYTER_DEFAULT_PROVISIONER_NAME", "site-provisioner")
    assert scrub_kernel_env(Configurable()) is False
    assert KernelProvisionerFactory.instance().default_provisioner_name == "site-provisioner"


def test_it_is_the_default_under_a_hub_only():
    assert scrub_by_default({"JUPYTERHUB_API_TOKEN": "t"})
    assert scrub_by_default({"JUPYTERHUB_SERVICE_PREFIX": "/user/ada/"})
    assert not scrub_by_default({"HOME": "/home/ada"})
