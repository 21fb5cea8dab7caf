#!/usr/bin/env bash
# Behind `make test-long`: kills, random schedules, soak and latency at full length (hours), then the
# tables of docs/reliability.md are rewritten from what they found. All parts run; a failure is in
# the tables too. Arguments choose parts: .ci/test_long.sh faults
source "$(dirname "$0")/setup.sh"

started=$SECONDS
make_venv
need_node
build_plugin
install_packages test
in_folder tests/node npm install --no-audit --no-fund >/dev/null
mkdir -p build/results
LINES=build/results/long.jsonl
WANTED=" $* "

failed=()
part() {
  local name=$1
  shift
  [ "$WANTED" = "  " ] || [[ $WANTED == *" $name "* ]] || return 0
  say "$name"
  python -m pytest -q --long --results "$LINES" --timeout 14400 "$@" || failed+=("$name")
}

part faults tests/faults
part fuzz tests/fuzz
part soak tests/soak

say "make test-long: $((SECONDS - started)) s"
python -m tests.results.table "$LINES" --page docs/reliability.md
python -m tests.results.table "$LINES"
[ ${#failed[@]} -eq 0 ] || stop "these failed: ${failed[*]}"
