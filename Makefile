# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# The versions that the tests passed with; `make test CONSTRAINTS=` takes the newest instead.
CONSTRAINTS ?= -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo models test test-browser test-libraries test-kernels golden test-slow test-corpora fuzz fuzz-given kills mutants check check-js bench papers docs constraints clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/installed ## parse English, then learn a grammar on bundled data, in under a minute
	$(BIN)/sapwood demo

# Byte code of sources and tests is kept, whatever the environment says: the tests start many processes.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/installed-dev ## the fast suite
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not browser"

test-browser: $(VENV)/installed-dev ## the page and the site in a real Chromium; skipped where there is none
	$(BIN)/python -m pytest -n 0 -m browser tests/web tests/test_site.py

# The libraries of docs/guides/other-libraries.md take some 600 MB: they have an environment of their own.
LIBRARIES := build/libraries
test-libraries: $(LIBRARIES)/installed ## Sapwood inside spaCy, NLTK, pandas, Polars and DuckDB, the real ones
	$(LIBRARIES)/bin/python -m pytest -m "not slow" tests/integrations

$(LIBRARIES)/installed: pyproject.toml
	$(PYTHON) -m venv $(LIBRARIES)
	$(LIBRARIES)/bin/python -m pip --disable-pip-version-check --quiet install -e '.[nltk,spacy,arrow,tables]' pytest hypothesis
	@touch $@

# Tests of kernels on small cases: as plain Python, where their lines are counted, then compiled anew
# with every index checked, in a cache of its own. Left out there: how kernels are compiled and kept.
KERNELS := $(wildcard src/sapwood/*/kernels src/sapwood/*/*/kernels)
KERNEL_TESTS := $(wildcard tests/*/kernels) tests/hankel/model/test_pairs.py tests/identify/model/test_uniform_trees.py
test-kernels: $(VENV)/installed-dev ## the kernels without compiling, and with checks of bounds
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 -m "not slow" \
	  $(KERNELS:%=--cov=%) --cov-fail-under=98 $(KERNEL_TESTS)
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=build/checked-kernels $(BIN)/python -m pytest -n 2 \
	  -m "not slow" -k "not compiles_once" $(KERNEL_TESTS)

golden: $(VENV)/installed-dev ## write anew what tests/golden holds; look at the difference before it is kept
	$(BIN)/python -m pytest -n 0 tests/golden tests/core/test_parameters.py --renew-golden

test-slow: $(VENV)/installed-dev ## the tests that take long
	$(BIN)/python -m pytest -n 2 -m slow

test-corpora: $(VENV)/installed-dev ## the tests on real corpora, in the folder that SAPWOOD_DATA names
	@test -n "$$SAPWOOD_DATA" || { echo "set SAPWOOD_DATA to the folder with the corpora" >&2; exit 2; }
	$(BIN)/python -m pytest -n 2 -m corpora

fuzz: $(VENV)/installed-dev ## a million spoilt inputs for all readers; INPUTS, SEED, READER say otherwise
	$(BIN)/python -m tests.fuzz --inputs $(or $(INPUTS),1000000) --seed $(or $(SEED),0) $(if $(READER),--reader $(READER))

fuzz-given: $(VENV)/installed-dev ## random given tags, brackets, heads and pairs: each is kept in the tree or refused; CASES, SEED say otherwise
	$(BIN)/python -m tests.fuzz.requests --cases $(or $(CASES),100000) --seed $(or $(SEED),0)
	$(BIN)/python -m tests.fuzz.given --seed $(or $(SEED),0)

kills: $(VENV)/installed-dev ## a thousand kills of all commands that write; KILLS, SEED, JOB say otherwise
	$(BIN)/python -m tests.kills --kills $(or $(KILLS),1000) --seed $(or $(SEED),0) $(if $(JOB),--job $(JOB))

mutants: $(VENV)/installed-dev ## make known and random mistakes, one at a time, and see that the tests notice; ROOM=lm for random ones there
	$(if $(ROOM),,$(BIN)/python tools/mutants.py)
	$(BIN)/python tools/random_mutants.py $(or $(ROOM),.) -n $(or $(MUTANTS),20) --seed $(or $(SEED),0)

check: $(VENV)/installed-dev ## format, lint, types, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m codespell_lib
	@$(MAKE) --no-print-directory check-js

# ESLint needs Node 20.19 or newer. The packages are installed anew when their list has changed.
check-js: ## format and lint the page's JavaScript; skipped where there is no Node
	@if ! command -v npm > /dev/null || \
	    ! node -e 'const [a, b] = process.versions.node.split("."); process.exit(a * 100 + +b < 2019 ? 1 : 0)'; then \
	  echo "the JavaScript is not checked: Node 20.19 or newer is not installed" >&2; \
	elif ! { test node_modules/installed -nt package-lock.json || \
	    { npm ci --silent --no-audit --no-fund && touch node_modules/installed; }; }; then \
	  echo "the JavaScript is not checked: npm could not install the packages of package.json" >&2; \
	else \
	  npm run --silent check; \
	fi

bench: $(VENV)/installed-dev ## accuracy and time, on the corpora that SAPWOOD_DATA names; OLD=FILE.json compares
	$(BIN)/python benchmarks/run_all.py
	$(if $(OLD),$(BIN)/python benchmarks/compare.py $(OLD) build/benchmarks.json)

models: $(VENV)/installed-dev ## make the models that come with Sapwood again, from open corpora; an hour of processor time
	$(BIN)/python tools/make_models.py

papers: $(VENV)/installed-dev ## the tables of docs/papers anew, on the corpora that SAPWOOD_DATA names; FAST=1 for small ones
	$(BIN)/python benchmarks/papers/run.py $(if $(FAST),--fast)

docs: $(VENV)/installed-docs ## the documentation site, into build/site; offline once installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open build/site/index.html"

constraints: ## pin the newest versions of all packages of dev and docs; run the tests before it is kept
	rm -rf build/newest
	$(PYTHON) -m venv build/newest
	build/newest/bin/python -m pip --disable-pip-version-check --quiet install '.[dev,docs]'
	build/newest/bin/python -m pip list --format=freeze --exclude sapwood --exclude pip --exclude setuptools > constraints.txt

clean: ## remove the environment and everything generated
	rm -rf $(VENV) node_modules build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Sapwood needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The stamps are touched last: an interrupted installation is done again.
$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(PIP) install -e .
	@touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -e '.[dev]' $(CONSTRAINTS)
	@touch $@ $(VENV)/installed

$(VENV)/installed-docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -e '.[docs]' $(CONSTRAINTS)
	@touch $@ $(VENV)/installed
