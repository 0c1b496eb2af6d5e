"""The end of a job, and its removal."""

from chaos.guards.mutant import FUNCTIONS, Mutant, test

PRUNE = f"{FUNCTIONS}/public/prune_jobs.sql"
PRUNING = "queue/pruning"
ENDED = "queue/job_ended"

MUTANTS = [
    Mutant(
        "what a worker has done that was lost long ago is seldom read",
        f"{FUNCTIONS}/public/clock_and_losses.sql",
        "            and known.lost_for - known.period * floor(known.lost_for / known.period) < known.seconds\n",
        "",
        test("worker/recovery", "test_what_a_lost_worker_has_done_is_not_read_all_the_time"),
    ),
    Mutant(
        "what is decided at commit leaves nothing to read",
        f"{FUNCTIONS}/parts/decide_check.sql",
        "        where v_left <> '{}';\n",
        "        ;\n",
        test("queue/dependency_cost", "test_what_is_decided_at_commit_leaves_nothing_to_read"),
    ),
    Mutant(
        "a claim and a completion call no trigger for the job",
        f"{FUNCTIONS}/triggers/change_job.sql",
        "        or new.finished_at is null\n",
        "        or true\n",
        test(ENDED, "test_a_claim_and_a_completion_call_no_trigger_for_the_job"),
    ),
    Mutant(
        "only a job that has ended has finished_at",
        "src/treadle/sql/migrations/0001_baseline.sql",
        "            else status = any ('{completed,failed,cancelled}'::text[])\n",
        "            else true\n",
        test(ENDED, "test_only_a_job_that_has_ended_has_finished_at"),
    ),
    Mutant(
        "the partition of a job that has a lane cannot be changed to something else than an object",
        f"{FUNCTIONS}/triggers/check_identity.sql",
        "    if new.partition <> '' and",
        "    if false and",
        test(ENDED, "test_a_partition_is_an_object"),
    ),
    Mutant(
        "a job with another partition than an object is not inserted",
        "src/treadle/sql/migrations/0001_baseline.sql",
        "check (partition = '' or jsonb_typeof(partition::jsonb) = 'object')",
        "check (true)",
        test(ENDED, "test_a_partition_is_an_object"),
    ),
    Mutant(
        "pruning goes on where it stopped",
        PRUNE,
        "        v_after := coalesce(v_after, '-infinity');\n",
        "        v_after := '-infinity';\n",
        test(PRUNING, "test_pruning_does_not_read_what_an_open_snapshot_keeps"),
    ),
    Mutant(
        "pruning finds what is left below the place where it stopped",
        PRUNE,
        "    if v_below <> '{}' then\n",
        "    if false then\n",
        test(PRUNING, "test_what_finished_below_the_place_is_pruned or test_a_locked_job_is_pruned_later"),
    ),
    Mutant(
        "each part of the table is read within a day",
        PRUNE,
        "floor(extract(epoch from clock_timestamp()) / 60)::bigint",
        "0",
        test(PRUNING, "test_each_part_of_the_table_is_read_within_a_day"),
    ),
    Mutant(
        "a place ahead of the clock is not used",
        PRUNE,
        "          and known.reached <= clock_timestamp()\n",
        "",
        test(PRUNING, "test_a_place_ahead_of_the_clock_is_not_used"),
    ),
    Mutant(
        "one worker prunes at a time",
        PRUNE,
        "        if not pg_try_advisory_xact_lock(",
        "        if not true and not pg_try_advisory_xact_lock(",
        test(PRUNING, "test_one_at_a_time"),
    ),
    Mutant(
        "a workflow with more jobs than a call deletes is not passed over",
        PRUNE,
        "        if v_parts >= p_limit then\n",
        "        if false then\n",
        test(PRUNING, "test_a_workflow_with_more_jobs_than_a_call_deletes_goes_on"),
    ),
    Mutant(
        "the worker id fences the completion of a single job",
        f"{FUNCTIONS}/public/complete_job.sql",
        "      and (p_worker_id is null or job.worker_id = p_worker_id);\n",
        "      ;\n",
        test("worker/fencing", "test_a_job_that_is_no_longer_claimed_is_not_written"),
    ),
]
