"""A server that answers and cannot write."""

from chaos.guards.mutant import WORKER, Mutant, test

REFUSALS = "worker/refusals"
NAMED = "test_a_session_says_in_its_name_that_a_write_was_refused_until_writes_succeed"

MUTANTS = [
    Mutant(
        "a write that was refused is shown in the name of the session",
        "src/treadle/db/reconnecting.py",
        "            await arun(self._connection, refusals.show(refusal, self._name), self._schema)\n",
        "",
        test(REFUSALS, NAMED),
    ),
    Mutant(
        "when writes succeed again, the session gets its usual name",
        "src/treadle/db/reconnecting.py",
        "            await arun(self._connection, refusals.take_back(self._name), self._schema)\n",
        "",
        test(REFUSALS, NAMED),
    ),
    Mutant(
        "a refused write of some time ago is over",
        "src/treadle/sql/queries/find_refusal.sql",
        "  and said.at > extract(epoch from clock_timestamp()) - 10 -- SECONDS in words/refusal.py\n",
        "",
        test(REFUSALS, "test_what_was_refused_some_time_ago_is_over"),
    ),
    Mutant(
        "only a role that may change jobs can say that writes are refused",
        "src/treadle/sql/queries/find_refusal.sql",
        "      and has_table_privilege(activity.usesysid, to_regclass('treadle.jobs'), 'update')\n",
        "",
        test(REFUSALS, "test_a_viewer_sees_it_and_only_roles_that_change_jobs_can_say_it"),
    ),
    Mutant(
        "doctor: a full disk is reported instead of what follows from it",
        "src/treadle/doctor/examine.py",
        "if check not in (STALLED, UNCLAIMED, TICKS)",
        "",
        test(REFUSALS, "test_the_doctor_reports_it_instead_of_what_follows_from_it"),
    ),
    Mutant(
        "the page Health is examined anew when writes are refused",
        "src/treadle/doctor/examine.py",
        "return frozenset([refusal, *(",
        "return frozenset([*(",
        test(REFUSALS, "test_it_calls_for_a_new_examination"),
    ),
    Mutant(
        "the overview says that the server cannot write",
        "src/treadle/operations/verdict.py",
        "    _refused,\n    _blocked,\n",
        "    _blocked,\n",
        test(REFUSALS, "test_the_pages_the_commands_and_the_metrics_say_it"),
    ),
    Mutant(
        "why: a server that cannot write is the reason of a job that is claimed, too",
        "src/treadle/why/decide.py",
        "(refused(facts), claimed(facts))",
        "(claimed(facts),)",
        test(REFUSALS, "test_the_pages_the_commands_and_the_metrics_say_it"),
    ),
    Mutant(
        "while writes are refused, other statements that succeed do not end the outage",
        f"{WORKER}/worker.py",
        "elif self.slots.refusal is None and (seconds",
        "elif (seconds",
        test(REFUSALS, "test_a_worker_says_once_that_writes_are_refused_and_once_that_they_succeed"),
    ),
    Mutant(
        "a worker whose writes are refused is not ready",
        f"{WORKER}/supervisor.py",
        "and None not in refusals:",
        "and False:",
        test(REFUSALS, "test_nothing_is_lost_on_a_full_disk_and_a_worker_is_not_ready_meanwhile"),
    ),
]
