"""Jobs that wait for others."""

from chaos.guards.mutant import FUNCTIONS, Mutant, test

SETTLE = f"{FUNCTIONS}/parts/settle_waiting.sql"
ENDED = f"{FUNCTIONS}/parts/check_ended.sql"
WAITING = f"{FUNCTIONS}/parts/check_waiting.sql"
COMMIT = f"{FUNCTIONS}/triggers/check_at_commit.sql"
JOB_ENDED = f"{FUNCTIONS}/triggers/job_ended.sql"

RACES = "queue/dependency_races"
PLAIN = "queue/dependencies"

MUTANTS = [
    Mutant(
        "of several conditions for one job the strictest holds",
        "src/treadle/words/after.py",
        "return bool(said) and all(said)",
        "return any(said)",
        test("jobs/after", "test_of_several_conditions_for_one_job_the_strictest_holds"),
    ),
    Mutant(
        "the next job is locked before it is watched",
        SETTLE,
        "        for no key update skip locked\n",
        "",
        test(RACES, "test_two_that_end_at_the_same_moment_free_the_job_once"),
    ),
    Mutant(
        "what is watched is marked",
        SETTLE,
        "    set flags = job.flags | treadle.flag_watched()\n",
        "    set flags = job.flags\n",
        test(PLAIN, "test_a_job_runs_after_another"),
    ),
    Mutant(
        "a job whose next is locked is looked at later",
        SETTLE,
        "      and chosen.next <> all (v_locked)\n",
        "      and false\n",
        test(RACES, "test_two_that_end_at_the_same_moment_free_the_job_once"),
    ),
    Mutant(
        "a result that is computed again is waited for",
        SETTLE,
        "            p_past is not null and job.flags & treadle.flag_inputs() <> 0 as again,\n",
        "            false as again,\n",
        test(PLAIN, "test_a_result_that_is_computed_again_is_waited_for"),
    ),
    Mutant(
        "a job that has not ended as it has to stops those that wait for it",
        SETTLE,
        "                or not treadle.is_satisfied(edge.needs, treadle.outcome_of(job.status, job.flags))\n",
        "",
        test(PLAIN, "test_a_job_after_one_that_has_failed_is_cancelled_at_once"),
    ),
    Mutant(
        "a job that waits and is locked is looked at later",
        WAITING,
        "    if cardinality(v_locked) = cardinality(p_ids) then\n",
        "    if true then\n",
        test(RACES, "test_a_new_job_that_somebody_has_locked_is_looked_at_later"),
    ),
    Mutant(
        "a job that waits and is locked when the other ends is looked at later",
        ENDED,
        "            where waiting.id <> all (v_locked)\n",
        "            where false\n",
        test(RACES, "test_a_row_that_somebody_has_locked_is_looked_at_later"),
    ),
    Mutant(
        "a failure that is not watched is noticed at once",
        JOB_ENDED,
        "        and new.status <> 'completed'\n",
        "        and false\n",
        test(PLAIN, "test_the_failure_of_one_of_several_is_noticed_at_once"),
    ),
    Mutant(
        "a job that is retried waits again",
        JOB_ENDED,
        "new.holds & treadle.blocked_by_jobs() <> 0 then\n",
        "false then\n",
        test(PLAIN, "test_a_job_that_was_stopped_waits_again_when_it_is_retried"),
    ),
    Mutant(
        "a waiting job that was claimed by hand and comes back is looked at",
        JOB_ENDED,
        "    if old.status <> 'pending' and new.status = 'pending' and new.holds",
        "    if v_revived and new.holds",
        test(
            "queue/by_hand", "test_a_waiting_job_that_was_claimed_by_hand_and_comes_back_waits_no_longer_than_it_has_to"
        ),
    ),
    Mutant(
        "a step that comes back waits for its signal with its whole time",
        f"{FUNCTIONS}/triggers/change_job.sql",
        "new.status = 'pending' and new.flags & treadle.flag_signal() <> 0 then",
        "false then",
        test("queue/by_hand", "test_a_signal_that_is_waited_for_again_has_its_time_again"),
    ),
    Mutant(
        "nothing is decided on an older snapshot",
        COMMIT,
        "    if treadle.is_read_committed() then\n",
        "    if true then\n",
        test(PLAIN, "test_what_ends_on_an_older_snapshot_is_noticed_by_the_next_tick"),
    ),
    Mutant(
        "claims decide what could not be decided at commit",
        f"{FUNCTIONS}/public/claim_work.sql",
        "        perform treadle.advance_waiting(1000);\n",
        "        null;\n",
        test(PLAIN, "test_more_than_are_freed_at_commit_follow_with_the_next_claims_of_a_worker"),
    ),
    Mutant(
        "ticks decide what claims have left",
        f"{FUNCTIONS}/public/tick.sql",
        "    perform treadle.advance_waiting(5000) where exists (select from treadle.dependency_checks);\n",
        "",
        test(PLAIN, "test_a_tick_decides_what_is_older"),
    ),
    Mutant(
        "a job is kept while others wait for it",
        f"{FUNCTIONS}/public/prune_jobs.sql",
        "                      and waiting.finished_at is null\n",
        "                      and false\n",
        test(PLAIN, "test_a_job_is_kept_while_others_wait_for_it"),
    ),
    Mutant(
        "a job that does not exist is refused",
        f"{FUNCTIONS}/parts/add_jobs.sql",
        "        where not exists (select from treadle.jobs as job where job.id = each.id)\n",
        "        where false\n",
        test(PLAIN, "test_a_job_that_does_not_exist_is_refused_and_the_transaction_goes_on"),
    ),
]
