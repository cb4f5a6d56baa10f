# Every command that people, CI and the documentation use. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
CLASSES := $(VENV)/kafkaspark-classes/classpath
PY := $(VENV)/bin/python
export PYTHONPATH := dev:$(PYTHONPATH)
# Compiled modules are kept, outside the sources. Otherwise each of the tests' processes compiles the project again.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache

.DEFAULT_GOAL := help
.PHONY: help fresh ready setup generate docs lint types contracts unit test test-all integration e2e \
	demo bench bench-peers lock lock-debian class-list release release-images images-twice images-test clean

help: ## list the commands
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

include dev/cluster.mk

# Packages are locked by hash: the cache is tried first, without a query to the index. The lock serializes it with the
# images' packages, so that pyspark is built once. Its wheel is not compressed, because it is unpacked at once.
# Without --no-config, uv applies the overrides in pyproject.toml to the locks, and looks for newer packages.
UV := VIRTUAL_ENV=$(VENV) $(VENV)/bin/uv pip install --no-config --quiet --require-hashes \
	--build-constraints locks/build.txt --config-setting=--build-option=--compression=stored -r locks/dev.txt

NATIVE := $(wildcard sparkapp/dataplane/native/*.c sparkapp/dataplane/native/ext/*/*.[ch])

$(VENV)/.ready: locks/dev.txt locks/build.txt pyproject.toml setup.py $(NATIVE)
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip >/dev/null
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/build.txt
	@echo "installing the locked Python packages (pyspark is 430 MB: some minutes on a first run)"
	@flock .python.lock sh -c "$(UV) --offline 2>/dev/null || $(UV)"
	@VIRTUAL_ENV=$(VENV) $(VENV)/bin/uv pip install --quiet --no-deps --reinstall-package kafkaspark \
		--build-constraints locks/build.txt -e .
	@touch $@

# On a fresh machine both take minutes, mostly of waiting.
fresh:
	@$(MAKE) --no-print-directory -j2 setup cluster-prepare

setup: $(VENV)/.ready ## install the locked Python environment and build the C extension

lock: setup ## write the lock files from pyproject.toml
	$(VENV)/bin/uv lock
	$(VENV)/bin/uv export --frozen --no-emit-project --no-annotate --all-extras --group dev -q -o locks/dev.txt
	$(VENV)/bin/uv export --frozen --no-emit-project --no-annotate --no-default-groups --extra sparkapp -q -o locks/sparkapp.txt
	$(VENV)/bin/uv export --frozen --no-emit-project --no-annotate --no-default-groups --extra operator -q -o locks/operator.txt
	$(VENV)/bin/uv export --frozen --no-emit-project --no-annotate --only-group bench -q -o locks/bench.txt
	$(VENV)/bin/uv export --frozen --no-emit-project --no-annotate --only-group build -q -o locks/build.txt

lock-debian: setup ## write locks/debian and the date of the images' files from Debian's archive
	@$(PY) -m imagerelease lock-debian

class-list: setup ## write sparkapp/spark/launch/archive/*.list, after a change of Spark or Java
	@$(PY) -m imagerelease class-list

release-images: setup ## build the images of a release with their bills of materials into artifacts/images
	@$(PY) -m imagerelease build $(ARGS)

release: setup ## make every file of a release with checksums in artifacts/release (ARGS=--without-images for a quick try)
	@$(PY) -m releasefiles $(ARGS)

images-twice: setup ## build the images twice from nothing; fails where a bit differs
	@$(PY) -m imagerelease twice $(ARGS)

images-test: setup ## build the operator's image and a class archive twice: equal bits, and the bill of materials
	$(PY) -m pytest tests/integration/images -q

generate: setup ## write what is generated: crds/, docs/fields.md, tables of docs/reasons.md, dashboards, pictures
	@$(PY) -m resourceschema
	@$(PY) -m reason_reference
	@$(PY) -m dashboards
	@$(PY) -m pictures

docs: setup ## render the documentation into artifacts/site; fails on a broken link
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict --site-dir artifacts/site

lint: setup ## run ruff, mypy and the import contracts
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/lint-imports --config dev/importlinter.toml

unit: setup ## run the tests that need neither broker nor cluster
	$(PY) -m pytest tests/unit tests/property -q

integration: setup ## run the tests against a real broker and a real Spark on this machine
	$(PY) -m pytest tests/conformance tests/integration -q -m "not e2e" --ignore=tests/integration/images

e2e: fresh cluster-up images ## run the tests on the local cluster: crashes, rescales, every record counted
	$(PY) -m pytest tests/e2e -q -m e2e

# Lint runs while the cluster starts.
test: fresh ## run lint and the tests of every commit, with the local cluster
	@$(MAKE) --no-print-directory -j3 lint ready $(CLASSES)
	$(PY) -m tests.streams $(ARGS)

test-all: ## run lint and every test: each cell, story and file on the cluster, and the images twice
	@$(MAKE) --no-print-directory test ARGS=--all
	@$(MAKE) --no-print-directory images-twice

# The JVMs of tests start with a class archive, like those of the image.
$(CLASSES): $(VENV)/.ready sparkapp/spark/launch/archive/class_archive.py sparkapp/spark/launch/archive/classes.list
	@$(PY) sparkapp/spark/launch/archive/class_archive.py $(@D)

ready:
	@$(MAKE) --no-print-directory cluster-up
	@$(MAKE) --no-print-directory images

demo: fresh ## run the demo: a job is killed and rescaled, every record is counted (KEEP=1 keeps the job, ENGINE=continuous)
	@$(PY) -m demo $(if $(KEEP),--keep) $(if $(ENGINE),--engine $(ENGINE)) $(ARGS)

bench: setup ## measure the throughput of each delivery guarantee and of Spark's own Kafka connector
	$(PY) -m bench.throughput $(ARGS)

$(VENV)/.bench-ready: locks/bench.txt $(VENV)/.ready
	@VIRTUAL_ENV=$(VENV) $(VENV)/bin/uv pip install --no-config --quiet --require-hashes -r locks/bench.txt
	@touch $@

bench-peers: $(VENV)/.bench-ready ## compare the engine with Flink, Spark's connector and a loop in C (more than an hour)
	$(PY) -m bench.peers $(ARGS)

clean: ## delete the build results of this folder (for the cluster: make cluster-down PURGE=1)
	rm -rf $(VENV) build dist *.egg-info artifacts .mypy_cache .ruff_cache .pytest_cache .hypothesis
