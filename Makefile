# On a machine with python3 (3.11 or newer) and make: `make demo` and `make test` do all of their own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test check bench bench-peers chaos mutants storm kills failover model soak schema pictures chromium clean

help:               ## what there is to make
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /	/'

demo: $(READY)      ## watch the queue work, on a PostgreSQL of its own
	@$(BIN)/treadle demo

test: $(READY) check chromium ## everything CI runs
	$(BIN)/pytest -n 3 --dist worksteal -q  # on two cores: many of them wait

check: $(READY)     ## style, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(READY)     ## how fast is it here: figures, bars and advice, in a minute
	@$(BIN)/treadle bench

chaos: $(READY)     ## faults of every kind under load, and whether a promise was broken; MINUTES=60, SEED=7, STORM="kills slow"
	@$(BIN)/python -m chaos --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(STORM),--storm $(STORM))

mutants: $(READY)   ## remove each guard in turn, and see a named test or storm turn red
	@$(BIN)/python -m chaos.mutants

bench-peers: $(READY) ## Treadle next to its peers, in an hour at most, into docs/benchmarks.md; OPTIONS="--quick" for a trial
	@$(BIN)/pip install --quiet --disable-pip-version-check --group bench
	@$(BIN)/python -m benchmarks.peers $(OPTIONS)

storm: $(READY)     ## a minute of random concurrency against every promise; SECONDS=600 for longer
	@$(BIN)/python -m chaos.threads --seconds $(or $(SECONDS),60)

kills: $(READY)     ## processes killed at random points, and a look whether every effect is there once; KILLS=200
	@$(BIN)/python -m chaos.kills --kills $(or $(KILLS),200)

failover: $(READY)  ## a primary killed under load, and who follows to its standby; ROUNDS=5
	@$(BIN)/python -m chaos.failover --rounds $(or $(ROUNDS),3)

model: $(READY)     ## every transition of a job against an oracle, at random; SECONDS=600
	TREADLE_MODEL_SECONDS=$(or $(SECONDS),120) $(BIN)/pytest -q --timeout 0 tests/queue/test_model.py

soak: $(READY)      ## an hour at a steady rate, and a look whether anything grows; MINUTES=5
	@$(BIN)/python -m chaos.soak --minutes $(or $(MINUTES),60)

pictures: $(READY)  ## take the pictures in docs/ anew: the demo, treadle top and the dashboard
	@$(BIN)/python docs/make_picture.py
	@$(BIN)/python docs/make_dashboard_pictures.py

# For the tests in a browser. Where it may be installed it is, once; where not, they are left out, and pytest says so.
chromium:
	@command -v chromium >/dev/null || [ -n "$$TREADLE_TEST_CHROMIUM" ] || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing Chromium (once)" && \
	DEBIAN_FRONTEND=noninteractive timeout 600 sh -c 'apt-get -qq update && apt-get -qq install --yes --no-install-recommends chromium fonts-dejavu-core' >/dev/null 2>&1; } || true

schema: $(READY)    ## write schema.sql anew after a migration or function changed
	@$(BIN)/python -m tests.support.dump_schema

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Treadle needs Python 3.11 or newer; set PYTHON=python3.12, for example."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make a virtual environment here; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "installing into $(VENV) (once)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[embedded,web]" --group dev
	@touch $@

clean:              ## remove the environment and the embedded server's data
	rm -rf $(VENV) .treadle
