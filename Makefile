# The front door. Bare `make` lists the targets.
SHELL := /bin/sh
# A distribution's build first: it is optimized, and pyenv's is not unless asked, which costs tests a sixth more CPU.
PYTHON ?= $(or $(shell for python in /usr/bin/python3.11 python3.11 python3; do $$python -c 'import ensurepip, venv' 2>/dev/null && command -v $$python && break; done),python3)
VENV := .venv
BIN := $(VENV)/bin
TRAINERS := .cache/trainers
FLYTE := .cache/flyte
TRACKERS := .cache/trackers
PIPELINE := .cache/pipeline
FOCUS := .cache/focus
DEPLOY_CHECKS := .cache/deploy
FOCUS_PYTHON ?= python3.12
# uv writes no bytecode by default, and then every start pays for compiling it.
export UV_COMPILE_BYTECODE := 1
export UV_LINK_MODE := copy

.PHONY: queues long gangs shards first-hour deploy-checks trackers soak help demo test check golden bench load audit bounds mutants trainers flyte sweep lowest pictures lock clean pipeline replay curves halving alive deadlines focus upgrades paths figures
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

$(VENV)/installed: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Costguard needs Python 3.11 or later; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Installing Costguard into $(VENV) (once)..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv || true
	@if [ -x $(BIN)/uv ]; then \
	  $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.txt && \
	  $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable . ; \
	else \
	  $(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements.txt && \
	  $(BIN)/python -m pip install --quiet --no-deps --editable . ; \
	fi
	@$(BIN)/python -m compileall -q service # where Python may write no bytecode, every start would compile it again
	@touch $@

$(VENV)/installed-dev: requirements-dev.txt $(VENV)/installed
	@echo "Installing what the tests need into $(VENV) (once)..."
	@if [ -x $(BIN)/uv ]; then \
	  $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements-dev.txt ; \
	else \
	  $(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements-dev.txt ; \
	fi
	@touch $@

demo: $(VENV)/installed ## see Costguard at work on a simulated cloud (Ctrl-C ends all of it)
	@exec $(BIN)/costguard demo $(ARGS)

test: $(VENV)/installed-dev ## format, lint, types, imports and all tests
	@$(BIN)/python -m tests.browser.found
	@$(BIN)/python -m tests.deploy.promtool
	@$(BIN)/python -m tests.check $(ARGS)

check: test

golden: $(VENV)/installed-dev ## rewrite the golden files and the reference after a change that is meant
	@$(BIN)/python -m tests.golden $(ARGS)

queues: $(VENV)/installed-dev ## play 10,000 random queues under limits, with replicas that are killed, and recount every VM
	@$(BIN)/python -m tests.jobs.decide.limits.run_queues $(ARGS)

bench: $(VENV)/installed-dev ## measure, print a table and write bench.json
	@$(BIN)/python -m tests.benchmarks

load: $(VENV)/installed-dev ## ten minutes of 10,000 agents and 200 dashboards on each database; shorter: LOAD_SECONDS=60 LOAD_ON=SQLite
	@$(BIN)/python -m tests.benchmarks load

MINUTES ?= 60
ON ?= both
shards: $(VENV)/installed-dev ## kill one of two real replicas each minute for an hour on each database, and judge what they watched and did; shorter: MINUTES=6 ON=SQLite
	@$(BIN)/python -m tests.shards --minutes $(MINUTES) --on $(ON) $(ARGS)

audit: $(VENV)/installed-dev ## check the licences of what is installed, and its known vulnerabilities where OSV can be reached
	@$(BIN)/python -m tests.audit

paths: $(VENV)/installed-dev ## trace how many rooms and files three pieces of data go through; make paths ARGS=--all lists each function
	@$(BIN)/python -m tests.paths $(ARGS)

figures: $(VENV)/installed-dev ## count lines, modules and contracts
	@$(BIN)/python -m tests.figures

mutants: $(VENV)/installed-dev ## plant deliberate faults in a copy, see that tests catch each, and write service/docs/mutants.md
	@$(BIN)/python -m tests.mutants $(ARGS)

lowest: ## run the tests with the lowest versions that pyproject.toml allows, in an environment of their own
	@test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	@$(MAKE) --quiet $(VENV)/installed-dev
	@$(BIN)/uv pip compile --quiet --no-header --no-emit-index-url --resolution lowest-direct --python-version 3.11 pyproject.toml -o .cache/lowest.txt
	@$(BIN)/uv pip install --quiet --python .venv-lowest/bin/python --no-deps -r requirements-dev.txt
	@$(BIN)/uv pip install --quiet --python .venv-lowest/bin/python -r .cache/lowest.txt
	@$(BIN)/uv pip install --quiet --python .venv-lowest/bin/python --no-deps --editable .
	@.venv-lowest/bin/python -m pytest -q -n 3 --dist worksteal $(ARGS)

$(TRAINERS)/installed: tests/trainers/requirements.txt $(VENV)/installed-dev
	@echo "Installing real trainers into $(TRAINERS) (once; on Linux about 6 GB, as PyTorch brings what GPUs need)..."
	@mkdir -p $(TRAINERS) && $(PYTHON) -m venv --clear $(TRAINERS)/venv
	@if [ -x $(BIN)/uv ]; then \
	  UV_COMPILE_BYTECODE=0 $(BIN)/uv pip install --quiet --python $(TRAINERS)/venv/bin/python --require-hashes -r tests/trainers/requirements.txt ; \
	else \
	  $(TRAINERS)/venv/bin/python -m pip install --quiet --require-hashes -r tests/trainers/requirements.txt ; \
	fi
	@touch $@

trainers: $(TRAINERS)/installed ## kill real trainers on CPU, judge what they leave, and write service/docs/trainers.md
	@nice $(BIN)/python -m tests.trainers $(ARGS)

gangs: $(TRAINERS)/installed ## disturb jobs of 2 to 8 VMs and of ranges 200 times with a real guard, torchrun and JAX, in eight parts of at most 15 minutes, and judge what came of them; one part: make gangs ARGS="--parts torch-8"
	@nice $(BIN)/python -m tests.gangs $(ARGS)

curves: $(VENV)/installed-dev ## measure the rule for metrics that stand still on recorded runs, and write it into service/docs/progress.md
	@PYTHONPATH=service nice $(BIN)/python -m tests.progress.curves


halving: $(VENV)/installed-dev ## replay halving of sweeps on recorded runs, and write it into service/docs/halving.md
	@PYTHONPATH=service:. nice $(BIN)/python -m tests.sweeps.halving_replay $(ARGS)

deadlines: $(VENV)/installed-dev ## run many jobs with deadlines against adversaries on the real turns: none may be late
	@PYTHONPATH=service nice $(BIN)/python -m tests.jobs.many_deadlines $(ARGS)

upgrades: $(VENV)/installed-dev ## upgrade every recorded database of every revision on SQLite and PostgreSQL, each with a pass of the guard
	@COSTGUARD_ALL_UPGRADES=1 nice $(BIN)/python -m pytest -q tests/upgrades

alive: $(VENV)/installed-dev ## plant 40 hangs that the agent must find, and look for false alarms in 1,000 simulated days; others: ARGS="--first 1000"
	@PYTHONPATH=service nice $(BIN)/python -m tests.agent.alive $(ARGS)

bounds: $(TRAINERS)/installed ## plant causes in real trainings and judge what bounds each; with a GPU: make bounds ARGS="--device cuda"
	@$(BIN)/python -m tests.diagnosis.bounds $(ARGS)

SEEDS ?= 20
FIRST ?= 1000
soak: $(VENV)/installed-dev ## live through simulated lives of other seeds than the tests: make soak SEEDS=20 FIRST=1000
	@nice $(BIN)/python -m tests.simulation --seeds $(SEEDS) --first $(FIRST) $(ARGS)
	@COSTGUARD_OTHER_EXAMPLES=1 nice $(BIN)/python -m pytest -q -n0 tests/scenario/test_any_life.py tests/simulation/test_any_plan.py tests/ledger/test_running_totals.py tests/spend/test_label_roll_up.py tests/spend/test_label_spend.py

long: $(VENV)/installed-dev ## act out with real processes what make test proves in parts: guards and demos that are killed, gangs, disks that stay
	@nice $(BIN)/python -m pytest -q -n 2 --dist worksteal -m long $(ARGS)

sweep: $(VENV)/installed-dev ## run a sweep of 24 members with 10 preemptions in the simulated cloud
	@nice $(BIN)/python -m tests.scenario.sweep_of_many

$(FLYTE)/installed: tests/flyte/requirements.txt $(VENV)/installed-dev
	@echo "Installing flytekit and flyte into $(FLYTE) (once; 170 packages, 400 MB)..."
	@mkdir -p $(FLYTE) && $(PYTHON) -m venv --clear $(FLYTE)/venv
	@if [ -x $(BIN)/uv ]; then \
	  $(BIN)/uv pip install --quiet --python $(FLYTE)/venv/bin/python --require-hashes -r tests/flyte/requirements.txt ; \
	else \
	  $(FLYTE)/venv/bin/python -m pip install --quiet --require-hashes -r tests/flyte/requirements.txt ; \
	fi
	@$(FLYTE)/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable . # with its entry points
	@touch $@

flyte: $(FLYTE)/installed ## run real Flyte workflows whose tasks are jobs on the simulated cloud
	@COSTGUARD_FLYTE=$(abspath $(FLYTE))/venv nice $(BIN)/python -m pytest -q -n0 tests/flyte $(ARGS)

$(TRACKERS)/installed: tests/trackers/requirements.txt $(VENV)/installed-dev
	@echo "Installing MLflow and wandb into $(TRACKERS) (once; 110 packages, 700 MB)..."
	@mkdir -p $(TRACKERS) && $(PYTHON) -m venv --clear $(TRACKERS)/venv
	@if [ -x $(BIN)/uv ]; then \
	  $(BIN)/uv pip install --quiet --python $(TRACKERS)/venv/bin/python --require-hashes -r tests/trackers/requirements.txt ; \
	else \
	  $(TRACKERS)/venv/bin/python -m pip install --quiet --require-hashes -r tests/trackers/requirements.txt ; \
	fi
	@touch $@

trackers: $(TRACKERS)/installed ## log jobs' cost to a real MLflow server across preemptions and outages, and read W&B's summary by its client
	@COSTGUARD_TRACKERS=$(abspath $(TRACKERS))/venv nice $(BIN)/python -m pytest -q -n0 tests/trackers $(ARGS)

$(PIPELINE)/installed: tests/pipeline/requirements.txt $(VENV)/installed-dev
	@echo "Installing an S3 server into $(PIPELINE) (once)..."
	@mkdir -p $(PIPELINE) && $(PYTHON) -m venv --clear $(PIPELINE)/venv
	@if [ -x $(BIN)/uv ]; then \
	  $(BIN)/uv pip install --quiet --python $(PIPELINE)/venv/bin/python --require-hashes -r tests/pipeline/requirements.txt ; \
	else \
	  $(PIPELINE)/venv/bin/python -m pip install --quiet --require-hashes -r tests/pipeline/requirements.txt ; \
	fi
	@touch $@

pipeline: $(TRAINERS)/installed $(PIPELINE)/installed ## train real scripts from a folder to a model in S3, preempted at the worst moments, and write service/docs/pipeline.md
	@$(BIN)/python -m tests.browser.found
	@nice $(BIN)/python -m tests.pipeline $(ARGS)

$(FOCUS)/installed: tests/focus/requirements.txt $(VENV)/installed-dev
	@echo "Installing focus-validator into $(FOCUS) (once; it needs Python 3.12: FOCUS_PYTHON=... names it)..."
	@mkdir -p $(FOCUS) && $(FOCUS_PYTHON) -m venv --clear $(FOCUS)/venv
	@$(FOCUS)/venv/bin/python -m pip install --quiet --require-hashes -r tests/focus/requirements.txt
	@touch $@

focus: $(FOCUS)/installed ## export a random ledger as FOCUS 1.2 and have FinOps' validator read it
	@nice $(BIN)/python -m tests.focus $(FOCUS)/venv

$(DEPLOY_CHECKS)/installed: tests/deploy/checks/requirements.txt $(VENV)/installed-dev
	@echo "Installing checkov, zizmor and others into $(DEPLOY_CHECKS) (once; 110 packages, 700 MB)..."
	@mkdir -p $(DEPLOY_CHECKS) && $(PYTHON) -m venv --clear $(DEPLOY_CHECKS)/venv
	@if [ -x $(BIN)/uv ]; then \
	  UV_COMPILE_BYTECODE=0 $(BIN)/uv pip install --quiet --python $(DEPLOY_CHECKS)/venv/bin/python --require-hashes -r tests/deploy/checks/requirements.txt ; \
	else \
	  $(DEPLOY_CHECKS)/venv/bin/python -m pip install --quiet --require-hashes -r tests/deploy/checks/requirements.txt ; \
	fi
	@touch $@

deploy-checks: $(DEPLOY_CHECKS)/installed ## plan deploy/terraform with a stand-in provider, and have linters read all of deploy/
	@COSTGUARD_DEPLOY_CHECKS=$(abspath $(DEPLOY_CHECKS))/venv nice $(BIN)/python -m pytest -q -n0 tests/deploy $(ARGS)

replay: $(VENV)/installed-dev ## replay the policies for deadlines over the series in TRACES, a part at a time: make replay PART=one-zone; without PART, write each table of service/docs/deadlines.md whose parts are there
	@nice $(BIN)/python -m tests.deadlines $(if $(PART),--part $(PART) $(TRACES),--write) $(ARGS)

first-hour: $(VENV)/installed-dev ## act out the README's set-up and a first job on a clean machine, command by command, and write service/docs/first-hour.md
	@$(BIN)/python -m tests.first_hour $(ARGS)

pictures: $(VENV)/installed-dev ## take pictures of every page and every kind of message, into deploy/pictures
	@$(BIN)/python -m tests.browser.found
	@$(BIN)/python -m tests.pictures
	@$(BIN)/python -m tests.page_pictures

lock: $(VENV)/installed ## write the locked requirements again
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 pyproject.toml -o requirements.txt
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 --extra dev pyproject.toml -o requirements-dev.txt
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 tests/trainers/requirements.in -o tests/trainers/requirements.txt
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 tests/flyte/requirements.in -o tests/flyte/requirements.txt
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 tests/pipeline/requirements.in -o tests/pipeline/requirements.txt
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 tests/trackers/requirements.in -o tests/trackers/requirements.txt
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.12 tests/focus/requirements.in -o tests/focus/requirements.txt
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 tests/deploy/checks/requirements.in -o tests/deploy/checks/requirements.txt

clean: ## remove everything that was installed or built
	@rm -rf $(VENV) .venv-lowest .cache build dist bench.json
