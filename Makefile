PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# pip warns when root installs; this is the project's own environment.
export PIP_ROOT_USER_ACTION := ignore

.PHONY: run test packages v2-image promtool deploy-tools manifests containers lint types contracts check bench bench-slo bench-memory mutants docs soak soak-kills soak-upgrade soak-user-mode-linux soak-systemd soak-v2 soak-fuzz soak-day soak-real soak-scenarios soak-container soak-watches soak-cluster lock clean

run: $(VENV)/.ready
	@$(BIN)/qosmanager demo

# Two processes: one with all tests that use the machine itself, one with the others. What comes before them goes side by side, too.
test: $(VENV)/.ready
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target check packages
	$(BIN)/pytest -n 2

# The three below, one after the other, for apt wants to be alone.
packages: $(VENV)/.ready
	@$(BIN)/python tests/guest/prepare.py
	@$(BIN)/python tests/deploy_tools.py promtool
	@$(BIN)/python tests/real_kubelet/prepare.py

# What tests/system/test_v2_kernel.py boots: qemu, busybox, a Debian kernel. Where it cannot be had it says why, and those tests skip.
v2-image: $(VENV)/.ready
	@$(BIN)/python tests/guest/prepare.py

# What the tests on real containers run: containerd, runc and busybox out of Debian's packages, not installed. Where they cannot be had it
# says why, and those tests skip.
containers: $(VENV)/.ready
	@$(BIN)/python tests/real_kubelet/prepare.py

# What checks the alerts, out of Debian's package. Where it cannot be had, those tests skip.
promtool: $(VENV)/.ready
	@$(BIN)/python tests/deploy_tools.py promtool

# What renders the chart and evaluates its admission policies, built from source by go (some minutes, once); without them those tests skip.
deploy-tools: $(VENV)/.ready promtool
	$(BIN)/python tests/deploy_tools.py helm cel

# The plain manifests made anew from the chart; needs helm.
manifests: $(VENV)/.ready
	$(BIN)/python deploy/render.py

check: lint types contracts

lint: $(VENV)/.ready
	$(BIN)/ruff check src tests benchmarks deploy docs fuzz
	$(BIN)/ruff format --check src tests benchmarks deploy docs fuzz

types: $(VENV)/.ready
	$(BIN)/mypy

contracts: $(VENV)/.ready
	$(BIN)/lint-imports

# The environment is made anew when what it is made of has changed.
$(VENV)/.ready: requirements/dev.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: '$(PYTHON)' not found; set PYTHON=/path/to/python3.11 or later" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is older than 3.11; set PYTHON=/path/to/python3.11 or later" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' || { echo "make: the venv module is missing; on Debian: apt-get install python3-venv" >&2; exit 2; }
	@echo "setting up $(VENV) (once, a minute or so)"
	@$(PYTHON) -m venv --clear $(VENV)
	@# Compiled is what is imported, when it is: all of it would take three quarters of a minute.
	@$(BIN)/pip install --quiet --no-compile --require-hashes --requirement requirements/dev.lock
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Needs root and writable cgroups; results in docs/benchmarks.md.
bench: $(VENV)/.ready
	$(BIN)/python benchmarks/agent.py
	$(BIN)/python benchmarks/reaction.py --surges 1 --rounds 11 --calm 0.2
	$(BIN)/python benchmarks/record.py
	$(BIN)/python benchmarks/simulate.py

# Does the agent hold the objective, against the best fixed setting of the kernel? Interleaved pairs on real cgroups (two hours; PAIRS, ARGS).
PAIRS ?= 10
bench-slo: $(VENV)/.ready
	$(BIN)/python benchmarks/slo --pairs $(PAIRS) $(ARGS)

# Memory runs out in a guest of its own: who acts before the kernel has to, and whom does it hit? earlyoom, nohang, the agent (half an hour; RUNS, ARGS).
RUNS ?= 5
bench-memory: $(VENV)/.ready
	@$(BIN)/python tests/guest/prepare.py user-mode-linux
	$(BIN)/python benchmarks/memory_guest --runs $(RUNS) $(ARGS)

# assess/ and decide/ changed in some 6,100 ways, one at a time: does a test notice? By file, and what is left (40 min).
# Its tool has an environment of its own; what has been tried already is not tried again: rm -r mutants to begin anew.
mutants: $(VENV)-mutants/.ready
	PATH="$(CURDIR)/$(VENV)-mutants/bin:$$PATH" nice -n 15 mutmut run
	$(VENV)-mutants/bin/python tests/mutants/score.py mutants

$(VENV)-mutants/.ready: requirements/dev.lock requirements/mutants.lock
	@echo "setting up $(VENV)-mutants (once)"
	@$(PYTHON) -m venv --clear $(VENV)-mutants
	@$(VENV)-mutants/bin/pip install --quiet --require-hashes --requirement requirements/dev.lock --requirement requirements/mutants.lock
	@$(VENV)-mutants/bin/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# A test may take three hours here, not the usual 400 s.
LONG := $(BIN)/pytest --timeout 10800

# Long proofs, each also alone; most need root and writable cgroups and say so where they cannot run. About three hours in all.
soak: soak-kills soak-upgrade soak-user-mode-linux soak-systemd soak-v2 soak-fuzz soak-day soak-real soak-scenarios soak-container soak-watches soak-cluster

# kill -9 of a writer and of the whole agent, each at 1,000 random points, before each of 159 steps, and between an eviction and the API
# server's answer to it (about 40 min).
soak-kills: $(VENV)/.ready
	QOSM_KILLS=1000 $(LONG) -s -k "kill_9" tests/kernel/test_killed_writer.py tests/system/test_daemon.py tests/system/test_recording.py
	$(LONG) -m soak tests/soak/test_killed_while_evicting.py

# 20 upgrades under load: batch never above its limit for more than a second (1 min).
soak-upgrade: $(VENV)/.ready
	$(LONG) -s -m soak tests/soak/test_upgrade.py

# All tests of the kernel, chaos and the daemon on User-mode Linux, a second v2 kernel at full speed (5 min).
soak-user-mode-linux: $(VENV)/.ready
	@$(BIN)/python tests/guest/prepare.py user-mode-linux
	$(LONG) -m soak tests/soak/test_user_mode_linux.py

# The shipped units under a real systemd: Debian's, unpacked below build/, on that same kernel (6 min).
soak-systemd: $(VENV)/.ready
	@$(BIN)/python tests/guest/prepare.py user-mode-linux
	@$(BIN)/python tests/real_systemd/prepare.py
	$(LONG) -s -m soak tests/soak/test_systemd.py

# The same as soak-user-mode-linux on the emulated v2 kernel, of which make test runs a part (15 min).
soak-v2: v2-image
	QOSM_GUEST=all $(LONG) tests/system/test_v2_kernel.py

# Parsers: ten minutes of coverage-guided fuzzing where atheris installs, else ten thousand random texts for each.
soak-fuzz: $(VENV)/.ready
	@mkdir -p build/corpus
	@if $(BIN)/pip install --quiet --require-hashes --only-binary :all: --no-deps --upgrade --target build/fuzz --requirement requirements/fuzz.lock; then \
	  PYTHONPATH=build/fuzz $(BIN)/python fuzz/parsers.py build/corpus -max_total_time=600 -print_final_stats=1 -artifact_prefix=build/; \
	else \
	  echo "atheris does not install here: hypothesis instead"; QOSM_EXAMPLES=10000 $(LONG) tests/property/test_parsers.py; \
	fi

# 24 hours of a clock moved by hand on v1 and on v2, pods coming and going: memory and descriptors stay (20 min; QOSM_HOURS).
soak-day: $(VENV)/.ready
	$(LONG) -s -m soak tests/soak/test_a_day.py

# Half an hour of the real agent, ten cycles a second, pods coming and going (30 min; QOSM_MINUTES).
soak-real: $(VENV)/.ready
	$(LONG) -s -m soak tests/soak/test_real_run.py

# Every shipped scenario at its full length, days included, with all strategies, with the agent and without it (some 40 min).
soak-scenarios: $(VENV)/.ready
	$(LONG) -s -m soak tests/soak/test_scenarios.py tests/soak/test_forecast.py

# The image, built from this machine's own Python and run with the manifests' few capabilities; needs buildah and runc (2 min).
soak-container: $(VENV)/.ready
	$(LONG) -m soak tests/soak/test_container.py

# A thousand watches of an API server, dropped in two ways: the client's memory and descriptors stay (1 min; QOSM_WATCHES).
soak-watches: $(VENV)/.ready
	$(LONG) -s -m soak tests/soak/test_dropped_watches.py

# The agent and its chart against a real API server and a real kubelet, which go builds from source (2 min; the first time some ten minutes
# of a core more). kubelet is run apart from this machine's network and files.
soak-cluster: deploy-tools containers
	@$(BIN)/python tests/real_cluster/prepare.py
	$(LONG) -m soak tests/soak/test_api_server.py
	sh tests/real_cluster/apart.sh $(LONG) -m soak tests/soak/test_kubelet.py

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
	rm -rf $(VENV) $(VENV)-docs $(VENV)-mutants mutants site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
