"""Changes on the dashboard, the verdict of the overview, and what the doctor finds."""

from chaos.guards.mutant import FUNCTIONS, Mutant, test

QUERIES = "src/treadle/sql/queries"
DOCTOR = "src/treadle/doctor"

MUTANTS = [
    Mutant(
        "a form is carried out once",
        f"{FUNCTIONS}/public/operate.sql",
        "        if not v_begins and not p_continues then\n",
        "        if false then\n",
        test("web/audit", "test_a_form_is_carried_out_once"),
    ),
    Mutant(
        "two submissions at the same time are carried out once",
        f"{FUNCTIONS}/public/operate.sql",
        "pg_try_advisory_xact_lock(hashtext('treadle act'), hashtext(p_act::text))",
        "true",
        test("web/audit", "test_two_submissions_at_the_same_time_are_carried_out_once"),
    ),
    Mutant(
        "an act has one beginning, also with an older snapshot",
        "src/treadle/sql/migrations/0021_dashboard.sql",
        "create unique index idx_audit_acts",
        "create index idx_audit_acts",
        test("web/audit", "test_an_older_snapshot_cannot_carry_it_out_again"),
    ),
    Mutant(
        "to delete all matching jobs their number must be typed",
        "src/treadle/web/dashboard/pages/forms.py",
        "            _check_number(context, action)\n",
        "",
        test("web/changes", "test_to_delete_all_matching_jobs_their_number_must_be_typed"),
    ),
    Mutant(
        "what came after a form was opened is not changed",
        "src/treadle/web/dashboard/templates/bulk.html",
        '<input type="hidden" name="counted_at" value="{{ confirmed.at }}">',
        "",
        test("web/changes", "test_jobs_that_came_after_the_form_was_opened_are_not_changed"),
    ),
    Mutant(
        "a confirmed change begins when the jobs were counted",
        "src/treadle/operations/bulk.py",
        "confirmed.at if confirmed.at is not None else (yield listing_queries.get_clock())",
        "(yield listing_queries.get_clock())",
        test("operations/bulk_changes", "test_what_came_after_somebody_looked_is_not_changed"),
    ),
    Mutant(
        "no more jobs are changed than were confirmed",
        "src/treadle/operations/bulk.py",
        "    ids = ids[: place.left]\n",
        "",
        test("operations/bulk_changes", "test_no_more_jobs_are_changed_than_somebody_confirmed"),
    ),
    Mutant(
        "no worker running is critical even if nothing is due",
        "src/treadle/operations/verdict.py",
        "        if last := last_worker(facts.workers):\n",
        "        if False:\n",
        test("operations/verdict", "test_a_verdict_is_a_sentence_with_a_link"),
    ),
    Mutant(
        "a right secret works while others guess from its address",
        "src/treadle/web/dashboard/security/role_secrets.py",
        "        if role is Role.NOBODY:\n",
        "        if True:\n",
        test("web/security", "test_guesses_are_limited_per_address"),
    ),
    Mutant(
        "a locked table does not make every check time out",
        f"{DOCTOR}/examine.py",
        "    if is_blocked:\n",
        "    if False:\n",
        test("doctor/blocked_tables", "test_a_locked_table_is_one_critical_finding_that_names_the_session"),
    ),
    Mutant(
        "a lock of a moment is no finding",
        f"{DOCTOR}/examine.py",
        "each._replace(confirmed=each.id in known)",
        "each._replace(confirmed=True)",
        test("doctor/blocked_tables", "test_a_lock_that_is_taken_in_between_is_ok"),
    ),
    Mutant(
        "the verdict does not wait for a locked table",
        "src/treadle/operations/verdict.py",
        "        if any(each.stops_reading for each in blockers):\n",
        "        if False:\n",
        test("operations/verdict", "test_a_locked_table_is_critical_and_takes_no_time"),
    ),
    Mutant(
        "the verdict does not wait for a server that does not answer",
        "src/treadle/operations/verdict.py",
        "asyncio.wait({task}, timeout=SECONDS)",
        "asyncio.wait({task}, timeout=60)",
        test("operations/verdict", "test_a_server_that_does_not_answer_is_noticed_in_time"),
    ),
    Mutant(
        "a type that always fails a bit is no finding",
        f"{DOCTOR}/rules/failures.py",
        "doubled and rise >= max(LEAST_RISE, DEVIATIONS * deviation)",
        "rate.share > 0.05",
        test("doctor/failure_rates", "test_only_a_clear_rise_is_reported"),
    ),
    Mutant(
        "a long queue is not unclaimed",
        f"{DOCTOR}/rules/unclaimed.py",
        "        and (each.queue, each.job_type) not in active\n",
        "",
        test("doctor/unclaimed_jobs", "test_a_job_is_not_unclaimed_after"),
    ),
    Mutant(
        "a job that an open transaction has locked is not hidden",
        f"{QUERIES}/find_hidden_jobs.sql",
        "select coalesce(array_agg(lock.transactionid), '{}') as xids",
        "select '{}'::xid[] as xids",
        test("doctor/unclaimed_jobs", "test_a_job_that_was_locked_when_the_floor_was_raised_is_not_hidden"),
    ),
    Mutant(
        "NUL characters are refused by every address",
        "src/treadle/web/dashboard/routes.py",
        "        _check_address(request)\n",
        "",
        test("web/bad_input", "test_a_nul_character_is_refused_by_every_address"),
    ),
    Mutant(
        "an invalid filter is refused before a stream begins",
        "src/treadle/web/dashboard/pages/jobs.py",
        "        search_query(role, job_filter, None, PAGE_SIZE)",
        "        pass",
        test("web/bad_input", "test_live_updates_refuse_what_the_page_refuses"),
    ),
    Mutant(
        "a page of an unknown name says so",
        "src/treadle/operations/known_names.py",
        "    raise UnknownName(",
        "    UnknownName(",
        test("web/places", "test_a_page_of_an_unknown_name_says_so"),
    ),
    Mutant(
        "a read that failed is not kept",
        "src/treadle/web/dashboard/pages/live/readings.py",
        " or task.cancelled() or task.exception())",
        ")",
        test("web/live", "test_a_read_that_failed_is_not_kept"),
    ),
]
