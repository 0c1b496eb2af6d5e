"""Searches: what they may read, what they cost, and what they cover."""

from chaos.guards.mutant import FUNCTIONS, Mutant, test

MUTANTS = [
    Mutant(
        "a secret inside a value cannot be guessed",
        "src/treadle/text/payload_condition.py",
        "    if masked(value) != value:\n",
        "    if False:\n",
        test("text/payload_condition", "test_a_secret_cannot_be_guessed"),
    ),
    Mutant(
        "searches: viewers of the dashboard do not search payloads",
        "src/treadle/web/dashboard/searches.py",
        "find_jobs(job_filter, after, limit, payloads=payloads)",
        "find_jobs(job_filter, after, limit)",
        test("web/api", "test_viewers_cannot_search_in_payloads"),
    ),
    Mutant(
        "searches: masked values cannot be guessed by a payload condition",
        "src/treadle/text/payload_condition.py",
        "if masked({name: 0}) != {name: 0}:",
        "if False:",
        test("text/payload_condition", "test_a_secret_cannot_be_guessed"),
    ),
    *(
        Mutant(
            f"searches: all payload conditions must hold ({name})",
            f"{FUNCTIONS}/{name}.sql",
            "and (p_also is null or treadle.has_values(job.data, p_also))",
            "",
            test("db/searches", "test_all_conditions_must_hold"),
        )
        for name in ("public/find_jobs", "parts/find_claimable")
    ),
    Mutant(
        "searches: a time in the past is read along the index",
        f"{FUNCTIONS}/public/find_jobs.sql",
        "                      and (p_until is null or job.finished_at < p_until)\n",
        "                      and (p_until is null or job.finished_at + interval '0' < p_until)\n",
        test("db/searches", "test_a_time_in_the_past_is_reached_without_reading_what_is_newer"),
    ),
    Mutant(
        "searches: few digits identify a job only if all were examined",
        "src/treadle/operations/ids.py",
        "    if before is not None and len(digits) < SURE:\n",
        "    if False:\n",
        test("operations/ids", "test_few_digits_identify_a_job_only_if_all_were_examined"),
    ),
    Mutant(
        "searches: a bulk change by time needs a status",
        "src/treadle/operations/bulk.py",
        "        if job_filter.since is not None or job_filter.until is not None:\n",
        "        if False:\n",
        test("cli/searches", "test_a_bulk_change_takes_the_new_filters"),
    ),
    Mutant(
        "searches: few queries run at once",
        "src/treadle/web/dashboard/searches.py",
        "        async with self._turns:\n            return await database.aread(query)\n",
        "        return await database.aread(query)\n",
        test("web/search", "test_searches_take_turns"),
    ),
]
