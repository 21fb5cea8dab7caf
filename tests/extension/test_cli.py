"""The commands as a person types them, and every misfit the doctor must name."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from traitlets.config import Config

from nbinline_rtc import __version__
from nbinline_rtc.credentials import CredentialStore
from nbinline_rtc.doctor import Level, as_json, examine, report
from nbinline_rtc.installation import Installation, LabExtension, look, writable

KEY = "sk-test-0123456789abcdefSECRET"


@pytest.fixture
def sound(tmp_path):
    """An installation with nothing to mend."""
    names = ("@nbinline/lab", "@jupyter/collaboration-extension", "@jupyter/docprovider-extension")
    return Installation(
        versions={"nbinline-rtc": "1.0", "jupyterlab": "4.6.6", "jupyter-collaboration": "5.0.4"},
        misfits=(),
        server_extensions=dict.fromkeys(
            ("nbinline_rtc", "jupyter_server_ydoc", "jupyter_server_fileid"), True
        ),
        lab_extensions={name: LabExtension(name, "1.0", tmp_path) for name in names},
        disabled=frozenset(
            {
                "@jupyterlab/notebook-extension:cell-executor",
                "@jupyter/docprovider-extension:notebook-cell-executor",
            }
        ),
        config=Config(
            {
                "NbinlineApp": Config({"local_model_path": str(tmp_path / "none.gguf")}),
            }
        ),
        data_dir=tmp_path / "data" / "nbinline",
    )


@pytest.fixture
def store(tmp_path):
    return CredentialStore(tmp_path / "c" / "credentials.json", environ={"OPENAI_API_KEY": KEY})


def problems(found, store):
    return {item.code for item in examine(found, store) if item.level is Level.PROBLEM}


def changed(found, section, **settings):
    config = Config(found.config)
    config[section] = Config({**found.config.get(section, {}), **settings})
    return dataclasses.replace(found, config=config)


def without(mapping, *names):
    return {name: value for name, value in mapping.items() if name not in names}


def misfit_cases():
    def on(code, change):
        return pytest.param(code, change, id=code)

    yield on(
        "collaboration-missing",
        lambda f: dataclasses.replace(f, versions={**f.versions, "jupyter-collaboration": None}),
    )
    yield on(
        "version-misfit",
        lambda f: dataclasses.replace(f, misfits=("nbinline-rtc needs pycrdt <1, but 2 is there",)),
    )
    for module in ("nbinline_rtc", "jupyter_server_ydoc", "jupyter_server_fileid"):
        yield pytest.param(
            "server-extension-off",
            lambda f, module=module: dataclasses.replace(
                f, server_extensions={**f.server_extensions, module: False}
            ),
            id=f"{module}-off",
        )
    yield on(
        "lab-extension-missing",
        lambda f: dataclasses.replace(f, lab_extensions=without(f.lab_extensions, "@nbinline/lab")),
    )
    yield on(
        "lab-extension-off",
        lambda f: dataclasses.replace(f, disabled=f.disabled | {"@jupyter/docprovider-extension"}),
    )
    yield on(
        "plugin-version",
        lambda f: dataclasses.replace(f, versions={**f.versions, "nbinline-rtc": "2.0"}),
    )
    yield on("second-prompt-runner", lambda f: with_lab(f, "@somebody/nbinlineai"))
    yield on("second-executor", lambda f: with_lab(f, "@datalayer/jupyter-server-nbmodel"))
    yield on(
        "other-rooms",
        lambda f: dataclasses.replace(
            f, versions={**f.versions, "jupyter-server-documents": "0.3.3"}
        ),
    )
    yield on("collaboration-off", lambda f: changed(f, "YDocExtension", disable_rtc=True))
    yield on(
        "update-store",
        lambda f: changed(f, "YDocExtension", ystore_class="pycrdt.store.SQLiteYStore"),
    )
    yield on("store-squash", lambda f: changed(f, "SQLiteYStore", document_ttl=100))
    yield on(
        "config-unreadable",
        lambda f: dataclasses.replace(f, config_problems=("jupyter_lab_config cannot be read",)),
    )


def with_lab(found, name):
    extension = LabExtension(name, "1", Path())
    return dataclasses.replace(found, lab_extensions={**found.lab_extensions, name: extension})


class OurStore:
    __module__ = "nbinline_rtc.store"


@pytest.fixture
def healthy(sound):
    return changed(sound, "YDocExtension", ystore_class=OurStore)


def configured_without_model(store, found):
    """The trial model's file is named but missing, which is a finding of its own."""
    return problems(found, store) - {"local-model"}


def test_a_sound_installation_has_nothing_to_mend(healthy, store):
    assert configured_without_model(store, healthy) == set()


@pytest.mark.parametrize(("code", "change"), list(misfit_cases()))
def test_each_misfit_is_named(healthy, store, code, change):
    assert configured_without_model(store, change(healthy)) == {code}
    told = [item for item in examine(change(healthy), store) if item.code == code]
    assert all(item.message.endswith((".", "?")) for item in told if item.level is Level.PROBLEM)


def test_a_store_that_cannot_be_imported_is_not_ours(sound, store):
    other = changed(sound, "YDocExtension", ystore_class="no_such_module.Store")
    assert "update-store" in problems(other, store)


def test_no_connection_is_a_problem_and_each_kind_is_a_cure(healthy, tmp_path):
    bare = CredentialStore(tmp_path / "bare" / "credentials.json", environ={})
    assert "no-connection" in problems(healthy, bare)
    compatible = changed(healthy, "NbinlineApp", compatible_base_url="http://127.0.0.1:1/v1")
    assert "no-connection" not in problems(compatible, bare)
    gguf = tmp_path / "any.gguf"
    gguf.write_bytes(b"GGUF")
    local = changed(healthy, "NbinlineApp", local_model_path=str(gguf))
    assert problems(local, bare) == set()
    bare.set_key("anthropic_api", KEY)
    assert "no-connection" not in problems(healthy, bare)


def test_a_damaged_key_file_is_named_without_its_content(healthy, tmp_path):
    path = tmp_path / "damaged" / "credentials.json"
    path.parent.mkdir(mode=0o700)
    path.write_text("{" + KEY)
    findings = examine(healthy, CredentialStore(path, environ={}))
    assert "credentials" in {item.code for item in findings}
    assert KEY not in report(findings)
    assert KEY not in json.dumps(as_json(findings))


def test_notes_do_not_fail_the_examination(healthy, store):
    noted = dataclasses.replace(healthy, versions={**healthy.versions, "notebook": "7.6.5"})
    noted = changed(noted, "YDocExtension", document_load_progressively=True)
    levels = {item.code: item.level for item in examine(noted, store)}
    assert levels["notebook-7"] is Level.ADVICE
    assert levels["progressive-load"] is Level.ADVICE
    assert configured_without_model(store, noted) == set()


def test_a_folder_that_is_a_file_is_not_writable(healthy, store, tmp_path):
    (tmp_path / "file").write_text("")
    assert not writable(tmp_path / "file" / "nbinline")
    blocked = dataclasses.replace(healthy, data_dir=tmp_path / "file" / "nbinline")
    assert configured_without_model(store, blocked) == {"data-directory"}
    assert writable(tmp_path / "new" / "deeper")
    assert not (tmp_path / "new").exists()


def run(tmp_path, *words, **environ):
    clean = {n: v for n, v in os.environ.items() if not n.endswith("_API_KEY")}
    return subprocess.run(
        [sys.executable, "-m", "nbinline_rtc.cli", *words],
        env={
            **clean,
            "XDG_CONFIG_HOME": str(tmp_path / "xdg"),
            "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
            "JUPYTER_DATA_DIR": str(tmp_path / "data"),
            **environ,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_version_is_told(tmp_path):
    ended = run(tmp_path, "--version")
    assert (ended.returncode, ended.stdout.strip()) == (0, __version__)


@pytest.mark.parametrize("words", [(), ("model",), ("no-such",), ("doctor", "--no-such")])
def test_a_wrong_call_says_how_it_is_called(tmp_path, words):
    ended = run(tmp_path, *words)
    assert ended.returncode == 2
    assert "usage: jupyter nbinline" in ended.stderr


def test_the_doctor_exits_with_one_and_names_what_the_real_configuration_says(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "jupyter_server_config.py").write_text(
        "c.YDocExtension.disable_rtc = True\nc.SQLiteYStore.document_ttl = 5\n"
        "c.ServerApp.jpserver_extensions = {'jupyter_server_fileid': False}\n"
    )
    (tmp_path / "config" / "jupyter_lab_config.py").write_text("raise SystemError('broken')")
    ended = run(tmp_path, "doctor", "--json")
    assert ended.returncode == 1, ended.stderr
    told = json.loads(ended.stdout)
    assert told["ok"] is False
    found = {item["code"] for item in told["findings"] if item["level"] == "problem"}
    assert {"collaboration-off", "store-squash", "server-extension-off"} <= found
    assert "config-unreadable" in found
    text = run(tmp_path, "doctor")
    assert text.returncode == 1
    assert "PROBLEM" in text.stdout
    assert "to mend." in text.stdout


def test_looking_changes_nothing(tmp_path):
    run(tmp_path / "untouched", "doctor")
    assert not (tmp_path / "untouched").exists()
    assert look().versions["jupyterlab"] is not None


def test_settings_of_the_earlier_extension_come_over_by_command(tmp_path):
    earlier = tmp_path / "xdg" / "nbinlineai"
    earlier.mkdir(parents=True, mode=0o700)
    (earlier / "credentials.json").write_text(json.dumps({"openai_api": KEY}))
    ended = run(tmp_path, "import-settings")
    assert ended.returncode == 0, ended.stderr
    assert "openai_api" in ended.stdout
    assert KEY not in ended.stdout + ended.stderr
    store = CredentialStore(tmp_path / "xdg" / "nbinline" / "credentials.json", environ={})
    assert store.key("openai_api") == KEY
    assert "Nothing of the earlier" in run(tmp_path / "other", "import-settings").stdout


def test_a_refused_file_is_one_sentence_and_exit_code_one(tmp_path):
    (tmp_path / "xdg" / "nbinlineai").mkdir(parents=True, mode=0o700)
    (tmp_path / "xdg" / "nbinlineai" / "credentials.json").write_text(json.dumps({"openai": KEY}))
    (tmp_path / "xdg" / "nbinline").symlink_to(tmp_path / "xdg" / "nbinlineai")
    ended = run(tmp_path, "import-settings")
    assert ended.returncode == 1
    assert "symlink" in ended.stderr
    assert "Traceback" not in ended.stderr
