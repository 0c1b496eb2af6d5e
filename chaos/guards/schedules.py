"""Schedules: each time is enqueued once, and versions of the code do not fight."""

from chaos.guards.mutant import FUNCTIONS, Mutant, test

MUTANTS = [
    Mutant(
        "a time is enqueued only by the first worker that tries",
        f"{FUNCTIONS}/public/enqueue_occurrences.sql",
        "          and known.next_at is not distinct from (v_due ->> 'expected')::timestamptz\n",
        "",
        test("queue/schedules", "test_a_time_is_enqueued_once"),
    ),
    Mutant(
        "a time that is due with others is enqueued only by the first worker that tries",
        f"{FUNCTIONS}/public/enqueue_occurrences.sql",
        "            where known.next_at = planned.expected\n",
        "            where true\n",
        test("queue/schedules", "test_whoever_expects_another_time_does_nothing"),
    ),
    Mutant(
        "whoever comes second does not wait for a schedule that is enqueued by itself",
        f"{FUNCTIONS}/public/enqueue_occurrences.sql",
        "        for update skip locked;\n",
        "        for update;\n",
        test("queue/schedules", "test_whoever_comes_second_does_nothing_and_does_not_wait"),
    ),
    Mutant(
        "whoever comes second does not wait",
        f"{FUNCTIONS}/public/enqueue_occurrences.sql",
        "            for update of known skip locked\n",
        "            for update of known\n",
        test("queue/schedules", "test_whoever_comes_second_does_nothing_and_does_not_wait"),
    ),
    Mutant(
        "a schedule whose jobs have further options is enqueued by itself",
        f"{FUNCTIONS}/public/enqueue_occurrences.sql",
        "              and known.options is null\n",
        "",
        test("queue/schedules", "test_the_jobs_of_a_schedule_may_be_unique_and_expire"),
    ),
    Mutant(
        "a time that was dealt with is not enqueued again",
        f"{FUNCTIONS}/parts/enqueue_schedule.sql",
        "              and known.scheduled_for = v_time\n",
        "              and false\n",
        test("queue/schedules", "test_no_time_is_enqueued_twice_even_if_the_schedule_forgets_it"),
    ),
    Mutant(
        "a schedule that fails holds up no other",
        f"{FUNCTIONS}/public/enqueue_occurrences.sql",
        "            exception when others then\n                v_error := sqlerrm;\n",
        "            exception when division_by_zero then\n                v_error := sqlerrm;\n",
        test("queue/schedules", "test_one_that_fails_holds_up_no_other_and_is_tried_again"),
    ),
    Mutant(
        "jobs of a schedule do not overlap if they must not",
        f"{FUNCTIONS}/parts/enqueue_schedule.sql",
        "        if p_schedule.overlap = 'skip' and exists (\n",
        "        if false and exists (\n",
        test("queue/schedules", "test_a_time_is_skipped_while_the_job_before_has_not_finished"),
    ),
    Mutant(
        "a paused schedule enqueues nothing",
        f"{FUNCTIONS}/public/enqueue_occurrences.sql",
        "          and known.paused_at is null\n",
        "",
        test("queue/schedules", "test_a_schedule_that_was_paused_goes_on_with_its_next_time"),
    ),
    Mutant(
        "an older version of the code does not replace a newer declaration",
        f"{FUNCTIONS}/public/declare_schedules.sql",
        "                v_declared.digest <> all (v_known.former_digests)\n",
        "                true\n",
        test("queue/schedules", "test_the_newer_of_two_versions_is_in_force_however_often_both_declare"),
    ),
    Mutant(
        "after a rollback the older version is in force again",
        f"{FUNCTIONS}/public/declare_schedules.sql",
        "                or v_known.declared_at < v_heard - interval '2 minutes'\n",
        "",
        test("queue/schedules", "test_after_a_rollback_the_older_version_is_in_force"),
    ),
    Mutant(
        "what nobody declares is retired",
        f"{FUNCTIONS}/public/declare_schedules.sql",
        "      and known.declared_at < v_heard - interval '10 minutes';\n",
        "      and false;\n",
        test("queue/schedules", "test_what_nobody_declares_is_retired_until_it_is_declared_again"),
    ),
    Mutant(
        "a look reads only what is due, however many schedules there are",
        f"{FUNCTIONS}/public/find_due_schedules.sql",
        "            order by known.next_at nulls first\n            limit 1\n",
        "            order by known.next_at\n            limit 1\n",
        test("queue/schedules", "test_a_look_costs_the_same_however_many_schedules_there_are"),
    ),
    Mutant(
        "a declaration is renewed without waiting",
        f"{FUNCTIONS}/public/declare_schedules.sql",
        "            for update of same skip locked\n",
        "            for update of same\n",
        test("queue/schedules", "test_what_is_just_being_enqueued_is_renewed_later"),
    ),
]
