# Everything a person does with this checkout; `make help` lists it. Each target sets up what it needs by itself.

# Variables a person may set, with an example each:
#   STUDY=standard                the size of the study: minute, quick (default), standard, full
#   STUDY_CONFIG='seed=7'         more settings for this run, passed to `snakemake --config`
#   SNAKEMAKE_ARGS='-n'           more arguments for snakemake: dry run, --workflow-profile profiles/slurm, ...
#   PYTEST_ARGS='-k plan'         more arguments for pytest
#   TEST_PROCESSES=2              processes of pytest (default: 4)
#   TORCH=cuda                    build of torch: auto (default), cpu, cuda, cuda12, rocm
#   PYTHON=/path/to/python3.12    interpreter to build .venv from
#   VENV=none                     use PYTHON itself (an environment that has everything), install nothing
STUDY ?=
STUDY_CONFIG ?=
SNAKEMAKE_ARGS ?=
PYTEST_ARGS ?=
# Twice as many as CI has cores, because tests that start processes wait for them; each takes a GB of memory.
TEST_PROCESSES ?= 4
TORCH ?= auto
PYTHON ?=
VENV ?= .venv

REPORT := results/report/report.html
CODE := $(wildcard roofcal kernels tests tools bench examples)
SMK := Snakefile workflow

ifeq ($(VENV),none)
  PY := $(or $(PYTHON),python3)
  BIN := $(patsubst %/,%,$(dir $(shell command -v $(PY))))
else
  PY := $(VENV)/bin/python
  BIN := $(abspath $(VENV))/bin
endif
# The rules of the study call `python`: it must be this one.
export PATH := $(BIN):$(PATH)
# Snakemake keeps a cache in XDG_CACHE_HOME, Triton in TRITON_HOME, both below HOME by default. Where HOME cannot be written
# (a container that runs as another user), Snakemake would end in a traceback and no kernel would compile.
ifneq ($(shell mkdir -p "$$HOME/.cache" 2>/dev/null && [ -w "$$HOME/.cache" ] && echo yes),yes)
  export XDG_CACHE_HOME ?= $(CURDIR)/.snakemake/caches
  export TRITON_HOME ?= $(CURDIR)/.snakemake/caches
endif
# Containers set it. Each of hundreds of short processes would then compile roofcal anew, 0.1 s and more.
unexport PYTHONDONTWRITEBYTECODE
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

.PHONY: help env env-dev study report verify site bench pages docs doctor campaign campaign-slurm test linted-unit test-all checks lint types contracts unit format lock clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@printf '\nVariables (see the top of the Makefile): STUDY STUDY_CONFIG SNAKEMAKE_ARGS PYTEST_ARGS TORCH PYTHON VENV\n'

env: ## make or update the virtual environment in .venv (the other targets do it themselves)
ifeq ($(VENV),none)
	@$(PY) tools/check_environment.py
else
	@PYTHON='$(PYTHON)' TORCH='$(TORCH)' tools/bootstrap.sh '$(VENV)'
endif

env-dev: env
ifeq ($(VENV),none)
	@$(PY) tools/check_environment.py --dev
endif

study: env ## measure this machine, calibrate, predict and write the report (STUDY=minute|quick|standard|full)
	$(PY) -m snakemake --cores all $(SNAKEMAKE_ARGS) $(if $(strip $(STUDY)$(STUDY_CONFIG)),--config $(if $(STUDY),study=$(STUDY)) $(STUDY_CONFIG))
	@[ ! -e $(REPORT) ] || echo "Report: $(CURDIR)/$(REPORT)"

report: env ## write the report again from what has been measured; measures nothing
	$(PY) -m snakemake --cores all $(SNAKEMAKE_ARGS) --allowed-rules report --force $(REPORT)
	@echo "Report: $(CURDIR)/$(REPORT)"

verify: env ## make everything published again from its records, pages too, and compare (a minute per publication)
	@$(PY) -m roofcal verify
	@$(PY) -m tools.check_pages

site: env ## write the pages over all publications to results/site, ready to host
	@$(PY) -m roofcal site

doctor: env ## say what was found on this machine and what a study here can and cannot do
	@$(PY) -m roofcal doctor

bench: env-dev ## time planning, the report and bulk prediction (not part of the tests)
	$(PY) -m pytest bench -m bench -s $(PYTEST_ARGS)

# After `publish --again`: what README.md, config/README.md and docs/ show of the publications and the code.
pages: env-dev ## write the numbers, examples, figures and screenshots of README.md and docs/ anew
	for tool in write_schemas write_house write_reference method_numbers term_gains write_kernel_tables write_examples run_notebooks \
	        write_pictures take_screenshots; do \
	    $(PY) -m tools.$$tool; \
	done

# Strict: a warning, such as a link within the site that leads nowhere, is an error.
docs: env ## build the documentation site, docs/_build/html/index.html
ifneq ($(VENV),none)
	@$(PY) tools/install.py --no-deps -r requirements/docs.txt
endif
	$(PY) -m sphinx --fail-on-warning --keep-going -q -c docs -d docs/_build/doctrees . docs/_build/html
	@echo "Site: $(CURDIR)/docs/_build/html/index.html"

campaign: campaign-slurm ## hostile inputs, disturbed runs and SLURM with faults (tests/campaign; not part of the tests)
	$(PY) -m pytest tests/campaign -m 'not slurm' -n 2 --dist worksteal $(PYTEST_ARGS)

campaign-slurm: env-dev ## the part of the campaign that needs SLURM; its studies wait most of the time, so eight run at once
	$(PY) -m pytest tests/campaign/test_slurm*.py -m slurm -n 8 $(PYTEST_ARGS)

# mypy takes one core for a minute where it has no cache: all others run beside it.
test: env-dev ## all checks: lint, types, import contracts, tests
	@$(MAKE) --no-print-directory -j 2 --output-sync=target types linted-unit

# The tests say at once how far they are.
linted-unit: lint contracts
	+@$(MAKE) --no-print-directory --output-sync=none unit

checks: env-dev
	@$(MAKE) --no-print-directory -j 2 --output-sync=target types lint contracts

lint: env-dev ## ruff, snakefmt and snakemake --lint
	$(PY) -m ruff check $(CODE)
	$(PY) -m ruff format --check $(CODE)
	$(PY) -m snakefmt --check $(SMK)
	$(PY) -m snakemake --lint

types: env-dev ## mypy --strict
	$(PY) -m mypy

contracts: env-dev ## who may import whom
	lint-imports --no-logo

# The tests run last: their summary is the last line.
unit: env-dev ## the tests alone (PYTEST_ARGS='-k plan')
	@# Of a fresh checkout: else each process would compile the tests and all code, 17 s of CPU.
	@[ -d tests/kernels/__pycache__ ] || $(PY) -m pytest --collect-only -qq >/dev/null
	$(PY) -m pytest -n $(TEST_PROCESSES) --dist worksteal $(PYTEST_ARGS)

test-all: checks ## all checks, and every point of the grids of which `make test` runs a part
	$(PY) -m pytest -n $(TEST_PROCESSES) --dist worksteal -m 'not bench and not campaign' $(PYTEST_ARGS)

format: env-dev ## format and mend what can be mended by itself
	$(PY) -m ruff check --fix $(CODE)
	$(PY) -m ruff format $(CODE)
	$(PY) -m snakefmt $(SMK)

lock: ## solve requirements/lock.txt again from pyproject.toml (for maintainers)
	tools/lock.sh

clean: ## remove caches; keeps .venv and everything that was measured
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find roofcal kernels tests tools workflow -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## clean, and remove .venv; results/ stays
	rm -rf .venv
