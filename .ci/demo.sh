#!/usr/bin/env bash
# Behind `make demo`: set up what is missing, then open JupyterLab on a copy of the example.
source "$(dirname "$0")/setup.sh"

make_venv
build_plugin
install_packages local
install_model
exec "$VENV/bin/python" deploy/demo/start.py
