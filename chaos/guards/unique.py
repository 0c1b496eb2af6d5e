"""Unique jobs, debounce, throttle and expiry."""

from chaos.guards.mutant import FUNCTIONS, Mutant, test

UNLESS_EXISTS = f"{FUNCTIONS}/parts/enqueue_unless_exists.sql"
PER_PERIOD = f"{FUNCTIONS}/parts/enqueue_per_period.sql"
INSERT = f"{FUNCTIONS}/parts/insert_jobs.sql"
CHANGE = f"{FUNCTIONS}/parts/change_unique_jobs.sql"
MARK_CLAIMED = f"{FUNCTIONS}/parts/mark_claimed.sql"

MUTANTS = [
    Mutant(
        "unique returns the unfinished job and changes nothing",
        INSERT,
        "            do nothing\n",
        "            do update set priority = excluded.priority\n",
        test("queue/unique_keys", "test_a_second_enqueue_waits_for_the_transaction_of_the_first"),
    ),
    Mutant(
        "a claim frees a unique key for pending jobs",
        MARK_CLAIMED,
        "                unique_key = case when job.unique_while is null then job.unique_key end,\n",
        "",
        test("queue/unique_rules", "test_while_pending_a_claim_makes_room_for_the_next_job"),
    ),
    Mutant(
        "so does a claim by hand",
        f"{FUNCTIONS}/triggers/change_job.sql",
        "        new.unique_key := case when old.unique_while is null then new.unique_key end;\n",
        "",
        test("queue/unique_rules", "test_while_pending_a_claim_by_hand_makes_room_too"),
    ),
    Mutant(
        "a pending job that was returned does not begin before the caller commits",
        UNLESS_EXISTS,
        "                    for share\n",
        "",
        test("queue/unique_races", "test_a_pending_job_that_was_returned_does_not_begin_before_the_caller_commits"),
    ),
    Mutant(
        "a job that is changed is locked first",
        UNLESS_EXISTS,
        "                    for no key update\n",
        "",
        test("queue/unique_races", "test_debounce_against_a_claim"),
    ),
    Mutant(
        "an older snapshot does not decide what exists",
        UNLESS_EXISTS,
        "v_look boolean := treadle.is_read_committed();",
        "v_look boolean := true;",
        test("queue/unique_races", "test_an_older_snapshot_never_returns_a_job_that_has_finished"),
    ),
    Mutant(
        "a caller does not wait for the transaction that ends the job",
        UNLESS_EXISTS,
        "v_look boolean := treadle.is_read_committed();",
        "v_look boolean := false;",
        test("queue/unique_races", "test_a_caller_does_not_wait_for_the_transaction_that_ends_the_job"),
    ),
    Mutant(
        "batches insert in the order of their unique keys",
        INSERT,
        "            case when item.key is null then wanted.unique_key end,\n",
        "",
        test("queue/unique_races", "test_a_batch_takes_its_unique_keys_in_their_order"),
    ),
    Mutant(
        "a replaced job forgets its checkpoint",
        CHANGE,
        "case when not v_replace then job.checkpoint end",
        "job.checkpoint",
        test("queue/unique_rules", "test_replace_starts_from_the_beginning"),
    ),
    Mutant(
        "debounce waits no longer than its limit",
        CHANGE,
        "least(p_job.run_at, before.created_at + p_options.latest)",
        "p_job.run_at",
        test("queue/unique_rules", "test_debounce_limit_is_the_longest_wait"),
    ),
    Mutant(
        "all or none",
        f"{FUNCTIONS}/parts/add_jobs.sql",
        "            if false = any (v_new) then\n",
        "            if false then\n",
        test("queue/unique_rules", "test_raise_raises"),
    ),
    Mutant(
        "throttled callers go one after the other",
        PER_PERIOD,
        "            for update\n",
        "",
        test("queue/unique_races", "test_throttled_callers_go_one_after_the_other"),
    ),
    Mutant(
        "a period that was removed while a caller waited is made again",
        PER_PERIOD,
        "        exit when v_locked = cardinality(v_wanted);\n",
        "        exit;\n",
        test("queue/unique_races", "test_a_period_is_removed_just_before_a_caller_locks_it"),
    ),
    Mutant(
        "a period from before the clock was set back is over",
        PER_PERIOD,
        "(period.taken_at <= v_now and period.taken_at > v_now - p_options.period) is not true",
        "(period.taken_at > v_now - p_options.period) is not true",
        test("queue/unique_rules", "test_a_period_from_before_the_clock_was_set_back_is_over"),
    ),
    Mutant(
        "an expired job is not claimed",
        MARK_CLAIMED,
        "              and (job.expires_at <= p_now) is not true\n",
        "",
        test("queue/expiry", "test_a_claim_cancels_the_expired_jobs_that_it_meets"),
    ),
    Mutant(
        "a claim cancels a bounded number of expired jobs",
        f"{FUNCTIONS}/parts/claim_lanes.sql",
        " and v_expired < c_expired",
        "",
        test("queue/expiry", "test_many_expired_jobs_do_not_hold_up_a_claim"),
    ),
    Mutant(
        "a job that was claimed in time does not expire",
        MARK_CLAIMED,
        "                expires_at = null,\n",
        "                expires_at = job.expires_at,\n",
        test("queue/expiry", "test_a_job_that_was_claimed_in_time_does_not_expire"),
    ),
    Mutant(
        "a job that is locked does not hold up the others that have expired",
        f"{FUNCTIONS}/public/expire_jobs.sql",
        "        for no key update skip locked\n",
        "        for no key update\n",
        test("queue/expiry", "test_a_job_that_is_locked_expires_later"),
    ),
    Mutant(
        "a retry by hand does not expire",
        f"{FUNCTIONS}/public/retry_job.sql",
        "                expires_at = null,\n",
        "",
        test("queue/expiry", "test_a_retry_by_hand_does_not_expire_again"),
    ),
    Mutant(
        "a call is not answered with a job that has expired",
        UNLESS_EXISTS,
        "            if v_ids <> '{}' then\n",
        "            if false then\n",
        test("queue/expiry", "test_a_call_is_not_answered_with_a_job_that_has_expired"),
    ),
    Mutant(
        "the expiry moves with the time",
        CHANGE,
        "case when v_reschedule then job.expires_at",
        "case when false then job.expires_at",
        test("queue/expiry", "test_the_expiry_moves_with_the_time"),
    ),
]
