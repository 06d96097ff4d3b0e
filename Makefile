# All commands for contributors. Needs git, make and Python 3.11+; everything else is installed into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= 4  # more than the cores: many tests wait for processes and servers
# On Linux the tests are collected once and the workers forked (tests/forked.py); elsewhere each worker collects them.
SPREAD := $(if $(filter Linux,$(shell uname -s)),--forks,--dist worksteal -n)
HANGS  := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true  # a test that hangs prints its stack and fails

# The models of the real-model tests and the demo; a download survives 'make clean'.
export WESICHAIN_MODELS ?= $(CURDIR)/.cache/models
# Without the bytecode cache, every worker and every process of the tests compiles the code again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test test-quick test-systems test-model test-slow check format format-check lint types bench bench-gate bench-peers docs lock release test-all clean

help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# $(call fill,ENVIRONMENT,LOCK,OPTIONS): install a lock file with the locked uv, in a fraction of pip's time; with pip if that fails.
# Compile the bytecode at once, as pip does: otherwise the first tests do it.
define fill
mkdir -p build && sed -n '/^uv==/,/[^\\]$$/p' requirements/dev.lock > build/uv.lock && \
$(1)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r build/uv.lock && \
$(1)/bin/uv pip install $(3) --compile-bytecode --python $(1)/bin/python --require-hashes -r $(2) || { \
echo "==> uv failed; installing with pip, which takes some minutes"; \
$(1)/bin/python -m pip install --disable-pip-version-check --require-hashes -r $(2) || { \
echo "==> the packages of $(2) could not be installed: is the package index reachable?"; exit 1; }; }
endef

$(STAMP): requirements/dev.lock pyproject.toml
	@echo "==> creating $(VENV) and installing the locked dependencies (a few minutes the first time)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(call fill,$(VENV),requirements/dev.lock)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

install: $(STAMP) ## create the virtual environment with all dependencies

# The demo needs fewer packages than the tests: it has its own environment.
DEMO       := .venv-demo
DEMO_STAMP := $(DEMO)/.installed
$(DEMO_STAMP): requirements/demo.lock
	@echo "==> creating $(DEMO) and installing the dependencies of the demo"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@test -x $(DEMO)/bin/python || $(PYTHON) -m venv $(DEMO)
	@$(call fill,$(DEMO),requirements/demo.lock)
	@$(DEMO)/bin/python -c 'import xllamacpp, faiss, typer, starlette'
	@touch $(DEMO_STAMP)

demo: $(DEMO_STAMP) ## answer a question with real tools and a local model, then a task before and after a correction; fails if it is wrong
	@echo "==> a local model (the first time downloads it: 491 MB, Apache-2.0), a question, and a task before and after a correction"
	@PYTHONPATH=src $(DEMO)/bin/python -m wesichain demo
	@echo "==> run 'PYTHONPATH=src $(DEMO)/bin/python -m wesichain serve' to see these runs in a browser"

test: $(STAMP)   ## run the test suite; the first time, install the dependencies into .venv
	@echo "==> tests: some 5 minutes of CPU time"
	@$(BIN)/python -m pytest $(SPREAD) $(JOBS) -m "not slow and not model and not types" $(HANGS)

test-quick: $(STAMP) ## run the first case of each test, mostly without processes, servers and databases
	@WESICHAIN_QUICK=1 $(BIN)/python -m pytest -q $(SPREAD) 2 -m "not slow and not model" $(HANGS)

test-systems: $(STAMP) ## run the programs that have to do the same on every system: under shims on Linux
	@$(BIN)/python -m pytest -q tests/platform $(HANGS)

test-model: $(STAMP) ## run the tests with a real model: smollm2-135m, downloaded the first time (98 MB)
	@echo "==> a real model: half a minute of CPU time"
	@$(BIN)/python -m pytest -q -m "model and not slow" tests/llm/local $(HANGS)

test-slow: $(STAMP) ## run the slow tests: real models, soaks, kill matrices, property tests with ten times the examples
	@WESICHAIN_THOROUGH=1 $(BIN)/python -m pytest -m "slow or hypothesis or sampled"

check: format-check lint types test test-model ## run all checks that must pass before a change is merged

format: $(STAMP) ## format the code
	@$(BIN)/ruff check --fix-only --quiet . && $(BIN)/ruff format .

format-check: $(STAMP)
	@echo "==> format"
	@$(BIN)/ruff format --check --quiet .

lint: $(STAMP)
	@echo "==> lint"
	@$(BIN)/ruff check --quiet .

types: $(STAMP)
	@echo "==> types: mypy, basedpyright, the completeness of the public API, the code blocks of the docs, and code that must fail"
	@mkdir -p build; $(BIN)/mypy > build/mypy.txt 2>&1 & mypy=$$!; \
	$(BIN)/basedpyright; pyright=$$?; \
	$(BIN)/python tests/typing/verify_types.py; api=$$?; \
	$(BIN)/python -m tests.docs.typed; docs=$$?; \
	wait $$mypy; mypy=$$?; cat build/mypy.txt; \
	$(BIN)/python -m pytest -q -m types tests/typing; marked=$$?; \
	test "$$mypy $$pyright $$api $$docs $$marked" = "0 0 0 0 0"

bench: $(STAMP)  ## measure against a minimal hand-written loop; fails if a figure exceeds its limit
	@echo "==> performance against a minimal hand-written loop"
	@$(BIN)/python -m bench.speed --strict

bench-gate: $(STAMP) ## compare the performance with the base revision; fails if it is slower, larger or broken
	@echo "==> performance against the base revision"
	@$(BIN)/python -m bench.gate

bench-peers: $(STAMP) ## measure other frameworks in the same scenarios, each in its own environment
	@$(BIN)/python -m bench.peers

.venv-docs/.installed: requirements/docs.lock
	@echo "==> creating .venv-docs and installing the dependencies of the site"
	@test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	@$(call fill,.venv-docs,requirements/docs.lock,--quiet)
	@touch .venv-docs/.installed

docs: .venv-docs/.installed ## build the documentation site in build/site; a warning is an error
	@echo "==> building the site"
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --strict --quiet
	@echo "==> open build/site/index.html"

lock: $(STAMP)   ## resolve the dependencies into requirements/*.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url \
	    --all-extras --group dev pyproject.toml -o requirements/dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url \
	    --extra cli --extra local --extra learning --extra web -c requirements/dev.lock pyproject.toml -o requirements/demo.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url \
	    --group docs pyproject.toml -o requirements/docs.lock

release: $(STAMP) ## dry run of a release: build, check, install each extra in a clean environment
	@$(BIN)/python .ci/release

# Run the test suite with each Python on the path or of pyenv, in its own environment.
PYENV ?= $(or $(PYENV_ROOT),$(HOME)/.pyenv)
test-all:        ## run the test suite on Python 3.11, 3.12 and 3.13, as far as installed
	@for version in 3.11 3.12 3.13; do \
	    for python in python$$version $(PYENV)/versions/$$version.*/bin/python none; do \
	        $$python -c '' >/dev/null 2>&1 && break; \
	    done; \
	    test $$python != none || { echo "==> Python $$version is not installed: skipped"; continue; }; \
	    echo "==> Python $$version: $$python"; \
	    $(MAKE) --no-print-directory test PYTHON=$$python VENV=.venv-$$version || exit 1; \
	done

clean:           ## remove environments, caches and builds
	rm -rf $(VENV) $(DEMO) .venv-docs .venv-3.* .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
