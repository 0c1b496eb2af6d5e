"""Middleware, headers, logs, metrics, probes, replaced processes and Django."""

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
    Mutant(
        "a child process whose event loop was ended runs no other job",
        "src/treadle/worker/child.py",
        "            if state.spoilt:\n",
        "            if False:\n",
        test("worker/children", "test_a_handler_that_exits_does_not_harm_the_next_one_in_its_process"),
    ),
    Mutant(
        "a log line that cannot be formatted is masked",
        "src/treadle/words/log_redaction.py",
        "            record.msg, record.args = redacted(str(record.msg)), redacted(record.args)\n",
        "            record.args = redacted(record.args)\n",
        test("worker/logging", "test_a_line_whose_arguments_do_not_fit_shows_no_secret"),
    ),
    Mutant(
        "a worker that drains looks again when a replaced process has ended",
        "src/treadle/worker/supervisor.py",
        "            if not left or code or self._stopping.is_set():\n",
        "            if True:\n",
        test("worker/recycling", "test_a_worker_that_drains_also_runs_what_a_replaced_process_enqueues_at_last"),
    ),
    Mutant(
        "idle clients do not keep a probe out",
        "src/treadle/worker/health.py",
        "            next(iter(self._open)).transport.abort()\n",
        "            writer.transport.abort()\n",
        test("worker/health", "test_clients_that_keep_connections_open_do_not_keep_others_out"),
    ),
    Mutant(
        "a middleware cannot hide that nothing was enqueued",
        "src/treadle/app/middleware.py",
        "            raise error  # a middleware has caught it, but nothing was enqueued\n",
        "            pass\n",
        test("app/headers", "test_a_middleware_cannot_hide_that_nothing_was_enqueued"),
    ),
    Mutant(
        "a connection of Django that is left in a block is replaced",
        "src/treadle/contrib/django/connections.py",
        "                del connections[connection.alias]  # closed",
        "                pass  # closed",
        test("contrib/django/connections", "test_a_job_that_leaves_an_atomic_block_open_does_not_harm_the_next"),
    ),
    Mutant(
        "a test database is recognised by the word test",
        "src/treadle/testing/databases.py",
        "    if not {",
        '    if "test" not in name and not {',
        test("testing/databases", "test_a_database_whose_name_does_not_say_test_is_never_changed"),
    ),
]
