# Thin: each target is a script, which also runs alone.
#   make demo PYTHON=/path/to/python3.12   takes another interpreter
#   JUPYTER_PORT=9000 NO_BROWSER=1 make demo

SHELL := /bin/bash
export PYTHON ?= python3

.PHONY: help demo test test-long lint bench clean

help:
	@echo 'make demo    set up and open JupyterLab on an example (JUPYTER_PORT, NO_BROWSER=1)'
	@echo 'make test    set up and run every check and test'
	@echo 'make test-long  hours of kills, schedules and load; writes docs/reliability.md'
	@echo 'make lint    formatting, lint, types, layers'
	@echo 'make bench   the figures, as JSON'
	@echo 'make clean   remove everything these made'

demo:
	@bash .ci/demo.sh

test:
	@bash .ci/test.sh

test-long:
	@bash .ci/test_long.sh

lint:
	@bash .ci/lint.sh

bench:
	@bash .ci/bench.sh

clean:
	@bash .ci/clean.sh
