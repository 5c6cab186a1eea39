# The doors of the project. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON := .venv/bin/python
# Under sudo, everything but installing runs as the invoking user: the emulator needs no privileges.
AS_USER := $(if $(SUDO_UID),$(if $(filter-out 0,$(SUDO_UID)),setpriv --reuid=$(SUDO_UID) --regid=$(SUDO_GID) --init-groups env HOME=$(shell getent passwd $(SUDO_UID) | cut -d: -f6)))
# What has to run as root leaves nothing in the clone that its owner could not change or remove.
AS_ROOT := env PYTHONDONTWRITEBYTECODE=1
GIVE_BACK := $(if $(SUDO_UID),chown -h $(SUDO_UID):$(SUDO_GID),true)
RESULTS ?= results
S ?= scenarios/smoke.yaml

.PHONY: help setup demo run test check fmt bench bench-dataplane calibrate kernel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what is missing, make .venv, build or find the virtual-time kernel
	@scripts/setup.sh

demo: setup ## both designs at 100 Gbit/s in virtual time, with a verdict on each claim
	@$(AS_USER) $(PYTHON) -m emulator.cli run scenarios/demo.yaml --out $(RESULTS)/demo

run: setup ## run one scenario: make run S=scenarios/reference/line_rate.yaml
	@$(AS_USER) $(PYTHON) -m emulator.cli run $(S)

test: setup check ## everything: style, types, import contracts, unit, property and virtual-kernel tests
	@$(AS_USER) $(PYTHON) -m pytest

check: ## style, types and import contracts
	@$(AS_USER) $(PYTHON) -m ruff check .
	@$(AS_USER) $(PYTHON) -m ruff format --check .
	@$(AS_USER) $(PYTHON) -m mypy
	@$(AS_USER) .venv/bin/lint-imports

fmt: ## format the code
	@$(AS_USER) $(PYTHON) -m ruff format .
	@$(AS_USER) $(PYTHON) -m ruff check --fix .

bench: ## speed, as ratios in one run: this emulator next to ns-3, start-up, the controller next to networkx and Ryu
	@scripts/setup.sh --bench
	@$(AS_USER) $(PYTHON) -m tests.bench

bench-dataplane: ## the gateway's data plane next to the kernel's and others: rates, costs, delays (root, about 20 minutes)
	@scripts/setup.sh --bench
	@$(AS_USER) mkdir -p $(RESULTS)
	@$(AS_ROOT) $(PYTHON) -m tests.bench.dataplane compare --json $(RESULTS)/dataplane.json
	@$(GIVE_BACK) $(RESULTS)/dataplane.json
	@$(AS_ROOT) $(PYTHON) -m tests.bench.dataplane evidence
	@$(AS_ROOT) $(PYTHON) -m tests.bench.dataplane memory offload
	@$(AS_ROOT) $(PYTHON) -m tests.bench.dataplane memory af_xdp packet_mmap --packets 1e7
	@$(AS_ROOT) $(PYTHON) -m tests.bench.dataplane memory sockets --packets 5e6

calibrate: setup ## measure what ways of carrying packets cost here: results/calibrated.yaml, for scenarios to name (root)
	@$(AS_USER) mkdir -p $(RESULTS)
	@$(AS_ROOT) $(PYTHON) -m tests.bench.dataplane calibrate --out $(RESULTS)/calibrated.yaml
	@$(GIVE_BACK) $(RESULTS)/calibrated.yaml

kernel: ## build or find the virtual-time kernel and print its path
	@python3 kernel/build.py

clean: ## remove what runs left behind, caches and build products (not .venv, results or the kernel)
	@if [ -x $(PYTHON) ]; then $(AS_USER) $(PYTHON) -m emulator.cli clean; fi
	@rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
