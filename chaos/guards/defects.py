"""Defects that were found once, put back: a simulation or a storm finds each of them (docs/reliability.md)."""

from chaos.guards.mutant import FUNCTIONS, WORKER, Mutant, test

SIMULATION = "chaos/simulation"

MUTANTS = [
    Mutant(
        "put back: a log filter that raises ends tasks of a worker",
        "src/treadle/text/log.py",
        "        except Exception as error:\n",
        "        except ZeroDivisionError as error:\n",
        test(SIMULATION, "test_a_log_filter_that_raises_stops_no_job"),
    ),
    Mutant(
        "put back: a job that ends its process when it has returned is started for ever",
        f"{WORKER}/job_slots.py",
        " or each.state is State.ENDED\n",
        "\n",
        test(SIMULATION, "test_a_job_that_ends_its_process_when_it_has_returned_is_not_started_for_ever"),
    ),
    Mutant(
        "put back: limits do not count what ran before they were declared",
        f"{FUNCTIONS}/parts/lock_limits.sql",
        "        v_closed := treadle.list_running_jobs();",
        "        v_closed := '{}';",
        test(SIMULATION, "test_a_limit_that_is_set_while_jobs_run_counts_them"),
    ),
    Mutant(
        "put back: a child process that starts slowly uses up attempts",
        f"{WORKER}/children.py",
        "return Outcome(Ending.RELEASED, delay=START_DELAY)",
        "return Outcome(Ending.RETRY, delay=START_DELAY)",
        "storm slow-children",
    ),
    Mutant(
        "put back: settings of a session leak from job to job",
        "src/treadle/db/transport.py",
        'AS_OPENED = b"reset role; reset session authorization; reset all"',
        'AS_OPENED = b"select 1"',
        "storm terminations",
    ),
    Mutant(
        "put back: an outcome waits for a transaction that enqueues a job after it",
        f"{FUNCTIONS}/triggers/check_at_commit.sql",
        "deferrable initially deferred",
        "deferrable initially immediate",
        test(SIMULATION, "test_a_job_that_is_open_and_waits_for_another_does_not_hold_up_its_outcome"),
    ),
    Mutant(
        "put back: a waiting job that was claimed by an update and fails waits for ever",
        f"{FUNCTIONS}/triggers/job_ended.sql",
        "    if old.status <> 'pending' and new.status = 'pending' and new.holds",
        "    if v_revived and new.holds",
        test(SIMULATION, "test_a_waiting_job_that_is_claimed_by_an_update_and_fails_does_not_wait_for_ever"),
    ),
    Mutant(
        "put back: what is waited for in two ways may fail",
        "src/treadle/words/after.py",
        "return bool(said) and all(said)",
        "return any(said)",
        test(SIMULATION, "test_a_job_that_waits_for_another_in_two_ways_does_not_run_if_that_fails"),
    ),
]
