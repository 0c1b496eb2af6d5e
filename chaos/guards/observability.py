"""Middleware, headers, logs and metrics."""

from chaos.guards.mutant import FUNCTIONS, Mutant, test

METRICS = "operations/metrics"

MUTANTS = [
    Mutant(
        "headers are limited in size",
        "src/treadle/words/headers.py",
        "    if (size := len(text.encode())) > HEADERS_LIMIT:\n",
        "    if (size := len(text.encode())) > 10**9:\n",
        test("app/headers", "test_headers_that_cannot_be_stored_are_refused"),
    ),
    Mutant(
        "headers that others wrote do not break a job",
        "src/treadle/words/headers.py",
        "    return {name: value for name, value in pairs if isinstance(value, str)}\n",
        "    return dict(pairs)\n",
        test("app/headers", "test_a_job_whose_headers_were_written_by_other_means_runs"),
    ),
    Mutant(
        "viewers of the dashboard do not see headers",
        "src/treadle/web/dashboard/redaction.py",
        "checkpoint=None, headers=None)",
        "checkpoint=None)",
        test("web/api", "test_viewers_do_not_see_payloads"),
    ),
    Mutant(
        "a generator middleware runs in child processes",
        "src/treadle/worker/child.py",
        "        return returned(function, attempt, middlewares.call(job_of(attempt), handler))\n",
        "        return returned(function, attempt, handler())\n",
        test("worker/middleware", "test_a_generator_middleware_runs_where_the_handler_does"),
    ),
    Mutant(
        "an exception with a secret is not given to log handlers",
        "src/treadle/worker/outcomes.py",
        "    exception = error if trace == raw else None\n",
        "    exception = error\n",
        test("worker/logging", "test_an_exception_with_a_secret_is_logged_as_masked_text_only"),
    ),
    Mutant(
        "counters outlive the minutes that they were counted in",
        f"{FUNCTIONS}/public/count_minutes.sql",
        "        set completed = total.completed + excluded.completed,\n            failed = total.failed",
        "        set completed = excluded.completed,\n            failed = total.failed",
        test(METRICS, "test_counters_go_on_over_minutes_and_pruned_jobs"),
    ),
    Mutant(
        "metrics are read once in some seconds",
        "src/treadle/operations/metrics.py",
        "            if time.monotonic() - self._read_at >= CACHE_SECONDS:\n",
        "            if True:\n",
        test(METRICS, "test_the_page_says_that_the_database_is_down_and_is_read_once_in_some_seconds"),
    ),
    Mutant(
        "only so many types have metrics",
        "src/treadle/sql/queries/find_totals.sql",
        "limit %(limit)s\n",
        "limit %(limit)s + 1000\n",
        test(METRICS, "test_many_types_are_limited"),
    ),
]
