#!/usr/bin/env bash
# Behind `make clean`: remove what building, testing and the demo left, the demo's notebooks too.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf .venv .make build dist lab/lib lab/node_modules lab/.yarn lab/coverage lab/.eslintcache \
  lab/.stylelintcache lab/tsconfig.tsbuildinfo nbinline_rtc/labextension tests/node/node_modules tests/hub/node_modules \
  .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
find . -name __pycache__ -type d -prune -exec rm -rf {} +
