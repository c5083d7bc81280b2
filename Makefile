# Two commands do everything on a fresh machine: `make demo` and `make test`. Each makes its virtual environment first.
PYTHON ?= python3
VENV := .venv
CLUSTER := .venv-cluster
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test lint types imports tests test-cluster campaigns docs clean

help:
	@echo "make demo       train, calibrate and stop adaptively on sums of 64 bits; three minutes with set-up (runs/demo)"
	@echo "make test       every check: lint, types, imports, tests; each is a target of its own"
	@echo "make test-cluster  the hub and Ray, several machines simulated: two gigabytes, then three minutes (.venv-cluster)"
	@echo "make campaigns  the long checks: kills, crashes, signals, hostile files, batch invariance; under an hour"
	@echo "make docs       the documents as a site, in site/ (open site/index.html)"
	@echo "make clean      remove the virtual environment and caches"

# The environments are stamped with what they were made from, and renewed when that changes.
$(VENV)/.base: pyproject.toml constraints.txt
	@echo "frost: making $(VENV) and installing the package (about a minute, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -e .
	@touch $@

$(VENV)/.test: $(VENV)/.base
	@echo "frost: installing what the checks need (under a minute, once)"
	@$(PIP) -e ".[test]"
	@touch $@

$(VENV)/.docs: $(VENV)/.base
	@echo "frost: installing what the documents need (under a minute, once)"
	@$(PIP) -e ".[docs]"
	@touch $@

# Ray is too large for everybody: its checks have an environment of their own.
$(CLUSTER)/.cluster: pyproject.toml constraints.txt
	@echo "frost: making $(CLUSTER) for what needs the hub and Ray (a few minutes, once)"
	@$(PYTHON) -m venv $(CLUSTER)
	@$(CLUSTER)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  -e ".[test-minimum,cluster,hub,serve]"
	@touch $@

demo: $(VENV)/.base
	@$(BIN)/frost demo

test: lint types imports tests

lint: $(VENV)/.test
	@echo "frost: lint"
	@$(BIN)/ruff check .

types: $(VENV)/.test
	@echo "frost: types"
	@$(BIN)/mypy

imports: $(VENV)/.test
	@echo "frost: import contracts"
	@$(BIN)/lint-imports

tests: $(VENV)/.test
	@echo "frost: tests"
	@$(BIN)/python -m pytest -q -n 2

test-cluster: $(CLUSTER)/.cluster
	@echo "frost: the hub and Ray"
	@FROST_REQUIRE_CLUSTER=1 OMP_NUM_THREADS=1 $(CLUSTER)/bin/python -m pytest -q tests/cluster

campaigns: $(VENV)/.test
	@$(BIN)/python campaigns/flip_signs.py
	@$(BIN)/python campaigns/hostile_data.py
	@$(BIN)/python campaigns/kill_training.py
	@$(BIN)/python campaigns/crashes.py
	@$(BIN)/python campaigns/processes.py
	@$(BIN)/python campaigns/exactness.py
	@$(BIN)/python campaigns/mutations.py
	@$(BIN)/python campaigns/hostile_files.py
	@$(BIN)/python campaigns/thresholds.py
	@$(BIN)/python campaigns/batch_invariance.py
	@$(BIN)/python campaigns/any_input.py
	@$(BIN)/python campaigns/kill_reproduction.py --only supervision losses
	@FROST_REQUIRE_BROWSER=1 $(BIN)/python -m pytest -q -p no:cacheprovider tests/paper/test_reproduction.py -k browser
	@FROST_REQUIRE_BROWSER=1 $(BIN)/python -m pytest -q -p no:cacheprovider tests/page
	@$(PIP) -e ".[campaigns]"
	@$(BIN)/python campaigns/service.py $(if $(CIFAR),--data $(CIFAR))
	@$(BIN)/python campaigns/pages.py

# The theme prints a notice about its successor on every build.
docs: $(VENV)/.docs
	@echo "frost: documents"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "frost: open site/index.html; with search: $(PYTHON) -m http.server -d site"

clean:
	rm -rf site $(VENV) $(CLUSTER) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
