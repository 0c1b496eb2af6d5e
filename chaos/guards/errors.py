"""Groups of failed attempts."""

from chaos.guards.mutant import FUNCTIONS, Mutant, test

GROUPS = "operations/error_groups"
CHANGES = "operations/error_group_changes"
COUNT = f"{FUNCTIONS}/parts/group_errors_between.sql"
PUBLIC = f"{FUNCTIONS}/public/group_errors.sql"

MUTANTS = [
    Mutant(
        "a failure is counted once, however often somebody looks",
        COUNT,
        """          and not exists (
                select
                from treadle.grouped_errors as known
                where known.job_id = error.job_id
                  and known.failed_at = error.failed_at
          )
    ),
    -- The same text""",
        """    ),
    -- The same text""",
        test("operations/error_group_cost", "test_a_second_look_passes_over_what_is_counted"),
    ),
    Mutant(
        "what is counted is what could be inserted",
        COUNT,
        """        from added
        join failed on failed.job_id = added.job_id and failed.at = added.failed_at
""",
        """        from failed
        join keys
          on keys.job_type = failed.job_type
         and keys.exception = failed.exception
         and keys.message = failed.message
        left join lateral (select failed.job_id, failed.at as failed_at, keys.group_id) as added on true
""",
        test(GROUPS, "test_two_at_once_count_nothing_twice_without_the_lock"),
    ),
    Mutant(
        "two workers that count failures do not wait for each other",
        PUBLIC,
        "not pg_try_advisory_xact_lock(hashtext('treadle group errors'), hashoid('treadle.error_meter'::regclass))",
        "false",
        test(GROUPS, "test_two_at_once_count_nothing_twice_and_do_not_wait"),
    ),
    Mutant(
        "a failure that is committed late is found by a second look",
        PUBLIC,
        "    if v_late < v_late_to then\n",
        "    if false then\n",
        test(GROUPS, "test_a_failure_that_is_committed_late_is_counted_once"),
    ),
    Mutant(
        "a flood of different messages does not fill the table of groups",
        COUNT,
        "        where ranked.nth <= p_most\n",
        "",
        test(GROUPS, "test_a_flood_of_distinct_messages_stays_bounded"),
    ),
    Mutant(
        "a flood of different exceptions does not fill the table of groups",
        COUNT,
        "case when ranked.nth <= 8 * p_most then ranked.exception else '' end",
        "ranked.exception",
        test(GROUPS, "test_a_flood_of_distinct_exceptions_stays_bounded"),
    ),
    Mutant(
        "a group keeps so many versions",
        COUNT,
        "      and old.nth > 20;\n",
        "      and old.nth > 2000;\n",
        test(GROUPS, "test_versions_are_counted_and_bounded"),
    ),
    Mutant(
        "normalising reads a bounded part of a message",
        f"{FUNCTIONS}/parts/normalise_error.sql",
        "left(p_error, c_read)",
        "p_error",
        test("operations/normalise_error", "test_the_cost_does_not_grow_with_the_text"),
    ),
    Mutant(
        "a job belongs to the group of its last failure only",
        f"{FUNCTIONS}/public/find_group_jobs.sql",
        "                  and later.failed_at > counted.failed_at\n",
        "                  and false\n",
        test(CHANGES, "test_a_job_belongs_to_the_group_of_its_last_failure"),
    ),
    Mutant(
        "a job of a group that fails again while the group is retried is not retried twice",
        "src/treadle/db/queries/error_groups.py",
        "        return cls(at, _LAST)\n",
        "        return cls(at + timedelta(days=1), _LAST)\n",
        test(CHANGES, "test_jobs_are_changed_in_chunks_and_one_that_fails_again"),
    ),
    Mutant(
        "a new version ends the muting of a group",
        COUNT,
        "before.muted_versions is not null and not changed.versions <@ before.muted_versions as unmuted",
        "false as unmuted",
        test(CHANGES, "test_a_group_is_muted_until_a_new_version_fails"),
    ),
    Mutant(
        "many workers do not write where failures were counted again and again",
        PUBLIC,
        "    elsif v_to <= v_meter.reached + p_pause then\n",
        "    elsif false then\n",
        test("operations/error_group_cost", "test_a_hundred_workers_cost_as_much_as_one"),
    ),
]
