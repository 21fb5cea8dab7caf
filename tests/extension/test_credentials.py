"""Keys are kept in private, survive everything but removal, and are never told."""

import json
import os
import stat
import subprocess
import sys

import pytest

from nbinline_agent.errors import BadRequest, UnknownConnection
from nbinline_rtc.credentials import CredentialStore, CredentialsUnusable
from nbinline_rtc.earlier import find_earlier, import_earlier, saved_settings, settings_file
from nbinline_rtc.private_files import FileRefused, PrivateFile, config_root

KEY = "sk-test-0123456789abcdefSECRET"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "nbinline" / "credentials.json"


@pytest.fixture
def store(path):
    return CredentialStore(path, environ={})


def test_a_saved_key_is_found_again_and_private(store, path):
    store.set_key("openai_api", f"  {KEY}\n")

    assert CredentialStore(path, environ={}).key("openai_api") == KEY
    assert store.source("openai_api") == "saved"
    assert store.key("anthropic_api") is None
    assert store.source("anthropic_api") is None
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        "credentials.json",
        "credentials.lock",
    ]


def test_saved_wins_over_environment_and_gives_way_when_removed(path):
    store = CredentialStore(path, environ={"OPENAI_API_KEY": " from-environment "})
    assert store.key("openai_api") == "from-environment"
    assert store.source("openai_api") == "environment"

    store.set_key("openai_api", KEY)
    assert store.key("openai_api") == KEY

    assert store.remove_key("openai_api") is True
    assert store.source("openai_api") == "environment"
    assert store.remove_key("openai_api") is False
    assert KEY not in path.read_text()


@pytest.mark.parametrize(
    ("connection", "variable"),
    [
        ("openai_api", "OPENAI_API_KEY"),
        ("anthropic_api", "ANTHROPIC_API_KEY"),
        ("openai_compatible", "OPENAI_COMPATIBLE_API_KEY"),
    ],
)
def test_each_connection_has_its_own_variable(path, connection, variable):
    assert CredentialStore(path, environ={variable: KEY}).key(connection) == KEY
    others = {"openai_api", "anthropic_api", "openai_compatible"} - {connection}
    for other in others:
        assert CredentialStore(path, environ={variable: KEY}).key(other) is None


def test_the_default_connection_is_kept_beside_the_keys(store):
    assert store.default_connection() is None
    store.set_key("openai_api", KEY)
    store.set_default_connection("local")
    assert store.default_connection() == "local"
    assert store.key("openai_api") == KEY
    store.set_default_connection(None)
    assert store.default_connection() is None
    with pytest.raises(UnknownConnection):
        store.set_default_connection("no-such")


@pytest.mark.parametrize("connection", ["local", "no-such", ""])
def test_only_connections_with_keys_take_keys(store, path, connection):
    with pytest.raises(UnknownConnection):
        store.set_key(connection, KEY)
    with pytest.raises(UnknownConnection):
        store.key(connection)
    assert not path.exists()


@pytest.mark.parametrize(
    "key", ["", "   ", "two words-" + KEY, KEY + "\n" + KEY, "ключ-" + KEY, "k" * 5000 + KEY]
)
def test_what_cannot_be_a_key_is_refused_without_echoing_it(store, path, key):
    with pytest.raises(BadRequest) as raised:
        store.set_key("openai_api", key)
    assert KEY not in str(raised.value)
    assert KEY not in repr(raised.value)
    assert not path.exists()


@pytest.mark.parametrize("content", [b"{not json " + KEY.encode(), b'["list"]', b"\xff\xfe", b""])
def test_a_damaged_file_is_reported_and_left_as_it_is(store, path, content):
    path.parent.mkdir(mode=0o700)
    path.write_bytes(content)
    for act in (
        lambda: store.key("openai_api"),
        lambda: store.set_key("openai_api", KEY),
        lambda: store.remove_key("openai_api"),
        store.default_connection,
    ):
        with pytest.raises(CredentialsUnusable) as raised:
            act()
        assert str(path) in raised.value.message
        assert KEY not in str(raised.value)
    assert path.read_bytes() == content


def test_odd_values_inside_a_valid_file_do_no_harm(store, path):
    path.parent.mkdir(mode=0o700)
    path.write_text(json.dumps({"keys": ["no"], "default_connection": 3, "more": {"kept": 1}}))
    assert store.key("openai_api") is None
    assert store.default_connection() is None
    store.set_key("openai_api", KEY)
    assert store.key("openai_api") == KEY
    assert json.loads(path.read_text())["more"] == {"kept": 1}


def test_symlinks_are_refused(store, path, tmp_path):
    path.parent.mkdir(mode=0o700)
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text("{}")
    path.symlink_to(elsewhere)
    with pytest.raises(CredentialsUnusable, match="symlink"):
        store.key("openai_api")
    with pytest.raises(CredentialsUnusable, match="symlink"):
        store.set_key("openai_api", KEY)
    assert elsewhere.read_text() == "{}"

    path.unlink()
    lock = path.with_suffix(".lock")
    lock.unlink(missing_ok=True)
    lock.symlink_to(elsewhere)
    with pytest.raises(CredentialsUnusable, match="locked"):
        store.set_key("openai_api", KEY)


def test_a_symlinked_folder_is_refused(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "nbinline").symlink_to(real)
    store = CredentialStore(tmp_path / "nbinline" / "credentials.json", environ={})
    with pytest.raises(CredentialsUnusable, match="symlink"):
        store.set_key("openai_api", KEY)
    with pytest.raises(CredentialsUnusable, match="symlink"):
        store.key("openai_api")
    assert list(real.iterdir()) == []


def test_loose_modes_are_tightened(store, path):
    store.set_key("openai_api", KEY)
    path.chmod(0o644)
    path.parent.chmod(0o755)
    assert store.key("openai_api") == KEY
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    store.set_default_connection("openai_api")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_two_processes_lose_nothing_of_each_other(path):
    code = (
        "import sys; from pathlib import Path\n"
        "from nbinline_rtc.private_files import PrivateFile\n"
        "for turn in range(25):\n"
        "    with PrivateFile(Path(sys.argv[1])).change() as content:\n"
        "        content[sys.argv[2]] = content.get(sys.argv[2], 0) + 1\n"
        "        content['all'] = content.get('all', 0) + 1\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in ("a", "b", "c")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert PrivateFile(path).read() == {"a": 25, "b": 25, "c": 25, "all": 75}


def test_a_failed_change_writes_nothing(path):
    file = PrivateFile(path)
    with file.change() as content:
        content["kept"] = 1
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError), file.change() as content:
        content["lost"] = 1 / 0
    with pytest.raises(TypeError), file.change() as content:
        content["lost"] = object()
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        "credentials.json",
        "credentials.lock",
    ]


def test_a_key_is_in_no_repr_and_every_key_is_registered(path):
    seen = []
    store = CredentialStore(
        path,
        environ={"ANTHROPIC_API_KEY": "sk-ant-env", "OPENAI_API_KEY": KEY + "2"},
        on_secret=seen.append,
    )
    store.set_key("openai_api", KEY)
    seen.clear()
    store.register_secrets()
    assert {KEY, KEY + "2", "sk-ant-env"} <= set(seen)
    assert KEY not in repr(store)
    assert KEY not in repr(vars(store)).replace(KEY + "2", "")


def test_the_settings_folder_follows_an_absolute_xdg_home_only(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert CredentialStore().path == tmp_path / "nbinline" / "credentials.json"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative/folder")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert config_root() == tmp_path / "home" / ".config"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another account's file")
def test_another_accounts_file_is_refused(store, path):
    store.set_key("openai_api", KEY)
    os.chown(path, 12345, 12345)
    with pytest.raises(CredentialsUnusable, match="another account"):
        store.key("openai_api")


EARLIER_SHAPES = [
    {"openai_api": KEY, "anthropic_api": "sk-ant-earlier"},
    {"keys": {"openai_api": KEY, "anthropic_api": "sk-ant-earlier"}},
    {
        "version": 1,
        "credentials": {"openai": {"api_key": KEY}, "claude": {"key": "sk-ant-earlier"}},
    },
    {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": "sk-ant-earlier"},
    {
        "keys": [
            {"backend": "openai_api", "value": KEY},
            {"name": "anthropic", "token": "sk-ant-earlier"},
        ]
    },
]


@pytest.mark.parametrize("content", EARLIER_SHAPES)
def test_earlier_keys_are_taken_in_any_shape(store, tmp_path, content):
    earlier = tmp_path / "nbinlineai" / "credentials.json"
    earlier.parent.mkdir(mode=0o700)
    content = {"keys": content} if isinstance(content, list) else content
    earlier.write_text(json.dumps(content))
    found = find_earlier(earlier, tmp_path / "no-settings")
    assert KEY not in repr(found)
    imported = import_earlier(found, store, settings_file(tmp_path / "nbinline" / "settings.json"))
    assert sorted(imported.keys) == ["anthropic_api", "openai_api"]
    assert store.key("openai_api") == KEY
    assert store.key("anthropic_api") == "sk-ant-earlier"
    assert earlier.read_text() == json.dumps(content)


def test_earlier_wording_and_defaults_are_taken(store, tmp_path):
    lab = tmp_path / "user-settings"
    (lab / "nbinlineai").mkdir(parents=True)
    (lab / "other").mkdir()
    (lab / "nbinlineai" / "plugin.jupyterlab-settings").write_text(
        """{
        // JupyterLab's settings may have comments
        "defaultBackend": "openai_api", "defaultModel": "some-model", "promptMode": "learning",
        "keepAnswers": true, "contextMode": "all-above", "reasoningEffort": "low",
        "styleInstructions": {"compact": "Be brief.", "full": ""},
        "learningInstructions": "Ask back.",
        }"""
    )
    (lab / "other" / "plugin.jupyterlab-settings").write_text('{"model": "not-ours"}')
    path = tmp_path / "nbinline" / "settings.json"
    imported = import_earlier(find_earlier(tmp_path / "none.json", lab), store, settings_file(path))
    settings = saved_settings(path)
    assert settings.defaults == {
        "backend": "openai_api",
        "model": "some-model",
        "promptMode": "learning",
        "contextMode": "all-above",
        "reasoningEffort": "low",
    }
    assert settings.styles == {"compact": "Be brief.", "learning": "Ask back."}
    assert store.default_connection() == "openai_api"
    assert set(imported.styles) == {"compact", "learning"}


def test_a_choice_that_is_unknown_here_is_noted_and_never_saved(store, tmp_path):
    lab = tmp_path / "user-settings" / "nbinlineai"
    lab.mkdir(parents=True)
    (lab / "plugin.jupyterlab-settings").write_text('{"contextMode": "odd", "style": "full"}')
    path = tmp_path / "nbinline" / "settings.json"
    found = find_earlier(tmp_path / "none.json", lab.parent)
    import_earlier(found, store, settings_file(path))
    assert saved_settings(path).defaults == {"promptMode": "full"}
    assert any("odd" in note for note in found.notes)
    path.write_text('{"defaults": {"contextMode": "odd", "promptMode": 3, "model": "m"}}')
    assert saved_settings(path).defaults == {"model": "m"}


def test_importing_leaves_what_is_already_set_here(store, tmp_path):
    earlier = tmp_path / "nbinlineai" / "credentials.json"
    earlier.parent.mkdir(mode=0o700)
    earlier.write_text(json.dumps({"openai_api": "sk-old", "defaultBackend": "chatgpt"}))
    store.set_key("openai_api", KEY)
    found = find_earlier(earlier, tmp_path)
    settings = settings_file(tmp_path / "nbinline" / "settings.json")
    imported = import_earlier(found, store, settings)
    assert imported.kept == ("openai_api",)
    assert store.key("openai_api") == KEY
    assert any("chatgpt" in note for note in imported.notes)
    assert store.default_connection() is None
    assert import_earlier(found, store, settings, overwrite=True).keys == ("openai_api",)
    assert store.key("openai_api") == "sk-old"


def test_a_damaged_earlier_file_is_noted_not_fatal(store, tmp_path):
    earlier = tmp_path / "nbinlineai" / "credentials.json"
    earlier.parent.mkdir(mode=0o700)
    earlier.write_text("{" + KEY)
    found = find_earlier(earlier, tmp_path)
    assert not found.keys
    assert len(found.notes) == 1
    assert KEY not in found.notes[0]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_settings_file_of_the_wrong_kind_is_refused(tmp_path, make):
    folder = tmp_path / "nbinline"
    folder.mkdir(mode=0o700)
    make(folder / "settings.json")
    with pytest.raises(FileRefused, match="not a regular file"):
        saved_settings(folder / "settings.json")
