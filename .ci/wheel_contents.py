"""Check what the built archives hold: all that is needed, and nothing of the workshop."""

import sys
import tarfile
import zipfile
from pathlib import Path

LIMITS = {"wheel": 3_000_000, "sdist": 6_000_000}
"""Bytes; a stray cache or the trial model would be far larger."""

NEEDED = (
    "nbinline_rtc/py.typed",
    "nbinline_agent/py.typed",
    "nbinline_rtc/event_schemas/run.yaml",
    "nbinline_rtc/skill/SKILL.md",
    "share/jupyter/labextensions/@nbinline/lab/package.json",
    "share/jupyter/labextensions/@nbinline/lab/install.json",
    "share/jupyter/labextensions/@nbinline/lab/static/style.js",
    "etc/jupyter/jupyter_server_config.d/nbinline_rtc.json",
    "etc/jupyter/jupyter_jupyter_server_ydoc_config.json",
    "licenses/LICENSE",
)
UNWANTED = ("tests/", "node_modules/", ".yarn/", ".gguf", "__pycache__", "/.ci/")


def main(wheel: Path, sdist: Path) -> None:
    """Exit with a sentence if something is missing, doubled or too much."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for needed in NEEDED:
        if sum(name.endswith(needed) for name in names) != 1:
            sys.exit(f"{wheel.name} does not hold {needed} exactly once")
    tops = {
        name.split("/")[0] for name in names if ".data/" not in name and "dist-info" not in name
    }
    if tops != {"nbinline_rtc", "nbinline_agent"}:
        sys.exit(f"{wheel.name} would install {sorted(tops)}")
    if stray := [name for name in names if any(part in name for part in UNWANTED)]:
        sys.exit(f"{wheel.name} holds {stray[:5]}")
    if plugin := [name for name in names if name.startswith("nbinline_rtc/labextension/")]:
        sys.exit(f"{wheel.name} holds the plugin twice: {plugin[0]}")
    with tarfile.open(sdist) as archive:
        inside = archive.getnames()
    if stray := [name for name in inside if "node_modules/" in name or ".gguf" in name]:
        sys.exit(f"{sdist.name} holds {stray[:5]}")
    for path, limit in ((wheel, LIMITS["wheel"]), (sdist, LIMITS["sdist"])):
        if path.stat().st_size > limit:
            sys.exit(f"{path.name} has {path.stat().st_size:,} bytes, more than {limit:,}")
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
