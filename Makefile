# make demo needs Python 3.11 or newer. CONTRIBUTING.md lists what else make test needs.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
CORE := spec predicate table curve planner report
PIP := $(BIN)/python -I -m pip --disable-pip-version-check --quiet install --require-hashes
RELIABILITY := tests/model tests/hostile tests/spark/faults tests/spark/kills
# Without bytecode each process of the tests compiles every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo check reliability engines apart servers servers-long test test-long bench matrix mutation schemas jars lock clean

setup: $(INSTALLED)

$(INSTALLED): requirements.lock locks/plan.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("zlayout needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(PIP) --only-binary :all: -r locks/plan.txt  # with the setuptools that builds pyspark, which has no wheel
	$(PIP) --no-build-isolation -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup  ## two TPC-H tables, planned, applied and queried
	$(BIN)/python examples/demo.py

check: setup  ## a minute: style, types, unit tests without a JVM and without services
	rm -f build/reliability.json
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 tests/unit

.PHONY: coverage
coverage: setup  ## minutes: lines of the core that unit tests run, at least 95 % of each package
	$(PIP) --only-binary :all: -r locks/tools.txt
	COVERAGE_FILE=build/coverage $(BIN)/pytest -n 2 --cov=zlayout --cov-report= tests/unit
	@for package in $(CORE); do COVERAGE_FILE=build/coverage $(BIN)/coverage report --skip-covered \
		--include="zlayout/$$package/*" --fail-under=95 || exit 1; done

reliability: setup  ## at most 25 minutes: faults, other writers, kills and hostile input (docs/promises.md)
	$(BIN)/pytest -n 2 --dist worksteal $(RELIABILITY)

test: check reliability  ## everything, with Chromium, an editor's language server, Spark, Delta and Iceberg
	$(MAKE) --no-print-directory --jobs=2 engines apart

engines: setup  # each process has a Spark session; one alone leaves a core idle
	$(BIN)/pytest -n 2 --dist worksteal tests/spark $(RELIABILITY:%=--ignore=%)

apart: setup  # without a JVM, beside the engines
	$(BIN)/pytest tests/browser tests/editor tests/sequences tests/services tests/packaging

servers: setup  ## what the servers of the tests need: the jars of Iceberg's REST catalog
	PYTHONPATH=tests $(BIN)/python -m support.rest

servers-long: servers  ## minutes: what test-long needs besides: Nessie, and an emulator of GCS, which needs Go
	$(PIP) --only-binary :all: -r locks/tools.txt
	PYTHONPATH=tests $(BIN)/python -m support.nessie
	PYTHONPATH=tests $(BIN)/python -m support.dynamodb
	@command -v mariadbd >/dev/null || echo 'for the tests with MySQL: install the Debian package mariadb-server'
	GOBIN="$(CURDIR)/$(BIN)" go install github.com/fsouza/fake-gcs-server@v1.56.1

test-long: setup  ## an hour: the cases that make test leaves out
	$(BIN)/pytest -m long tests

bench: setup  ## hours: writes benchmarks/RESULTS.md
	$(BIN)/python benchmarks/rewrite.py

matrix: setup  ## hours: both engines on each supported Spark, Delta and Iceberg; writes docs/support.md
	PYTHONPATH=tests $(BIN)/python -m support.matrix $(ONLY)

mutation: setup  ## an hour: a tenth of the mutants of the core against its unit tests (docs/contributing/mutation.md)
	$(PIP) --only-binary :all: -r locks/tools.txt
	$(BIN)/python benchmarks/mutation.py

schemas: setup  ## from the code: the schema of the plan document; the allowed settings in the project schema and the docs
	$(BIN)/python -c 'import json; from zlayout.planner.document import schema; print(json.dumps(schema(), indent=2))' \
		> schemas/v3/plan.schema.json
	PYTHONPATH=tests $(BIN)/python -m support.settings_page

jars: setup  ## minutes: the jars of each package of versions.py with their sums, as Ivy resolves them from Maven Central
	PYTHONPATH=tests $(BIN)/python -m support.jars

COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
	--python-version 3.11
# What the action installs for all commands but apply. setuptools builds pyspark, which has no wheel.
PLAN := --extra glue --extra hive --extra metrics --extra mysql --extra postgres --extra report --extra sql --group setuptools

lock: setup  ## new versions into requirements.lock and locks/
	$(COMPILE) --extra local --extra metrics --group dev --upgrade pyproject.toml \
		-o requirements.lock
	$(COMPILE) --constraints requirements.lock $(PLAN) --upgrade pyproject.toml -o locks/plan.txt
	echo pyspark | $(COMPILE) --constraints requirements.lock --upgrade - -o locks/spark.txt
	$(COMPILE) --constraints requirements.lock --group release --upgrade -o locks/release.txt
	$(COMPILE) --constraints requirements.lock --group tools --upgrade -o locks/tools.txt

.PHONY: docs dist
docs: setup  ## the documentation site in build/docs/site, built strictly, with its links checked
	$(BIN)/python docs/build_site.py

dist: setup  ## wheel and sdist in dist/
	rm -rf dist
	$(BIN)/hatchling build

clean:
	rm -rf .venv .demo build dist
