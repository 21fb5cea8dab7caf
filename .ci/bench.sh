#!/usr/bin/env bash
# Behind `make bench`: the figures of tests/bench, as JSON in build/bench and in the output.
source "$(dirname "$0")/setup.sh"

bash .ci/system.sh
make_venv
build_plugin
install_packages test
mkdir -p build/bench
python tests/bench/run.py "$@" | tee build/bench/figures.json
