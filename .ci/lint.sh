#!/usr/bin/env bash
# Behind `make lint`: formatting, lint, types and layers of the Python and the plugin's code.
source "$(dirname "$0")/setup.sh"

make_venv
build_plugin
install_packages test
need_node
install_node_packages

failed=()
check() {
  say "$*"
  "$@" || failed+=("$*")
}

check ruff check .
check ruff format --check .
check mypy
check lint-imports
check in_folder lab jlpm run lint:check
check in_folder lab jlpm run test

[ ${#failed[@]} -eq 0 ] || stop "these failed: $(printf '%s; ' "${failed[@]}")"
