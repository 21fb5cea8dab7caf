"""What is installed, enabled and configured on this machine, read without starting a server."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from jupyter_core.application import JupyterApp
from jupyter_core.paths import jupyter_config_path, jupyter_data_dir, jupyter_path
from jupyter_server.extension.config import ExtensionConfigManager
from jupyterlab_server.config import get_federated_extensions, get_page_config
from packaging.requirements import Requirement
from traitlets.config import Config

CONFIG_FILES = (
    "jupyter_jupyter_server_ydoc_config",
    "jupyter_nbinline_rtc_config",
    "jupyter_lab_config",
    "jupyter_server_config",
)
"""Read in this order, as a server does: a later one wins."""

WATCHED_PACKAGES = (
    "nbinline-rtc",
    "jupyterlab",
    "jupyter-server",
    "jupyter-collaboration",
    "jupyter-collaboration-ui",
    "jupyter-docprovider",
    "jupyter-server-ydoc",
    "jupyter-server-fileid",
    "jupyter-server-documents",
    "jupyter-server-nbmodel",
    "jupyter-ydoc",
    "pycrdt",
    "pycrdt-websocket",
    "pycrdt-store",
    "notebook",
)


@dataclass(frozen=True, slots=True)
class LabExtension:
    """A prebuilt extension of JupyterLab."""

    name: str
    version: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Installation:
    """Everything the doctor looks at.

    Attributes:
        versions: Installed version by package, None where it is missing.
        misfits: A clause for each requirement that the installed versions do not meet.
        server_extensions: Whether it is enabled, by module.
        lab_extensions: By name.
        disabled: Names of JupyterLab extensions and plugins that are switched off.
        config: The server's configuration.
        config_problems: A sentence for each configuration file that cannot be read.
        data_dir: Where runs are journalled.
    """

    versions: Mapping[str, str | None]
    misfits: tuple[str, ...]
    server_extensions: Mapping[str, bool]
    lab_extensions: Mapping[str, LabExtension]
    disabled: frozenset[str]
    config: Config
    config_problems: tuple[str, ...] = ()
    data_dir: Path = field(default_factory=lambda: Path(jupyter_data_dir(), "nbinline"))

    def lab_enabled(self, name: str) -> bool:
        """Whether an extension of JupyterLab is there and neither it nor all of it is off."""
        return name in self.lab_extensions and name not in self.disabled


def look() -> Installation:
    """Read the installation this interpreter belongs to. No server is started or touched."""
    config, problems = _config()
    folders = jupyter_path("labextensions")
    own = config.get("NbinlineApp", {}).get("data_dir", "")
    return Installation(
        versions={name: _version(name) for name in WATCHED_PACKAGES},
        misfits=tuple(_misfits()),
        server_extensions=_server_extensions(config),
        lab_extensions={
            name: LabExtension(name, data["version"], Path(data["ext_path"]))
            for name, data in get_federated_extensions(folders).items()
        },
        disabled=frozenset(get_page_config(folders).get("disabledExtensions", [])),
        config=config,
        config_problems=tuple(problems),
        data_dir=Path(own) if own else Path(jupyter_data_dir(), "nbinline"),
    )


def writable(folder: Path) -> bool:
    """Whether files can be made in a folder, or in the nearest one above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    probe = folder / f".nbinline-{os.getpid()}"
    try:
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError:
        return False
    return True


def _version(name: str) -> str | None:
    with contextlib.suppress(PackageNotFoundError):
        return version(name)
    return None


def _misfits() -> Iterator[str]:
    """Every requirement among the watched packages that is missing or of another version."""
    for name in WATCHED_PACKAGES:
        if _version(name) is None:
            continue
        for text in requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
                continue
            installed = _version(requirement.name)
            if installed is None:
                if _plain(requirement.name) in WATCHED_PACKAGES or name == "nbinline-rtc":
                    yield f"{name} needs {requirement.name}, which is not installed"
            elif not requirement.specifier.contains(installed, prereleases=True):
                yield (
                    f"{name} needs {requirement.name} {requirement.specifier}, "
                    f"but {installed} is installed"
                )


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _server_extensions(config: Config) -> dict[str, bool]:
    manager: Any = ExtensionConfigManager(read_config_path=jupyter_config_path())
    enabled: dict[str, bool] = dict(manager.get_jpserver_extensions())
    enabled.update(config.get("ServerApp", {}).get("jpserver_extensions", {}))
    return {name: bool(on) for name, on in enabled.items()}


def _config() -> tuple[Config, list[str]]:
    merged, problems = Config(), []
    for name in CONFIG_FILES:
        reader = JupyterApp(config_file_name=name)
        reader.raise_config_file_errors = True
        try:
            reader.load_config_file(suppress_errors=False)
        except Exception as error:
            # A configuration file is a program and can fail in any way.
            problems.append(f"{name} cannot be read: {type(error).__name__}")
        else:
            merged.merge(_without_app(reader.config))
    return merged, problems


def _without_app(config: Config) -> Config:
    return Config({name: section for name, section in config.items() if name != "JupyterApp"})


def trait(config: Config, section: str, name: str) -> Any:
    """A configured value, or None where nothing was configured."""
    return config.get(section, {}).get(name)
