"""Limits: how many jobs run at once, or start per period."""

from chaos.guards.mutant import FUNCTIONS, Mutant, test

LOCK = f"{FUNCTIONS}/parts/lock_limits.sql"
ADMIT = f"{FUNCTIONS}/parts/admit_jobs.sql"
HOLD = f"{FUNCTIONS}/parts/hold_slots.sql"
PARK = f"{FUNCTIONS}/parts/park_lanes.sql"
CLOSE = f"{FUNCTIONS}/parts/close_limits.sql"
CLAIM_LANES = f"{FUNCTIONS}/parts/claim_lanes.sql"
HOLDS_SLOT = f"{FUNCTIONS}/parts/holds_slot.sql"

MUTANTS = [
    Mutant(
        "one claim at a time takes jobs under a limit",
        LOCK,
        "                for no key update skip locked\n",
        "",
        test("queue/limit_races", "test_two_claims_and_one_slot_of_several"),
    ),
    Mutant(
        "a claim does not wait for another one that uses the same limit",
        LOCK,
        "                for no key update skip locked\n",
        "                for no key update\n",
        test("queue/limit_races", "test_two_claims_and_one_slot_of_several"),
    ),
    Mutant(
        "a job that was claimed again uses its limit once",
        HOLDS_SLOT,
        "          and job.lease = p_lease\n",
        "",
        test("queue/limit_races", "test_a_job_that_was_claimed_again_counts_once"),
    ),
    Mutant(
        "a job that was given back does not use its limit",
        HOLDS_SLOT,
        "          and job.status <> 'pending'\n",
        "",
        test("queue/limits", "test_a_slot_comes_back_with_its_job"),
    ),
    Mutant(
        "a finished job does not use its limit",
        HOLDS_SLOT,
        "          and job.finished_at is null\n",
        "",
        test("queue/limits", "test_no_more_run_at_once_than_the_limit_allows"),
    ),
    Mutant(
        "a claim forgets the openings of a limit that it has seen, not later ones",
        LOCK,
        "          and known.opens_at <= p_now\n",
        "",
        test("queue/limit_races", "test_a_job_ends_while_its_limit_is_found_reached"),
    ),
    Mutant(
        "a claim that finds a limit reached looks once more",
        PARK,
        "        from parked\n        where not exists (\n",
        "        from parked\n        where false and not exists (\n",
        test("queue/limit_races", "test_a_job_ends_while_its_limit_is_found_reached"),
    ),
    Mutant(
        "claims look at lanes that were parked a moment ago",
        f"{FUNCTIONS}/parts/opened_limits.sql",
        "                limit c_parked\n",
        "                limit 0\n",
        test("queue/limit_races", "test_a_job_ends_while_its_lane_is_parked"),
    ),
    Mutant(
        "a rate of 0 starts nothing",
        LOCK,
        "when limited.amount = 0 or state.closed_until > p_now then 0",
        "when state.closed_until > p_now then 0",
        test("queue/limits", "test_a_paused_rate_starts_nothing"),
    ),
    Mutant(
        "the list of jobs that use a limit stays short",
        HOLD,
        "                and cardinality(holders.jobs) < 2 * holders.found + c_jobs as unneeded\n",
        "                as unneeded\n",
        test("queue/limits", "test_the_list_of_jobs_that_use_a_limit_stays_short"),
    ),
    Mutant(
        "opened lanes are searched if there are no others",
        f"{FUNCTIONS}/parts/claim_places.sql",
        "and (v_next.queues is null or v_opened.priorities[v_turn] >= v_next.level)",
        "and v_opened.priorities[v_turn] >= v_next.level",
        test("queue/limit_races", "test_opened_lanes_are_searched_if_there_are_no_others"),
    ),
    Mutant(
        "the end of a job opens its limits",
        f"{FUNCTIONS}/triggers/unblock_next.sql",
        "        perform treadle.note_openings(old.queue, old.job_type, old.partition);\n",
        "        null;\n",
        test("queue/limits", "test_a_lane_that_waits_is_parked_and_opened_again"),
    ),
    Mutant(
        "a claimed job is marked if it uses a limit",
        f"{FUNCTIONS}/parts/mark_claimed.sql",
        "keeps = job.keeps | p_keeps",
        "keeps = job.keeps",
        test("queue/limits", "test_a_lane_that_waits_is_parked_and_opened_again"),
    ),
    Mutant(
        "a change of a limit opens it",
        f"{FUNCTIONS}/public/set_limit.sql",
        "    perform treadle.reopen_limit(p_name);\n",
        "",
        test("queue/limit_races", "test_a_higher_limit_opens_at_once"),
    ),
    Mutant(
        "a heavy job needs its whole weight of a limit",
        ADMIT,
        "least(v_job.weight, case",
        "least(1, case",
        test("queue/limits", "test_weights"),
    ),
    Mutant(
        "a heavy job uses its whole weight of a limit",
        ADMIT,
        " - v_job.weight;",
        " - 1;",
        test("queue/limit_races", "test_heavy_jobs_of_one_claim_add_up"),
    ),
    Mutant(
        "nobody overtakes a job that does not fit into a limit",
        ADMIT,
        "        continue when v_job.lane = any (v_waiting);\n",
        "",
        test("queue/limits", "test_weights"),
    ),
    Mutant(
        "nor in another round of the claim, for a limit",
        CLAIM_LANES,
        "if cardinality(v_places) < cardinality(v_locked) then",
        "if false then",
        test("queue/limit_races", "test_nobody_overtakes_a_heavy_job"),
    ),
    Mutant(
        "nor in the next claim of the transaction, for a limit",
        CLAIM_LANES,
        "                is distinct from pg_current_xact_id_if_assigned()\n",
        "                is not null\n",
        test("queue/limit_races", "test_nobody_overtakes_a_heavy_job_in_the_next_claim_of_a_transaction"),
    ),
    Mutant(
        "a limit is counted exactly for a heavy job",
        ADMIT,
        "job.ctid = any (p_places) and job.weight > 1",
        "false",
        test("queue/limit_races", "test_a_heavy_job_fits_after_others_have_ended"),
    ),
    Mutant(
        "the burst of a limit per period",
        LOCK,
        "                        coalesce(rule.burst, limited.amount)\n",
        "                        limited.amount\n",
        test("queue/limits", "test_smooth_rate"),
    ),
    Mutant(
        "each start uses a limit per period",
        HOLD,
        "state.full_at + state.weight * state.each",
        "state.full_at",
        test("queue/limits", "test_rate"),
    ),
    Mutant(
        "a quiet time does not add to the burst of a limit",
        HOLD,
        "greatest(holders.full_at, p_now)",
        "coalesce(holders.full_at, p_now)",
        test("queue/limit_races", "test_a_quiet_time_does_not_add_to_the_burst"),
    ),
    Mutant(
        "a limit that was closed gives nothing",
        LOCK,
        "when limited.amount = 0 or state.closed_until > p_now then 0",
        "when limited.amount = 0 then 0",
        test("queue/limit_races", "test_a_limit_that_was_closed_gives_nothing"),
    ),
    Mutant(
        "a limit is closed after the claim that uses it",
        CLOSE,
        "        for no key update;\n",
        "        ;\n",
        test("queue/limit_races", "test_a_limit_is_closed_after_the_claim_that_uses_it"),
    ),
    Mutant(
        "workers close limits in one order",
        CLOSE,
        "        order by rule.name, rule.key\n",
        "        order by max(rule.until)\n",
        test("queue/limit_races", "test_two_workers_close_the_same_limits_in_another_order"),
    ),
    Mutant(
        "a lane is not parked for a limit that is only locked",
        LOCK,
        "case when used.nth = any (v_locked) then greatest(used.room, 0) else -1 end",
        "greatest(case when used.nth = any (v_locked) then used.room else -1 end, 0)",
        test("queue/limit_races", "test_a_limit_that_another_claim_has_locked_does_not_park"),
    ),
    Mutant(
        "a claim that leaves room in a limit opens a lane",
        HOLD,
        "            where used.room > 0\n          ));\n",
        "            where false\n          ));\n",
        test("queue/limit_races", "test_a_claim_that_leaves_room_leaves_the_lane_to_the_next"),
    ),
    Mutant(
        "a tick finds room in a limit that nobody noted",
        f"{FUNCTIONS}/parts/open_lanes.sql",
        "    if v_from is null then\n",
        "    if true then\n",
        test("queue/limit_races", "test_a_change_that_nobody_noted_is_found_by_a_tick"),
    ),
]
