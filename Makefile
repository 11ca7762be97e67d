PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# pip warns when root installs; this is the project's own environment.
export PIP_ROOT_USER_ACTION := ignore

.PHONY: run test v2-image lint types contracts check bench docs soak lock clean

run: $(VENV)/.ready
	@$(BIN)/qosmanager demo

test: check v2-image
	$(BIN)/pytest

# What tests/system/test_v2_kernel.py boots: qemu, busybox, a Debian kernel. Where it cannot be had it says why, and those tests skip.
v2-image: $(VENV)/.ready
	@$(BIN)/python tests/guest/prepare.py

check: lint types contracts

lint: $(VENV)/.ready
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/ruff format --check src tests benchmarks docs

types: $(VENV)/.ready
	$(BIN)/mypy

contracts: $(VENV)/.ready
	$(BIN)/lint-imports

# The environment is made anew when what it is made of has changed.
$(VENV)/.ready: requirements/dev.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: '$(PYTHON)' not found; set PYTHON=/path/to/python3.11 or later" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is older than 3.11; set PYTHON=/path/to/python3.11 or later" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' || { echo "make: the venv module is missing; on Debian: apt-get install python3-venv" >&2; exit 2; }
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/pip install --quiet --require-hashes --requirement requirements/dev.lock
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Needs root and writable cgroups; results in docs/benchmarks.md.
bench: $(VENV)/.ready
	$(BIN)/python benchmarks/agent.py

# References made anew from the code, then the site (site/index.html); the site's tools have an environment of their own.
docs: $(VENV)/.ready $(VENV)-docs/.ready
	$(BIN)/python docs/generate.py
	$(VENV)-docs/bin/zensical build --strict --config-file mkdocs.yml
	@echo "site/index.html"

$(VENV)-docs/.ready: requirements/docs.lock
	@echo "setting up $(VENV)-docs (once)"
	@$(PYTHON) -m venv --clear $(VENV)-docs
	@$(VENV)-docs/bin/pip install --quiet --require-hashes --requirement requirements/docs.lock
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-docs site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
