# Every command that people, CI and the documentation use. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
CLASSES := $(VENV)/kafkaspark-classes/classpath
PY := $(VENV)/bin/python
export PYTHONPATH := tools:$(PYTHONPATH)
UV_VERSION := 0.13.8

.DEFAULT_GOAL := help
.PHONY: help fresh ready setup reference lint types contracts unit test integration e2e demo bench lock clean

help: ## list the commands
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

include tools/cluster.mk

# What is locked by hash need not be fresh: first from the cache, without asking the index. One at a time, with those who
# install the images' packages, so that pyspark is built once; and without compressing it to unpack it at once.
UV := VIRTUAL_ENV=$(VENV) $(VENV)/bin/uv pip install --quiet --require-hashes \
	--config-setting=--build-option=--compression=stored -r locks/dev.txt

NATIVE := $(wildcard sparkapp/native/*.c sparkapp/native/ext/*.c sparkapp/native/ext/*.h)

$(VENV)/.ready: locks/dev.txt pyproject.toml setup.py $(NATIVE)
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip >/dev/null
	@$(PY) -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@echo "installing the locked Python packages (pyspark is 430 MB: some minutes on a first run)"
	@flock .python.lock sh -c "$(UV) --offline 2>/dev/null || $(UV)"
	@VIRTUAL_ENV=$(VENV) $(VENV)/bin/uv pip install --quiet --no-deps --reinstall-package kafkaspark -e .
	@touch $@

# On a fresh machine both take minutes, and each waits much of that time.
fresh:
	@$(MAKE) --no-print-directory -j2 setup cluster-prepare

setup: $(VENV)/.ready ## install the locked Python environment and build the C extension

lock: ## write the lock files anew from pyproject.toml
	uv lock
	uv export --frozen --no-emit-project --no-annotate --all-extras --group dev -q -o locks/dev.txt
	uv export --frozen --no-emit-project --no-annotate --no-default-groups --extra sparkapp -q -o locks/sparkapp.txt
	uv export --frozen --no-emit-project --no-annotate --no-default-groups --extra operator -q -o locks/operator.txt

reference: setup ## write docs/fields.md from the CustomResourceDefinition
	@$(PY) -m field_reference

lint: setup ## ruff, mypy, import contracts
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

unit: setup ## tests that need neither broker nor cluster
	$(PY) -m pytest tests/unit tests/property -q

integration: setup ## tests against a real broker and a real Spark on this machine
	$(PY) -m pytest tests/conformance tests/integration -q -m "not e2e"

e2e: fresh cluster-up images ## tests on the real cluster: crashes, rescales, every record counted
	$(PY) -m pytest tests/e2e -q -m e2e --timeout=900

# Lint and types have what the cluster leaves of the machine on its way up.
test: fresh ## everything: lint, types, contracts and all tests
	@$(MAKE) --no-print-directory -j3 lint ready $(CLASSES)
	$(PY) -m tests.streams

# The JVMs of tests start as those of the image do: with their classes parsed already.
$(CLASSES): $(VENV)/.ready images/sparkapp/class_archive.py
	@$(PY) images/sparkapp/class_archive.py $(@D)

ready:
	@$(MAKE) --no-print-directory cluster-up
	@$(MAKE) --no-print-directory images

demo: fresh ## the main job: a real job survives kills and rescales, every record counted once (KEEP=1 leaves it running)
	@$(PY) -m demo $(if $(KEEP),--keep) $(ARGS)

bench: setup ## throughput of the three semantics beside Spark's own Kafka connector
	$(PY) -m bench.throughput $(ARGS)

clean: ## remove what was built in this folder (not the cluster: make cluster-down PURGE=1)
	rm -rf $(VENV) build dist *.egg-info artifacts .mypy_cache .ruff_cache .pytest_cache .hypothesis
