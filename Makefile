# Every target sets up what it needs: Python >= 3.11 is enough; the real tier also wants Go, a JDK and Maven.
# ARGS goes to the command behind `demo`, `test`, `check`, the benches and `testbed`: make demo ARGS="--keep"
# Another Python has an environment of its own beside the usual one: make check PYTHON=python3.14 VENV=.venv-3.14
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# One stamp per state of the dependencies: a changed pin installs again, anything else starts at once.
STAMP  := $(VENV)/.stamp-$(shell cat pyproject.toml requirements/test.txt | sha256sum | cut -c 1-16)
LOCK   := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
          --no-header --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml

MAKEFLAGS     += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help install demo test check proof oldest mutants machine schedules faults fuzz bench bench-decisions testbed lint generate docs lock clean

help: ## what there is to make
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 18

install: $(STAMP) ## the command `rebalancer` in .venv

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than 3.11: make PYTHON=/path/to/a/newer/python3"; exit 1; }
	@$(BIN)/pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || \
		{ echo "no venv module in $(PYTHON): on Debian, apt-get install python3-venv"; exit 1; }
	@echo "installing the pinned packages into $(VENV) (about a minute the first time)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/test.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.stamp-* && touch $@

demo: $(STAMP) ## a surge, a spot notice and an override on an embedded Kafka and Kubernetes, in a minute
	@$(BIN)/rebalancer demo $(ARGS)

test: $(STAMP) ## every test, the real Kafka, API server, KEDA and Karpenter included
	@$(BIN)/python -m pytest -p tests.halves -m "not proof" $(ARGS)

check: lint ## lint and every test but the real tier and the slow ones (minutes)
	@$(BIN)/python -m pytest -p tests.halves -m "not real and not slow and not proof" $(ARGS)

proof: $(STAMP) ## the claims that take minutes to hours each: thousands of random worlds, whole recorded days, the oldest line
	@$(BIN)/python -m pytest -m proof $(ARGS)
	@$(if $(ARGS),,$(MAKE) oldest)

oldest: $(STAMP) ## the real tier on the oldest Kubernetes, KEDA and Karpenter, and its page; ARGS="tests/real/test_gate.py"
	@TESTBED_LINE=$@ $(BIN)/python -m pytest -p tests.testbed.page -m "real and not proof" $(ARGS)

mutants: $(STAMP) ## each guard broken on purpose, its limits one off, and which test noticed
	@$(BIN)/python -m tests.mutants

machine: $(STAMP) ## random histories of failing clusters against an oracle; ARGS="--steps 1000000 --seed 7 --processes 2"
	@$(BIN)/python -m tests.machine $(ARGS)

schedules: $(STAMP) ## random schedules of faults over two replicas on a virtual clock; ARGS="--schedules 100000 --seed 7 --processes 2"
	@$(BIN)/python -m tests.schedules $(ARGS)

faults: $(STAMP) ## the 101 faults of the catalogue on real parts, and their page; ARGS="-k kafka --seeds 1"
	@$(BIN)/python -m tests.faults $(ARGS)

fuzz: $(STAMP) ## spoiled records into every decoder, 20,000 requests to the API; ARGS="--seed 7 --only api --page"
	@$(BIN)/python -m tests.fuzz $(ARGS)

bench: $(STAMP) ## the figures of the engine, into build/bench/engine.json
	@$(BIN)/python -m tests.bench $(ARGS)

bench-decisions: $(STAMP) ## peers, limits and the service on real traces (REBALANCER_TRACES); QUICK=1: minutes instead of hours
	@$(BIN)/python -m rebalancer.sim.suite $(if $(QUICK),--quick) $(ARGS)

testbed: $(STAMP) ## the real parts on loopback until Ctrl-C; prints KUBECONFIG and the Kafka address
	@$(BIN)/python -m tests.testbed $(ARGS)

lint: $(STAMP) ## ruff, mypy, the rooms, generated files up to date
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m rebalancer.generate --check

generate: $(STAMP) ## the files that are written from code: schema, reference pages, alerts, dashboard
	@$(BIN)/python -m rebalancer.generate

docs: $(STAMP) ## the pages under docs/ as a site in build/docs; a warning is an error
	@$(BIN)/mkdocs build --strict

lock: $(STAMP) ## the newest of every dependency into requirements/, one answer for all but msk.txt
	@mkdir -p build
	$(LOCK) --extra otlp --extra sandbox --extra sim --extra test --upgrade --output-file build/all.txt
	$(LOCK) --upgrade --constraints build/all.txt --output-file requirements/base.txt
	$(LOCK) --upgrade --extra msk --extra aws --output-file requirements/msk.txt
	$(LOCK) --upgrade --constraints build/all.txt --extra otlp --output-file requirements/otlp.txt
	$(LOCK) --upgrade --constraints build/all.txt --extra sandbox --output-file requirements/sandbox.txt
	$(LOCK) --upgrade --constraints build/all.txt --extra sim --output-file requirements/sim.txt
	$(LOCK) --upgrade --constraints build/all.txt --extra test --output-file requirements/test.txt

clean: ## remove what was made, except .venv and the testbed's cache
	@rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find rebalancer tests -name __pycache__ -type d -exec rm -rf {} +
