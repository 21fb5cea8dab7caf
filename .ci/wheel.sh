#!/usr/bin/env bash
# Build the sdist and the wheel, install the wheel where there is no Node, and start it.
source "$(dirname "$0")/setup.sh"

OUT=$ROOT/build/dist
CLEAN=$ROOT/build/wheel-venv
HOME_OF_CHECK=$ROOT/build/wheel-home

say "Building the wheel"
rm -rf "$OUT" "$CLEAN" "$HOME_OF_CHECK"
SKIP_JUPYTER_BUILDER=1 python -m build --outdir "$OUT" . >build/wheel.log 2>&1 || {
  tail -40 build/wheel.log >&2
  stop "the wheel could not be built"
}
wheel=$(ls "$OUT"/*.whl)
python .ci/wheel_contents.py "$wheel" "$OUT"/*.tar.gz

say "Installing it without Node"
"$PYTHON" -m venv "$CLEAN"
export PATH=$CLEAN/bin
hash -r
if command -v node >/dev/null 2>&1; then stop "Node is still on the path"; fi
pip install -qq "$wheel"
exec "$CLEAN/bin/python" "$ROOT/.ci/wheel_check.py" "$HOME_OF_CHECK"
