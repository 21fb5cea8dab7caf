"""``jupyter nbinline doctor``: every misfit that can be told without starting a server."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from . import model_package
from .credentials import KEY_VARIABLES, CredentialStore, CredentialsUnusable
from .installation import Installation, trait, writable

OWN_PLUGIN = "@nbinline/lab"
OWN_MODULE = "nbinline_rtc"
COLLABORATION_PLUGINS = ("@jupyter/collaboration-extension", "@jupyter/docprovider-extension")
FOREIGN_EXECUTOR = "@datalayer/jupyter-server-nbmodel"


class Level(StrEnum):
    """How bad it is: only a problem makes the doctor's exit code non-zero."""

    FINE = "fine"
    ADVICE = "advice"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        code: Stable, kebab-case.
        level: How bad it is.
        message: What is the case.
        remedy: What to do, or an empty string.
    """

    code: str
    level: Level
    message: str
    remedy: str = ""


Check = Callable[[Installation], Iterator[Finding]]


def examine(found: Installation, store: CredentialStore) -> list[Finding]:
    """Look at everything.

    Args:
        found: What is installed, enabled and configured.
        store: The account's keys.
    """
    findings = [finding for check in CHECKS for finding in check(found)]
    findings.extend(connections(found, store))
    return findings


def versions(found: Installation) -> Iterator[Finding]:
    """Packages that are missing or do not fit each other."""
    if found.versions.get("jupyter-collaboration") is None:
        yield _problem(
            "collaboration-missing",
            "jupyter-collaboration is not installed, so there is no shared document to join.",
            "pip install 'jupyter-collaboration>=5,<6'",
        )
    for misfit in found.misfits:
        yield _problem(
            "version-misfit",
            f"{misfit}.",
            "pip install --upgrade nbinline-rtc jupyter-collaboration",
        )
    if not found.misfits and found.versions.get("jupyter-collaboration") is not None:
        pair = ", ".join(
            f"{name} {found.versions[name]}"
            for name in ("nbinline-rtc", "jupyterlab", "jupyter-collaboration", "pycrdt")
            if found.versions.get(name)
        )
        yield _fine("versions", f"The installed versions fit each other: {pair}.")


def server_extensions(found: Installation) -> Iterator[Finding]:
    """Server extensions that must be on."""
    for module, what in (
        (OWN_MODULE, "The server extension of AI prompts"),
        ("jupyter_server_ydoc", "The server extension of jupyter-collaboration"),
        ("jupyter_server_fileid", "The server extension that gives files their stable ids"),
    ):
        if found.server_extensions.get(module, False):
            yield _fine("server-extension", f"{what} ({module}) is enabled.")
        else:
            yield _problem(
                "server-extension-off",
                f"{what} ({module}) is not enabled.",
                f"jupyter server extension enable {module}",
            )


def lab_extensions(found: Installation) -> Iterator[Finding]:
    """JupyterLab extensions that must be there and on, in the version of the server's part."""
    for name in (OWN_PLUGIN, *COLLABORATION_PLUGINS):
        if name not in found.lab_extensions:
            yield _problem(
                "lab-extension-missing",
                f"JupyterLab's extension {name} is not installed.",
                "pip install --force-reinstall --no-deps "
                + ("nbinline-rtc" if name == OWN_PLUGIN else "jupyter-collaboration-ui"),
            )
        elif not found.lab_enabled(name):
            yield _problem(
                "lab-extension-off",
                f"JupyterLab's extension {name} is disabled.",
                f"jupyter labextension enable {name}",
            )
        else:
            yield _fine("lab-extension", f"JupyterLab's extension {name} is enabled.")
    own = found.lab_extensions.get(OWN_PLUGIN)
    python = found.versions.get("nbinline-rtc")
    if own is not None and python is not None and own.version != python:
        yield _problem(
            "plugin-version",
            f"The plugin in JupyterLab is {own.version}, its server part is {python}.",
            "pip install --force-reinstall --no-deps nbinline-rtc, then reload the page",
        )


def rivals(found: Installation) -> Iterator[Finding]:
    """Other extensions that would run the same cells or own the same documents."""
    for name in found.lab_extensions:
        if "nbinlineai" in name and found.lab_enabled(name):
            yield _problem(
                "second-prompt-runner",
                f"{name} runs the same AI prompts, so each would be answered twice.",
                f"jupyter labextension disable {name}",
            )
    if found.lab_enabled(FOREIGN_EXECUTOR):
        yield _problem(
            "second-executor",
            f"{FOREIGN_EXECUTOR} also runs cells for JupyterLab, which lets only one extension do "
            "so; prompts may be passed over.",
            f"jupyter labextension disable {FOREIGN_EXECUTOR}",
        )
    documents = found.versions.get("jupyter-server-documents") is not None
    if documents and found.server_extensions.get("jupyter_server_documents", True):
        yield _problem(
            "other-rooms",
            "jupyter-server-documents takes the place of jupyter-server-ydoc; the agent cannot "
            "join its rooms.",
            "jupyter server extension disable jupyter_server_documents",
        )


def collaboration_settings(found: Installation) -> Iterator[Finding]:
    """Settings of jupyter-collaboration that stop the agent or endanger notebooks."""
    yield from (_problem("config-unreadable", f"{text}.") for text in found.config_problems)
    if trait(found.config, "YDocExtension", "disable_rtc"):
        yield _problem(
            "collaboration-off",
            "Collaboration is switched off by c.YDocExtension.disable_rtc.",
            "Remove that line from the Jupyter configuration.",
        )
    store = trait(found.config, "YDocExtension", "ystore_class")
    if _is_ours(store):
        yield _fine("update-store", "Shared documents are kept in the safe update store.")
    else:
        named = "the stock one" if store is None else str(store)
        yield _problem(
            "update-store",
            f"The store of shared documents is {named}, which can lose what a server writes.",
            "Remove c.YDocExtension.ystore_class from the Jupyter configuration, or reinstall "
            "nbinline-rtc if it is not there.",
        )
    for section, name in _squashing(found.config):
        yield _problem(
            "store-squash",
            f"c.{section}.{name} makes the update store squash documents, which can empty them.",
            "Remove that line from the Jupyter configuration.",
        )
    if trait(found.config, "YDocExtension", "document_load_progressively"):
        yield _advice(
            "progressive-load",
            "c.YDocExtension.document_load_progressively is on: prompts wait until a notebook is "
            "loaded as a whole.",
            "Switch it off if large notebooks take long to answer.",
        )


def data_directory(found: Installation) -> Iterator[Finding]:
    """Whether the journal of runs can be written."""
    if writable(found.data_dir):
        yield _fine(
            "data-directory", f"The folder of the run journal, {found.data_dir}, is writable."
        )
    else:
        yield _problem(
            "data-directory",
            f"The folder of the run journal, {found.data_dir}, cannot be written.",
            "Mend its rights, or name another one in c.NbinlineApp.data_dir.",
        )


def front_ends(found: Installation) -> Iterator[Finding]:
    """Front ends that are there but not supported."""
    notebook = found.versions.get("notebook")
    if notebook is not None and int(notebook.split(".")[0]) >= 7:
        yield _advice(
            "notebook-7",
            f"Notebook {notebook} is installed; AI prompts are supported in JupyterLab only.",
            "Open the notebooks with JupyterLab.",
        )


def connections(found: Installation, store: CredentialStore) -> Iterator[Finding]:
    """Whether a prompt could be answered by anything."""
    usable: list[str] = []
    try:
        usable.extend(name for name in KEY_VARIABLES if _usable(name, found, store))
    except CredentialsUnusable as error:
        yield _problem("credentials", error.message)
    path = trait(found.config, "NbinlineApp", "local_model_path")
    problem = model_package.problem(Path(path) if path else None)
    if problem is None:
        usable.append("local")
    elif path:
        yield _problem("local-model", problem)
    if usable:
        yield _fine("connections", f"These connections can be used: {', '.join(usable)}.")
    else:
        yield _problem(
            "no-connection",
            "No connection is configured, so no prompt can be answered.",
            "Set a key with the command AI Connections and Keys… in JupyterLab, or run "
            f"`{model_package.INSTALL_COMMAND}` to try it with a tiny local model.",
        )


CHECKS: tuple[Check, ...] = (
    versions,
    server_extensions,
    lab_extensions,
    rivals,
    collaboration_settings,
    data_directory,
    front_ends,
)


def report(findings: list[Finding]) -> str:
    """The findings as text, the worst last, where a terminal shows them."""
    order = list(Level)
    marks = {Level.FINE: "  ok     ", Level.ADVICE: "  note   ", Level.PROBLEM: "  PROBLEM"}
    lines = []
    for finding in sorted(findings, key=lambda finding: order.index(finding.level)):
        lines.append(f"{marks[finding.level]} {finding.message}")
        if finding.remedy:
            lines.append(f"            -> {finding.remedy}")
    count = sum(finding.level is Level.PROBLEM for finding in findings)
    lines.append("")
    lines.append("Nothing is wrong." if not count else f"{count} to mend.")
    return "\n".join(lines)


def as_json(findings: list[Finding]) -> Mapping[str, Any]:
    """The findings for programs."""
    return {
        "ok": not any(finding.level is Level.PROBLEM for finding in findings),
        "findings": [
            {
                "code": finding.code,
                "level": finding.level.value,
                "message": finding.message,
                "remedy": finding.remedy,
            }
            for finding in findings
        ],
    }


def _usable(connection: str, found: Installation, store: CredentialStore) -> bool:
    if connection == "openai_compatible":
        # Such a service may need no key, but has no address of its own.
        return bool(trait(found.config, "NbinlineApp", "compatible_base_url"))
    return store.source(connection) is not None


def _is_ours(store: Any) -> bool:
    if isinstance(store, str):
        module, _, name = store.rpartition(".")
        try:
            store = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError):
            return False
    bases = getattr(store, "__mro__", ())
    return any(base.__module__ == f"{OWN_MODULE}.store" for base in bases)


def _squashing(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for section, settings in config.items():
        for name in ("squash_after_inactivity_of", "document_ttl"):
            if section.endswith("YStore") and settings.get(name) is not None:
                yield section, name


def _fine(code: str, message: str) -> Finding:
    return Finding(code, Level.FINE, message)


def _advice(code: str, message: str, remedy: str = "") -> Finding:
    return Finding(code, Level.ADVICE, message, remedy)


def _problem(code: str, message: str, remedy: str = "") -> Finding:
    return Finding(code, Level.PROBLEM, message, remedy)
