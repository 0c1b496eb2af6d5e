"""Lanes, floors and ticks: no job is lost."""

from chaos.guards.mutant import FUNCTIONS, Mutant, test

MUTANTS = [
    Mutant(
        "a tick searches below the floors that an ended transaction may not have seen",
        f"{FUNCTIONS}/parts/safe_tick.sql",
        "least(v_last.next_xid, v_ended)",
        "v_last.next_xid",
        test("queue/contract_gaps", "test_a_job_is_found_however_long_its_transaction_was_open"),
    ),
    Mutant(
        "a floor with a lower id than a tick that did not see it does not count as seen",
        f"{FUNCTIONS}/parts/safe_floor.sql",
        "seen.xid < p_safe.next_xid",
        "seen.xid < p_safe.xid",
        test("queue/races", "test_a_floor_with_a_lower_id_than_a_tick_that_did_not_see_it_does_not_count_as_seen"),
    ),
    Mutant(
        "a floor of a tick that was not committed yet does not count as seen",
        f"{FUNCTIONS}/parts/safe_floor.sql",
        "              and seen.xid <> all (p_safe.running)\n",
        "",
        test("queue/races", "test_a_job_placed_before_two_overlapping_ticks_were_committed_is_found"),
    ),
    Mutant(
        "a job that is committed after its lane became idle is found",
        f"{FUNCTIONS}/public/tick.sql",
        "        where lane.idle_xid >= v_safe.next_xid\n           or lane.idle_xid = any (v_safe.running)\n",
        "        where false\n",
        test("queue/races", "test_a_job_whose_lane_became_idle_before_its_commit_is_found"),
    ),
    Mutant(
        "a job that is committed after a claim made its lane idle is found",
        f"{FUNCTIONS}/public/tick.sql",
        "        where lane.idle_xid >= v_safe.next_xid\n           or lane.idle_xid = any (v_safe.running)\n",
        "        where false\n",
        test("queue/races", "test_a_job_whose_lane_a_claim_made_idle_is_found"),
    ),
    Mutant(
        "a claim does not make a lane idle that has a job, even if it is locked",
        f"{FUNCTIONS}/parts/make_idle.sql",
        "          and coalesce(head.run_at > p_now + c_idle, true)\n",
        "",
        test("queue/lane_cost", "test_a_claim_makes_only_lanes_idle_that_have_had_no_due_jobs_for_some_time"),
    ),
    Mutant(
        "a job that no trigger has placed is found",
        f"{FUNCTIONS}/public/tick.sql",
        "    where v_now >= v_last.sweep_after is not false;",
        "    where false;",
        test("queue/races", "test_a_job_that_was_added_without_triggers_is_found"),
    ),
    Mutant(
        "a job that becomes pending again is not below the floor",
        f"{FUNCTIONS}/triggers/change_job.sql",
        "new.run_at := greatest(new.run_at, case when v_floor <= v_now then v_floor end);",
        "",
        test("queue/contract", "test_a_job_made_pending_by_a_plain_update_is_claimed"),
    ),
    Mutant(
        "the events of a restored dump are not hidden",
        f"{FUNCTIONS}/parts/forget_other_server.sql",
        "    set transaction = '0'\n",
        "    set transaction = event.transaction\n",
        test("attempt/events", "test_the_events_of_a_restored_dump_are_read_from_the_beginning"),
    ),
    Mutant(
        "jobs that are dated back below the floor keep their order",
        f"{FUNCTIONS}/triggers/register_lanes.sql",
        "row_number() over (order by inserted.run_at, inserted.id) - 1",
        "0",
        test("queue/by_hand", "test_jobs_dated_back_below_the_floor_keep_their_order"),
    ),
    Mutant(
        "the lane of a single job is listed",
        f"{FUNCTIONS}/triggers/register_lanes.sql",
        "        entry.is_listed\n            and first.run_at",
        "        first.run_at",
        test("queue/claim_order", "test_jobs_of_several_queues_are_claimed_in_order"),
    ),
    Mutant(
        "a single job that is dated back is placed above the floor",
        f"{FUNCTIONS}/triggers/register_lanes.sql",
        "            and first.run_at >= clock_timestamp() - c_behind\n",
        "",
        test("queue/by_hand", "test_one_job_dated_back_below_the_floor_is_claimed"),
    ),
    Mutant(
        "the lanes of all jobs of a statement are listed",
        f"{FUNCTIONS}/triggers/register_lanes.sql",
        "            and not exists (select from new_jobs offset 1)\n",
        "",
        test("queue/by_hand", "test_jobs_of_new_types_are_found_when_inserted_with_one_of_a_known_type"),
    ),
    Mutant(
        "a single job that is inserted by hand is limited",
        f"{FUNCTIONS}/triggers/register_lanes.sql",
        "            and not exists (select from treadle.limit_targets)\n",
        "",
        test("queue/limits", "test_jobs_inserted_by_hand_one_by_one_are_limited"),
    ),
]
