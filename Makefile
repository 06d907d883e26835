# Everything a newcomer needs, each target as the only command typed. Needs Python >= 3.11, make and the package registries.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# More than cores: tests wait for processes more than they compute.
WORKERS ?= 4
# Compiled tests are kept, also where the environment says otherwise: collecting them costs half the time.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo browser test verify lint conformance bench docs screenshots requirements lock clean

help: ## show the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

setup: $(STAMP) ## create .venv with the pinned dependencies
	@echo "callgate is in $(BIN). To have it on the PATH of this shell, type: . $(BIN)/activate"
	@echo "To see it work: callgate demo (or, without that, make demo)"

$(STAMP): deps/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Callgate needs Python 3.11 or newer; name one with: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "setting up $(VENV) (about a minute, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r deps/dev.txt > $(VENV)/setup.log 2>&1 || { tail -n 20 $(VENV)/setup.log; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . >> $(VENV)/setup.log 2>&1 || { tail -n 20 $(VENV)/setup.log; exit 1; }
	@touch $(STAMP)

demo: $(STAMP) ## two minutes: an agent reads a poisoned mail, and a gate stands in its way
	@$(BIN)/callgate demo

browser: ## find a Chromium for the browser tests; as root on Debian, install the headless one, which takes half the time
	@for name in "$${CALLGATE_CHROMIUM:-}" chromium-headless-shell; do command -v "$$name" > /dev/null 2>&1 && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  echo "installing chromium-headless-shell for the browser tests (once)"; \
	  apt-get update -qq > /dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium-headless-shell > /dev/null 2>&1 && exit 0; \
	fi; \
	for name in chromium chromium-browser google-chrome; do command -v "$$name" > /dev/null 2>&1 && exit 0; done; \
	echo "The browser tests need Chromium: install it (Debian: sudo apt-get install chromium-headless-shell) or name one with CALLGATE_CHROMIUM=/path"; exit 1

PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations 20

test: $(STAMP) browser ## everything that a change needs: unit to wire, attacks, both stores, a browser, conformance
	$(PYTEST) -m "not verify"

verify: $(STAMP) browser ## the long rest: kills, floods, every way, width and theme, pages and examples, fuzzing, soak
	$(PYTEST) -m verify

lint: $(STAMP) ## ruff, mypy --strict, the import rule of the rooms
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/unit/test_rooms.py

conformance: $(STAMP) ## the official MCP conformance suite, direct and through the gateway
	$(BIN)/python tests/conformance/compare.py

bench: $(STAMP) ## measure against a bare relay and other gateways
	$(BIN)/python bench/run.py

docs: $(STAMP) ## build the documentation into site/
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict --quiet

screenshots: $(STAMP) browser ## make the pictures in docs/images anew, from a running gateway
	PYTHONPATH=tests $(BIN)/python tests/support/screenshots.py docs/images

requirements: $(STAMP) ## how much of the requirement registry the tests carry
	@$(BIN)/python tests/support/registry.py

lock: $(STAMP) ## renew deps/dev.txt from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --universal --python-version 3.11 --all-extras --group dev --generate-hashes --no-emit-index-url --no-header -q --upgrade -o deps/dev.txt

clean: ## remove what the other targets made
	rm -rf $(VENV) .cache site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
