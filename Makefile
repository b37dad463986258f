# make run: set everything up and open the console. make test: set the same up and run every test and check.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.footplate-installed

.PHONY: run test test-long check bench pictures azure-demo clean

run: $(STAMP)
	@if [ -t 0 ] && [ -t 1 ]; then exec $(BIN)/footplate; else exec $(BIN)/footplate demo; fi

test: $(STAMP) check
	@$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder

# What is too long for every run: all moments of a kill, the whole corpus through the SDK.
test-long: $(STAMP)
	@$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m long

check: $(STAMP)
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .
	@$(BIN)/mypy -p footplate
	@$(BIN)/mypy trainer
	@$(BIN)/mypy score
	@$(BIN)/lint-imports --cache-dir build/import-linter

# make bench ONLY=start runs one group.
bench: $(STAMP)
	@$(BIN)/python -m tests.bench $(ONLY)

# The console on a small Azure ML of this machine: no account, no network. make azure-demo SIGN_IN=1 begins signed out.
azure-demo: $(STAMP)
	@$(BIN)/python -m tests.wire.demo $(if $(SIGN_IN),--sign-in)

# The README's pictures, made from the running console; needs rsvg-convert or chromium only to look at them as PNG.
pictures: $(STAMP)
	@$(BIN)/python docs/make_pictures.py

clean:
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache

# Redone when the dependencies change; an interrupted installation leaves no stamp and is begun again.
$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "footplate needs Python 3.11 or newer; name one: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up $(VENV): about two minutes and, where torch comes as its CUDA build, 6.5 GB." >&2
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c requirements.lock -e '.[local,dev]'
	@$(BIN)/python -m compileall -q tui
	@touch $@
