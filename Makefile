# Targets for people; `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
PRESET ?= demo
QUESTION ?= What is 2 + 2?
OLDEST_HUB := huggingface_hub==1.33.*
BIN := $(VENV)/bin
SPEC := $(BIN)/spark-spec

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-hub-versions test-arm64 lint format bench bundle-demo up down docker-engine golden lock-requirements

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20
	@echo; echo "PRESET=$(PRESET) chooses the preset of up, down and demo"

setup: $(VENV)/.ready ## make a virtual environment with all that development needs

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "error: $(PYTHON) is not Python 3.11 or newer" >&2; \
	  echo "  fix: name one that is: make setup PYTHON=python3.11" >&2; exit 4; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "error: $(PYTHON) cannot make virtual environments: it has no ensurepip" >&2; \
	  echo "  fix: install it (Debian and Ubuntu: apt-get install python3-venv), or name another Python: make setup PYTHON=..." >&2; exit 4; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[local,dev]'
	@touch $@

demo: setup ## from nothing to a verified endpoint that speculates, and what that brings
	$(SPEC) up $(PRESET)
	$(SPEC) ask --name $(PRESET) --max-tokens 48 "$(QUESTION)"
	$(SPEC) verify $(PRESET) --against-baseline
	@echo "It still runs; stop it with: make down"

test: setup ## run all tests; those that need Docker run where an engine answers
	$(BIN)/python -m pytest $(ARGS)

test-hub-versions: ## run the hub's tests with the oldest version of its library that is supported
	@test -x $(VENV)-hub/bin/python || $(PYTHON) -m venv $(VENV)-hub
	$(VENV)-hub/bin/python -m pip install --quiet --editable . '$(OLDEST_HUB)' 'pytest>=9,<10'
	$(VENV)-hub/bin/python -m pytest -q -p no:cacheprovider tests/models/test_hub*.py tests/models/test_plan.py \
	  tests/models/test_clock.py tests/models/test_cli.py tests/models/test_bring.py

test-arm64: setup ## build and run for linux/arm64, under emulation on another machine (root, Docker)
	$(BIN)/python -m pytest -m arm64 --durations=8 tests/arm64

lint: setup ## ruff, mypy --strict, import-linter; hadolint and shellcheck
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint $$(git ls-files '*Dockerfile')
	$(BIN)/shellcheck $$(git ls-files '*.sh') .ci/run

format: setup ## put the code into the house's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

golden: setup ## write the checked-in stacks and reference files anew, after a change that was meant
	$(BIN)/python -m tests.golden

lock-requirements: setup ## lock the wheels of our images anew, from their requirements.in
	$(BIN)/python -m pip install --quiet 'uv>=0.9,<1'
	$(BIN)/python images/lock_requirements.py

bundle-demo: setup ## the demo across an air gap, on this machine: create, import on an empty side, serve (root, Docker)
	$(BIN)/python -m tests.bundle_demo

bench: setup ## figures of this machine, as ratios of one run
	$(BIN)/python -m tests.bench

up: setup ## bring PRESET up
	$(SPEC) up $(PRESET)

down: setup ## stop PRESET
	$(SPEC) down $(PRESET)

docker-engine: ## install and start a Docker engine (root, Debian); the only target that touches Docker
	bash images/docker-engine.sh start
