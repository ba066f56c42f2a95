# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export UV_COMPILE_BYTECODE = 1

.PHONY: demo test check lint types imports docs clean

demo: $(VENV)/.installed          ## measure the known-good agent: no key, no docker, no download
	$(BIN)/agentcompass run quickstart oracle scripted

test: $(VENV)/.installed-dev      ## every test
	$(BIN)/pytest -n 2 --dist worksteal

check: lint types imports test    ## what must pass before a commit

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

imports: $(VENV)/.installed-dev
	$(BIN)/lint-imports

docs: $(VENV)/.installed-dev      ## write the generated pages again
	$(BIN)/python -m docs.generate

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("AgentCompass needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

# uv installs in seconds; where it cannot reach the index that pip is set up for, pip does it.
$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install --quiet uv && $(BIN)/uv pip install --quiet --python $(BIN)/python -e . \
	  || $(BIN)/pip install --quiet -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install --quiet uv && $(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[dev]' \
	  || $(BIN)/pip install --quiet -e '.[dev]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache dist build
