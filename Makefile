# Every target keeps its environment in .venv; nothing else is written outside the tree but uv's cache.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/python -m atp.engine.installer
export ATP_HOME := $(abspath $(VENV))/atp-home
export HYPOTHESIS_STORAGE_DIRECTORY := $(VENV)/hypothesis

SUPPORTED := 3.11 3.12 3.13

.PHONY: demo test check integration nightly lock

demo: $(VENV)/.ready
	PATH="$(abspath $(BIN)):$$PATH" bash scripts/demo.sh

test: $(VENV)/.ready
	$(BIN)/pytest -n 2 -m "not integration and not nightly"

check: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What needs more than Python. A skipped test counts as a failure here: what it needs was to be installed.
integration: $(VENV)/.ready
	ATP_REQUIRE=1 bash scripts/integration.sh $(BIN)/pytest

# Everything at full size, on every supported Python (python3.11, python3.12 and python3.13 on PATH), and the
# measurements.
nightly: $(VENV)/.ready
	$(foreach version,$(SUPPORTED),ATP_SAMPLE=all $(MAKE) VENV=$(VENV)/python$(version) PYTHON=python$(version) test &&) true
	ATP_SAMPLE=all $(BIN)/pytest -m nightly
	for script in perf/*.py; do $(BIN)/python $$script || exit 1; done

# Newer pins for everything; refuses pre-releases and versions older than the present ones.
lock: $(VENV)/.ready
	$(BIN)/python scripts/lock.py

# pip fetches uv by digest, and uv the rest: seconds, where pip takes minutes.
$(VENV)/.ready: requirements/uv.txt requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; (3, 11) <= sys.version_info < (3, 14) or sys.exit(f"Python 3.11 to 3.13 is needed, $(PYTHON) is {sys.version.split()[0]}; say make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import uv' 2>/dev/null || $(BIN)/python -m pip install --quiet --require-hashes -r requirements/uv.txt
	$(UV) pip sync --quiet --require-hashes --python $(BIN)/python requirements/dev.txt
	$(UV) pip install --quiet --no-deps --no-build-isolation --no-index --python $(BIN)/python -e .
	touch $@
