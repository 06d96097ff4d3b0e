# Everything a contributor runs. Needs git, make and Python 3.11+; the rest is installed into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= 4  # more than the cores: a part of the tests waits for processes and servers
# Where processes can be forked safely the tests are collected once (tests/forked.py), elsewhere in every process.
SPREAD := $(if $(filter Linux,$(shell uname -s)),--forks,--dist worksteal -n)
HANGS  := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true  # a test that hangs shows where, and fails

# The models of the real-model tests and the demo; a download survives 'make clean'.
export WESICHAIN_MODELS ?= $(CURDIR)/.cache/models
# Without what Python compiled the last time, every worker and every process of the tests compiles it again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test test-quick test-model test-slow check format format-check lint types bench bench-gate bench-peers docs lock release test-all clean

help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# $(call fill,ENVIRONMENT,LOCK,OPTIONS): by uv, itself as it is locked, in a fraction of pip's time; by pip where uv finds no way.
# Compiled at once, as pip does: otherwise the first tests do it, one file after the other.
define fill
mkdir -p build && sed -n '/^uv==/,/[^\\]$$/p' requirements/dev.lock > build/uv.lock && \
$(1)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r build/uv.lock && \
$(1)/bin/uv pip install $(3) --compile-bytecode --python $(1)/bin/python --require-hashes -r $(2) || { \
echo "==> uv could not; with pip, which takes some minutes"; \
$(1)/bin/python -m pip install --disable-pip-version-check --require-hashes -r $(2) || { \
echo "==> the packages of $(2) could not be installed: no network, or none that reaches the package index"; exit 1; }; }
endef

$(STAMP): requirements/dev.lock pyproject.toml
	@echo "==> creating $(VENV) and installing the locked dependencies (a few minutes the first time)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(call fill,$(VENV),requirements/dev.lock)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

install: $(STAMP) ## the virtual environment with everything in it

# The demo needs a part of what the tests need: an environment of its own.
DEMO       := .venv-demo
DEMO_STAMP := $(DEMO)/.installed
$(DEMO_STAMP): requirements/demo.lock
	@echo "==> creating $(DEMO) for the demo alone: a part of what the tests need"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@test -x $(DEMO)/bin/python || $(PYTHON) -m venv $(DEMO)
	@$(call fill,$(DEMO),requirements/demo.lock)
	@$(DEMO)/bin/python -c 'import xllamacpp, faiss, typer, starlette'
	@touch $(DEMO_STAMP)

demo: $(DEMO_STAMP) ## the main job: a question, real tools, a correction, a local model, no key; fails where it is wrong
	@echo "==> a local model (the first time downloads it: 491 MB, Apache-2.0), a question, and a task before and after a correction"
	@PYTHONPATH=src $(DEMO)/bin/python -m wesichain demo
	@echo "==> 'wesichain' is here: PYTHONPATH=src $(DEMO)/bin/python -m wesichain; with 'serve' it shows these runs in a browser"

test: $(STAMP)   ## the test suite; the first time it installs what it needs into .venv
	@echo "==> tests: some 5 minutes of CPU time"
	@$(BIN)/python -m pytest $(SPREAD) $(JOBS) -m "not slow and not model and not types" $(HANGS)

test-quick: $(STAMP) ## what needs no process, server or database, and some files that do: each test with its first case
	@WESICHAIN_QUICK=1 $(BIN)/python -m pytest -q $(SPREAD) 2 -m "not slow and not model" $(HANGS)

test-model: $(STAMP) ## what a real model answers: smollm2-135m, fetched the first time (98 MB)
	@echo "==> a real model: half a minute of CPU time"
	@$(BIN)/python -m pytest -q -m "model and not slow" tests/llm/local $(HANGS)

test-slow: $(STAMP) ## real models, soaks, full kill matrices; laws with ten times the examples, and all cases of samples
	@WESICHAIN_THOROUGH=1 $(BIN)/python -m pytest -m "slow or hypothesis or sampled"

check: format-check lint types test test-model ## all that must be green before a change lands

format: $(STAMP) ## write the code in the project's format
	@$(BIN)/ruff check --fix-only --quiet . && $(BIN)/ruff format .

format-check: $(STAMP)
	@echo "==> format"
	@$(BIN)/ruff format --check --quiet .

lint: $(STAMP)
	@echo "==> lint"
	@$(BIN)/ruff check --quiet .

types: $(STAMP)
	@echo "==> types: mypy, with pyright beside it; the public API is typed throughout, the blocks of the docs are right, and what must fail does"
	@mkdir -p build; $(BIN)/mypy > build/mypy.txt 2>&1 & mypy=$$!; \
	$(BIN)/basedpyright; pyright=$$?; \
	$(BIN)/python tests/typing/verify_types.py; api=$$?; \
	$(BIN)/python -m tests.docs.typed; docs=$$?; \
	wait $$mypy; mypy=$$?; cat build/mypy.txt; \
	$(BIN)/python -m pytest -q -m types tests/typing; marked=$$?; \
	test "$$mypy $$pyright $$api $$docs $$marked" = "0 0 0 0 0"

bench: $(STAMP)  ## the figures of this machine, against a minimal hand-written loop; fails where one is over its limit
	@echo "==> figures and their limits, against a minimal hand-written loop"
	@$(BIN)/python -m bench.speed --strict

bench-gate: $(STAMP) ## this tree against the last one: slower, larger or broken is blocked
	@echo "==> performance against the base revision"
	@$(BIN)/python -m bench.gate

bench-peers: $(STAMP) ## the same scenarios with other frameworks, each in an environment of its own
	@$(BIN)/python -m bench.peers

.venv-docs/.installed: requirements/docs.lock
	@echo "==> creating .venv-docs and installing what builds the site"
	@test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	@$(call fill,.venv-docs,requirements/docs.lock,--quiet)
	@touch .venv-docs/.installed

docs: .venv-docs/.installed ## the documentation as a site, in build/site; a warning is an error
	@echo "==> building the site"
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --strict --quiet
	@echo "==> open build/site/index.html"

lock: $(STAMP)   ## resolve the dependencies anew into requirements/*.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url \
	    --all-extras --group dev pyproject.toml -o requirements/dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url \
	    --extra cli --extra local --extra learning --extra web -c requirements/dev.lock pyproject.toml -o requirements/demo.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url \
	    --group docs pyproject.toml -o requirements/docs.lock

release: $(STAMP) ## a dry run: build, check, install each extra alone in a clean environment
	@$(BIN)/python .ci/release

# The suite with every Python that is here, on the path or kept by pyenv, each in an environment of its own.
PYENV ?= $(or $(PYENV_ROOT),$(HOME)/.pyenv)
test-all:        ## the test suite on Python 3.11, 3.12 and 3.13, where they are installed
	@for version in 3.11 3.12 3.13; do \
	    for python in python$$version $(PYENV)/versions/$$version.*/bin/python none; do \
	        $$python -c '' >/dev/null 2>&1 && break; \
	    done; \
	    test $$python != none || { echo "==> Python $$version is not here: skipped"; continue; }; \
	    echo "==> Python $$version: $$python"; \
	    $(MAKE) --no-print-directory test PYTHON=$$python VENV=.venv-$$version || exit 1; \
	done

clean:           ## remove what the build made
	rm -rf $(VENV) $(DEMO) .venv-docs .venv-3.* .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
