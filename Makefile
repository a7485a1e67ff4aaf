# Everything a person or a machine does with this repository. `make help` lists it.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
WARM := .venv/.warm
JARS := .venv/.jars
NEWEST := .venv-newest
# A file of tests is one worker's: what it shares, a project or a session, is made once.
WORKERS ?= 3
# Small files that are synced one by one: a disk would take a fifth of the time.
IN_MEMORY := $(if $(wildcard /dev/shm/.),TMPDIR=/dev/shm)
SHARED := --dist loadfile --no-loadscope-reorder
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) $(SHARED)
QUICK := -n 2 -m "not spark and not e2e and not chaos and not thorough" --hypothesis-profile quick
# A test run starts Python some hundred times: where it is told to, it compiles everything each time.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test quick quick-newest chaos bench bench-kafka lint docs clean parts

help: ## this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: parts $(WARM) ## see a streaming application at work (Ctrl-C ends it, and counts)
	@scripts/demo

test: parts $(INSTALLED) ## every check and test except the long chaos runs
	@$(MAKE) --no-print-directory -j 2 lint $(WARM) $(JARS)
	$(PYTEST) -m "not chaos" || $(BIN)/python scripts/once-more $$? -m "not chaos"

quick: $(INSTALLED) ## the tests without a JVM or child processes, half a minute
	$(IN_MEMORY) $(PYTEST) $(QUICK)

quick-newest: $(NEWEST)/.installed ## the same on the newest PySpark that pip installs, in its own .venv-newest
	$(IN_MEMORY) $(NEWEST)/bin/python -m pytest $(SHARED) $(QUICK)

chaos: parts $(WARM) $(JARS) ## the long version of the kill tests
	$(BIN)/python -m pytest -m chaos

bench: parts $(WARM) ## measure against plain PySpark (wants an otherwise idle machine)
	$(BIN)/python -m bench

bench-kafka: parts $(WARM) $(JARS) ## the same on a real Kafka broker, three rounds each
	$(BIN)/python -m bench kafka-app kafka-history kafka-latency notices

lint: $(INSTALLED) ## ruff (rules and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(INSTALLED) ## check that the docs say what the code does, and run their examples
	$(BIN)/python -m pytest tests/test_docs.py

clean: ## remove .venv, caches and the demo's project
	rm -rf .venv $(NEWEST) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist headrace-demo

parts: # Java, venv: installed where we may, else named
	@PYTHON=$(PYTHON) scripts/system-parts

# Made once, and again when what it was made from changes. Modules are compiled when they are first
# imported: pip would take half a minute to compile all of them.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade "pip>=25.1" --constraint constraints.txt
	$(BIN)/pip install --quiet --no-compile --editable . --group dev --constraint constraints.txt
	@touch $@

# As `pip install headrace` gives it; everything but PySpark as in .venv.
$(NEWEST)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(NEWEST)
	grep -v '^pyspark==' constraints.txt > $(NEWEST)/constraints.txt
	$(NEWEST)/bin/pip install --quiet --upgrade "pip>=25.1" --constraint constraints.txt
	$(NEWEST)/bin/pip install --quiet --editable . --group dev --constraint $(NEWEST)/constraints.txt
	@touch $@

# What Kafka needs of Java: the connector, and a real broker for tests.
$(JARS): $(INSTALLED)
	$(BIN)/headrace jars fetch kafka
	$(BIN)/headrace jars fetch broker
	@touch $@

# Spark's classes kept ready for this installation: a JVM then starts in half the time.
$(WARM): $(INSTALLED)
	$(BIN)/headrace warm
	@touch $@
