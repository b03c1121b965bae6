# Two commands matter: `make run` and `make test`. `make help` lists the rest.
PYTHON ?= python3
# Installs with this uv if it is there, and otherwise with pip. `UV=` means pip.
export UV ?= uv
PORT ?= 8000
DATA ?= .manilla
UP ?=
TESTS ?= tests
RUNS ?= 1
SEED ?=
MOVES ?=
NUMBER ?= 10
ROWS ?= 5000000
MINUTES ?= 2
ROUNDS ?=
STORE ?=
KEEP ?=

VENV := .venv
BIN := $(VENV)/bin
# Programs are run as modules: the first line of an installed script cannot name a path with spaces.
RUN := $(BIN)/python -m
INSTALL := $(PYTHON) tools/install.py

# Without stored bytecode, each of the many processes would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run setup test test-all test-stress changed faults simulate ha cells fuzz check format docs pictures bench bench-growth lock clean installed-run installed-dev plugin wheels mutations

help: ## what this file can do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

run: installed-run ## run Manilla on this machine (PORT=8000 DATA=.manilla)
	@exec $(RUN) manilla up --port "$(PORT)" --data "$(DATA)" --follow-parent $(UP)

setup: installed-dev ## install everything that developing needs

test: installed-dev ## the checks and the fast tests; minutes (TESTS=tests)
	@$(RUN) tests.support.browser
	@$(RUN) tools.suite $(TESTS)

test-all: installed-dev ## all tests: also random stories, crashes, upgrades, samples, start-ups
	@$(RUN) tests.support.browser
	@$(RUN) tools.suite --all $(TESTS)

test-stress: installed-dev ## the tests beside busy loops, with processes stopped at random (RUNS=1 SEED=)
	@$(RUN) tests.support.browser
	@$(RUN) tools.stress --runs $(RUNS) $(if $(SEED),--seed $(SEED)) -- $(TESTS)

changed: installed-dev ## run the tests of what changed since BASE (default: HEAD)
	@$(RUN) tools.changed $(BASE)

faults: installed-dev ## the faults alone, and 7,000 random stories of payouts (an hour)
	@MANILLA_MACHINE_RUNS=667 MANILLA_STORIES=5000 $(RUN) pytest tests/faults \
	  tests/payouts/test_model.py tests/payouts/routing/test_stories.py \
	  -n auto --dist loadscope -r s

simulate: installed-dev ## merchants, administrators and faults from one seed, against a model (SEED= MINUTES=2)
	@$(RUN) tests.simulation --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

ha: installed-dev $(VENV)-ha/.installed ## disrupt the cluster of deploy/ha under load, as root (ROUNDS=1)
	@$(RUN) tests.ha $(if $(ROUNDS),--rounds $(ROUNDS))

cells: installed-dev ## move a merchant between two cells under load, and kill the move (SEED= MOVES=10)
	@$(RUN) tests.cells.moving $(if $(SEED),--seed $(SEED)) $(if $(MOVES),--moves $(MOVES))

fuzz: installed-dev ## thousands of signed calls made up from the API's description (minutes)
	@MANILLA_FUZZ_CASES=$${MANILLA_FUZZ_CASES:-300} $(RUN) pytest tests/reference/test_schemathesis.py -s

mutations: installed-dev $(VENV)-mutations/.installed ## change the code at random, and count what no test finds (SEED=1 NUMBER=10)
	@$(VENV)-mutations/bin/python -m tools.mutations $(if $(SEED),--seed $(SEED)) --number $(NUMBER)

check: installed-dev ## format, lint, types, import contracts, structure, migrations, ASVS table, words, translations, generated files
	@$(RUN) ruff format --check .
	@$(RUN) ruff check .
	@$(RUN) mypy
	@$(BIN)/python $(BIN)/lint-imports
	@$(RUN) tools.structure
	@$(RUN) tools.migrations
	@$(RUN) tools.asvs
	@$(RUN) tools.language
	@$(RUN) tools.catalogues --check
	@$(RUN) tools.package_map --check
	@$(RUN) tools.typescript --check
	@$(RUN) tools.php_client --check
	@$(RUN) tools.woocommerce

format: installed-dev ## format, and fix what ruff can fix
	@$(RUN) ruff check --fix .
	@$(RUN) ruff format .

docs: installed-dev ## regenerate the documents' tables, the packages' picture, and the clients' types
	@$(RUN) tests.operating.tables
	@$(RUN) tools.package_map
	@$(RUN) tools.typescript
	@$(RUN) tools.php_client

pictures: installed-dev ## make the README's pictures again, from the running product
	@$(RUN) tests.support.browser
	@$(RUN) tools.pictures

bench: installed-dev $(VENV)-baseline/.installed ## measure, as ratios within one run
	@$(RUN) bench

bench-growth: installed-dev ## measure what a long history costs (ROWS=5000000 STORE= KEEP=)
	@MANILLA_BENCH_ROWS=$(ROWS) $(RUN) bench --growth $(if $(STORE),--store) $(if $(KEEP),--keep "$(KEEP)")

plugin: installed-run ## build the zip of the plugin for WooCommerce, into dist/
	@$(RUN) tools.woocommerce dist/manilla-for-woocommerce.zip

wheels: installed-run ## build what pip installs without a clone, into dist/
	@rm -rf dist
	@$(RUN) tools.wheels dist

lock: ## update the pinned requirements (needs uv)
	uv pip compile pyproject.toml --extra embedded --group build --group simulator --universal --generate-hashes \
	  --no-header --python-version 3.11 --output-file requirements.txt
	uv pip compile pyproject.toml --extra embedded --extra tracing --group build --universal --generate-hashes \
	  --no-header --python-version 3.11 --constraint requirements.txt --output-file requirements-tracing.txt
	uv pip compile pyproject.toml --extra embedded --extra tracing --group build --group simulator --group dev --universal --generate-hashes \
	  --no-header --python-version 3.11 --constraint requirements-tracing.txt --constraint requirements.txt --output-file requirements-dev.txt
	uv pip compile clients/python/pyproject.toml --extra mcp --universal --generate-hashes \
	  --no-header --python-version 3.11 --constraint requirements-dev.txt --output-file clients/python/requirements-mcp.txt
	uv pip compile bench/baseline/requirements.in --universal --generate-hashes \
	  --no-header --python-version 3.11 --output-file bench/baseline/requirements.txt
	uv pip compile deploy/ha/requirements.in --universal --generate-hashes \
	  --no-header --python-version 3.11 --output-file deploy/ha/requirements.txt
	uv pip compile tools/mutations/requirements.in --universal --generate-hashes \
	  --no-header --python-version 3.11 --output-file tools/mutations/requirements.txt
	uv pip compile tests/simulator/libraries/requirements.in --universal --generate-hashes \
	  --no-header --python-version 3.11 --constraint requirements-dev.txt --output-file tests/simulator/libraries/requirements.txt
	uv pip compile tests/simulator/libraries/source.in --no-deps --universal --generate-hashes \
	  --no-header --python-version 3.11 --output-file tests/simulator/libraries/source.txt

clean: ## remove what was installed; the data folder stays
	rm -rf clients/typescript/node_modules clients/typescript/dist
	rm -rf $(VENV) $(VENV)-baseline $(VENV)-ha $(VENV)-mutations .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Two commands at the same time in one folder install one after the other.
installed-run:
	@flock Makefile $(MAKE) --no-print-directory $(VENV)/.run

installed-dev:
	@flock Makefile $(MAKE) --no-print-directory $(VENV)/.dev

$(VENV)/.run: requirements.txt pyproject.toml clients/python/pyproject.toml simulator/pyproject.toml
	@$(INSTALL) $(VENV) requirements.txt . clients/python simulator
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.run
	@$(INSTALL) $(VENV) requirements-dev.txt
	@touch $@

$(VENV)-baseline/.installed: bench/baseline/requirements.txt
	@$(INSTALL) $(VENV)-baseline bench/baseline/requirements.txt
	@touch $@

$(VENV)-ha/.installed: deploy/ha/requirements.txt
	@$(INSTALL) $(VENV)-ha deploy/ha/requirements.txt
	@touch $@

$(VENV)-mutations/.installed: tools/mutations/requirements.txt
	@$(INSTALL) $(VENV)-mutations tools/mutations/requirements.txt
	@touch $@
