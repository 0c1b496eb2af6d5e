"""Jumps of the server's clock."""

from chaos.guards.mutant import FUNCTIONS, WORKER, Mutant, test

MUTANTS = [
    Mutant(
        "after the clock was set back, no floor is valid",
        f"{FUNCTIONS}/public/tick.sql",
        "        perform treadle.reset_floors(v_last.ticked_at, v_now);\n",
        "",
        test(
            "queue/server_clock",
            "test_floors_of_lanes_that_the_tick_does_not_examine_are_removed_when_the_clock_is_set_back",
        ),
    ),
    Mutant(
        "a search that cannot tick trusts no floor after the clock was set back",
        f"{FUNCTIONS}/parts/safe_tick.sql",
        "      and v_last.ticked_at <= clock_timestamp()\n",
        "",
        test(
            "queue/server_clock", "test_a_claim_in_a_transaction_that_cannot_tick_finds_jobs_below_floors_of_the_future"
        ),
    ),
    Mutant(
        "a tick lowers a floor that is ahead of the clock",
        f"{FUNCTIONS}/public/tick.sql",
        "                when state.floor > v_now then v_now - c_margin\n",
        "",
        test("queue/server_clock", "test_a_floor_that_a_slow_claim_writes_after_the_clock_was_set_back_is_lowered"),
    ),
    Mutant(
        "jobs that were due before the clock was set back are moved",
        f"{FUNCTIONS}/public/tick.sql",
        "    if v_last.set_back_from > v_now and",
        "    if false and",
        test("queue/server_clock", "test_a_job_from_before_a_jump_is_claimed_at_once"),
    ),
    Mutant(
        "jobs that are committed late by the clock of before are moved",
        f"{FUNCTIONS}/public/tick.sql",
        "(v_set_back or v_safe.xid < v_last.set_back_until)",
        "v_set_back",
        test(
            "queue/server_clock",
            "test_a_transaction_that_was_open_when_the_clock_was_set_back_enqueues_no_late_job",
        ),
    ),
    Mutant(
        "jobs with a time of their own are not moved",
        f"{FUNCTIONS}/parts/move_due_jobs.sql",
        "                        age(job.xmin) > age(p_seen::xid)\n",
        "                        true\n",
        test("queue/server_clock", "test_jobs_with_a_time_of_their_own_obey_the_new_clock"),
    ),
    Mutant(
        "a new job is not placed at a floor that is ahead of the clock",
        f"{FUNCTIONS}/triggers/register_lanes.sql",
        " and bound.floor <= clock_timestamp()",
        "",
        test("queue/server_clock", "test_a_job_enqueued_after_a_jump_is_claimed_at_once"),
    ),
    Mutant(
        "a job that comes back after the clock was set back is due",
        f"{FUNCTIONS}/triggers/change_job.sql",
        "            old.status in ('claimed', 'running')\n            or new.created_at",
        "            new.created_at",
        test("queue/server_clock", "test_a_job_that_is_given_back_after_the_clock_was_set_back_is_due"),
    ),
    Mutant(
        "a new job with a key has a higher id than the earlier ones",
        f"{FUNCTIONS}/triggers/prepare_job.sql",
        "    if v_newest > new.id then\n",
        "    if false then\n",
        test("queue/server_clock", "test_jobs_with_a_key_keep_their_order"),
    ),
    Mutant(
        "an id that was given with a job is not changed",
        f"{FUNCTIONS}/parts/id_after.sql",
        "        or abs(extract(epoch from clock_timestamp() - v_made)) > extract(epoch from c_made)\n",
        "",
        test("queue/server_clock", "test_an_id_that_is_given_with_a_job_is_not_changed"),
    ),
    Mutant(
        "the lease of a dead worker runs out although the clock was set back",
        f"{FUNCTIONS}/public/recover_lost_workers.sql",
        "            where ahead.seen_at > p_now + interval '1 second'\n",
        "            where false\n",
        test(
            "queue/server_clock",
            "test_a_dead_worker_keeps_its_jobs_no_longer_than_its_lease_when_the_clock_is_set_back",
        ),
    ),
    Mutant(
        "a noted jump ahead does not count towards leases",
        f"{FUNCTIONS}/parts/clock_before.sql",
        "        v_at := v_jump.before;\n",
        "        v_at := v_jump.after;\n",
        test("queue/server_clock", "test_a_worker_keeps_its_jobs_when_a_jump_ahead_was_noted"),
    ),
    Mutant(
        "a noted jump ahead does not count towards the age of finished jobs",
        f"{FUNCTIONS}/public/prune_jobs.sql",
        "treadle.clock_before(p_age, clock_timestamp())",
        "clock_timestamp() - p_age",
        test("queue/server_clock", "test_jobs_are_not_pruned_too_early_when_a_jump_ahead_was_noted"),
    ),
    Mutant(
        "signs of life from before the clock was set back do not count",
        f"{FUNCTIONS}/public/recover_stale_jobs.sql",
        " filter (where sign.at <= p_now)",
        "",
        test(
            "queue/server_clock",
            "test_a_client_without_heartbeats_keeps_its_jobs_no_longer_when_the_clock_is_set_back",
        ),
    ),
    Mutant(
        "workers are lost only if the clock was even (checked by a test)",
        f"{FUNCTIONS}/public/recover_lost_workers.sql",
        "          and coalesce(p_watched >= worker.lease / 2 or worker.asleep_at is not null, true)\n",
        "",
        test("queue/server_clock", "test_a_worker_is_lost_only_if_the_clock_was_even_for_half_of_its_lease"),
    ),
    Mutant(
        "workers are lost only if the clock was even (checked by a storm)",
        f"{FUNCTIONS}/public/recover_lost_workers.sql",
        "          and coalesce(p_watched >= worker.lease / 2 or worker.asleep_at is not null, true)\n",
        "",
        "storm server-clock",
    ),
    Mutant(
        "a renewal notes that the clock was set back",
        f"{FUNCTIONS}/public/renew_workers.sql",
        "        perform treadle.note_clock_jump(v_seen, clock_timestamp());\n",
        "        null;\n",
        test("queue/server_clock", "test_a_renewal_notes_that_the_clock_was_set_back"),
    ),
    Mutant(
        "a jump that only others have noticed restarts the watch",
        f"{WORKER}/server_clock.py",
        "elif server.jumps != self._last.server.jumps:",
        "elif False:",
        test("worker/server_clock", "test_a_jump_that_only_others_have_noticed_restarts_the_watch"),
    ),
    Mutant(
        "a worker that notices a jump does not take others for lost",
        f"{WORKER}/server_clock.py",
        "elif abs(jumped := jump(self._last, this)) > SMALLEST_JUMP:",
        "elif abs(jumped := jump(self._last, this)) > SMALLEST_JUMP * 10**6:",
        test("worker/server_clock", "test_after_a_jump_jobs_start_at_once_and_none_runs_twice"),
    ),
]
