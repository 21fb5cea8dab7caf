#!/usr/bin/env bash
# Behind `make test`: set up, then every check and test. All parts run; one failure fails the whole.
source "$(dirname "$0")/setup.sh"

started=$SECONDS
bash .ci/system.sh
make_venv
need_node
build_plugin
install_packages test
install_node_packages
if [ -f tests/node/package.json ]; then
  sum=$(checksum tests/node/package.json $(ls tests/node/package-lock.json 2>/dev/null))
  if ! unchanged yjs "$sum" || [ ! -d tests/node/node_modules ]; then
    say "Installing the Yjs that the tests talk to"
    quietly in_folder tests/node npm install --no-audit --no-fund
    done_for yjs "$sum"
  fi
fi
sum=$(checksum tests/hub/package.json tests/hub/package-lock.json)
if ! unchanged hub "$sum" || [ ! -d tests/hub/node_modules ]; then
  say "Installing the proxy of the JupyterHub that is tested"
  quietly in_folder tests/hub npm ci --no-audit --no-fund
  done_for hub "$sum"
fi
install_model
setup_time=$((SECONDS - started))

mkdir -p build/results
LINES=build/results/short.jsonl
rm -f "$LINES"

results=()
failures=0
part() {
  local name=$1 from=$SECONDS outcome=passed
  shift
  say "$name"
  "$@" || outcome=FAILED
  [ "$outcome" = passed ] || failures=$((failures + 1))
  results+=("$(printf '%-34s %-7s %5d s' "$name" "$outcome" $((SECONDS - from)))")
}
tests() { python -m pytest -q "$@"; }
# Tests of docs/reliability.md, which say what they found.
matrix() { live_tests --results "$LINES" "$@"; }
# Real servers and browsers on two busy cores: what fails is tried again, and the closing line says so.
live_tests() { tests --reruns 2 "$@"; }

part "lint and types" bash .ci/lint.sh
part "repository" tests tests/test_repository.py tests/test_results.py
part "agent without a server" bash .ci/agent_alone.sh
part "extension" live_tests -n 2 --dist worksteal tests/extension
part "faults" matrix -n 2 --dist worksteal tests/faults
part "random schedules" matrix -n 2 --dist worksteal tests/fuzz
part "hub" live_tests tests/hub
part "browser" live_tests tests/browser --confcutdir=tests/browser
part "wheel without Node" bash .ci/wheel.sh

if [ -f "$LINES" ]; then
  say "Reliability (short suite)"
  python -m tests.results.table "$LINES"
  if [ -n "${PUBLISH:-}" ]; then python -m tests.results.table "$LINES" --page docs/reliability.md; fi
fi

say "make test: setup ${setup_time} s, all $((SECONDS - started)) s"
printf '%s\n' "${results[@]}"
[ "$failures" -eq 0 ] || stop "$failures part(s) failed"
