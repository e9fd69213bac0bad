# Every target keeps its environment in .venv; nothing else is written outside the tree.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export ATP_HOME := $(abspath $(VENV))/atp-home
export HYPOTHESIS_STORAGE_DIRECTORY := $(VENV)/hypothesis

.PHONY: demo test check integration nightly lock

$(VENV)/.ready: requirements/dev.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --no-index -e .
	touch $@

check: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(VENV)/.ready
	$(BIN)/pytest -n 2 -m "not integration and not nightly"

lock: $(VENV)/.ready
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header --upgrade -o adapters/harnesses/langgraph.txt adapters/harnesses/langgraph.in
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header --upgrade --extra langgraph --group dev -o requirements/dev.txt pyproject.toml
