"""Jobs with a key, and unique jobs."""

from chaos.guards.mutant import FUNCTIONS, Mutant, test

MUTANTS = [
    Mutant(
        "a job that another claim is taking costs the others of a batch little",
        f"{FUNCTIONS}/parts/mark_claimed.sql",
        "    v_half constant int := cardinality(p_places) / 2;\n",
        "    v_half constant int := cardinality(p_places) - 1;\n",
        test("queue/keys", "test_a_job_that_another_claim_is_taking_costs_the_others_of_a_batch_little"),
    ),
    Mutant(
        "jobs with the same key never run at once: only the first is claimed",
        f"{FUNCTIONS}/public/claim_jobs.sql",
        "and (job.key is null or treadle.is_head_of_key(job.key, job.id))",
        "",
        test(
            "queue/keys",
            "test_a_delayed_head_blocks_its_key",
            "test_a_head_that_waits_for_its_retry_blocks_its_key",
            "test_a_job_retried_by_an_operator_runs_before_the_blocked_ones",
            "test_two_heads_from_two_open_transactions_do_not_run_at_once",
        ),
    ),
    Mutant(
        "jobs with the same key never run at once: the unique index",
        "src/treadle/sql/migrations/0001_baseline.sql",
        "create unique index idx_jobs_key_running",
        "create index idx_jobs_key_running",
        test("queue/keys", "test_two_jobs_of_a_key_cannot_run_at_once_even_after_a_plain_update"),
    ),
    Mutant(
        "a job with no earlier job to unblock it is not left blocked",
        f"{FUNCTIONS}/triggers/confirm_blocked.sql",
        "    if not v_locked then\n",
        "    if false then\n",
        test("queue/keys", "test_the_head_finishes_while_the_next_job_is_not_yet_committed"),
    ),
    Mutant(
        "a job with no earlier job to unblock it is not left blocked (checked by the model)",
        f"{FUNCTIONS}/triggers/confirm_blocked.sql",
        "    if not v_locked then\n",
        "    if false then\n",
        test("queue/model", "test_every_transition_matches_the_oracle"),
    ),
    Mutant(
        "serializable enqueuers read no other jobs of a key",
        f"{FUNCTIONS}/triggers/prepare_job.sql",
        "current_setting('transaction_isolation') <> 'serializable'",
        "true",
        test("queue/isolation", "test_serializable_enqueuers_do_not_abort_each_other"),
    ),
    Mutant(
        "jobs with a key that are enqueued in repeatable read are blocked",
        f"{FUNCTIONS}/triggers/prepare_job.sql",
        "current_setting('transaction_isolation') <> 'serializable'",
        "treadle.is_read_committed()",
        test("queue/keys", "test_jobs_enqueued_in_repeatable_read_are_blocked"),
    ),
    Mutant(
        "a job with a key that was enqueued in repeatable read is unblocked if the earlier one has changed",
        f"{FUNCTIONS}/triggers/confirm_blocked.sql",
        "exception when serialization_failure then",
        "exception when division_by_zero then",
        test("queue/keys", "test_a_job_enqueued_in_repeatable_read_is_unblocked_if_the_earlier_one_changes"),
    ),
    Mutant(
        "a blocked job that was claimed by hand unblocks the next",
        f"{FUNCTIONS}/triggers/change_job.sql",
        "+ 1;\n        new.holds := new.holds & ~treadle.blocked_by_key();\n",
        "+ 1;\n",
        test("queue/by_hand", "test_a_blocked_job_that_was_claimed_by_hand_unblocks_the_next"),
    ),
]
