"""Workers whose event loop does not run."""

from chaos.guards.mutant import FUNCTIONS, WORKER, Mutant, test

PULSE, SHOWN = "worker/pulse", "web/workers"

MUTANTS = [
    Mutant(
        "while the event loop is blocked, jobs that do not begin are no news",
        f"{WORKER}/keeper.py",
        "            self._claims = ClaimWatch(self.worker_id, self.slots)\n            return False\n",
        "            pass\n",
        test("worker/unbegun", "test_while_the_event_loop_does_not_run_that_is_the_reason"),
    ),
    Mutant(
        "a job whose child process starts too slowly uses no attempt",
        f"{WORKER}/children.py",
        "return Outcome(Ending.RELEASED, delay=START_DELAY)",
        "return Outcome(Ending.RETRY, delay=START_DELAY)",
        test(
            "worker/child_starts", "test_a_process_that_takes_too_long_to_start_is_killed_and_its_job_uses_no_attempt"
        ),
    ),
    Mutant(
        "after a slow start, the next process gets more time",
        f"{WORKER}/children.py",
        "self._times = min(2 * self._times, MOST_TIMES)",
        "pass",
        test(
            "worker/child_starts", "test_a_process_that_takes_too_long_to_start_is_killed_and_its_job_uses_no_attempt"
        ),
    ),
    Mutant(
        "a child process that starts slowly is noticed",
        f"{WORKER}/pulse.py",
        "entry.state is State.STARTING and moment - entry.started >= STARTING_SECONDS",
        "False",
        test("worker/pulse", "test_a_child_process_that_starts_slowly_is_noticed_until_it_has_started"),
    ),
    Mutant(
        "a job that was claimed ahead, behind long ones, is no sign that its worker is stuck",
        f"{FUNCTIONS}/public/find_unbegun.sql",
        "            else p_here < coalesce(changed.concurrency, worker.concurrency)\n",
        "            else true\n",
        test("worker/unbegun", "test_a_job_that_waits_for_others_is_not"),
    ),
    Mutant(
        "a job that waits for a child process is no sign that its worker is stuck",
        f"{WORKER}/executor.py",
        "self._slots.add(running.claim.id, running.claim.lease, 0.0, state=State.STARTING)",
        "0",
        test("worker/child_starts", "test_a_job_whose_process_starts_is_noted"),
    ),
    Mutant(
        "a job that is claimed and does not begin is noticed",
        f"{WORKER}/unbegun.py",
        "elif self._suspected == oldest.id and",
        "elif False and",
        test("worker/unbegun", "test_a_worker_that_loses_a_claim_is_noticed_until_it_begins_the_job"),
    ),
    Mutant(
        "a worker whose event loops are stuck is not ready",
        "src/treadle/worker/supervisor.py",
        "        if stuck > STUCK_SECONDS:\n",
        "        if False:\n",
        test("worker/health", "test_a_worker_is_ready_while_it_renews_its_lease"),
    ),
    Mutant(
        "time in which the supervisor could not look does not make a worker stuck",
        f"{WORKER}/pulse.py",
        "self.seconds += min(passed, self._longest)",
        "self.seconds += passed",
        test(PULSE, "test_time_in_which_nobody_could_look_does_not_count"),
    ),
    Mutant(
        "a worker without a processor is not stuck",
        f"{WORKER}/pulse.py",
        "return waited >= WAITED * (seconds - USUAL_SECONDS) and ran < RAN_SECONDS",
        "return False",
        test(PULSE, "test_a_worker_without_a_processor_is_not_stuck"),
    ),
    Mutant(
        "a busy worker that does not answer is stuck, even if it waits for a processor most of the time",
        f"{WORKER}/pulse.py",
        "return waited >= WAITED * (seconds - USUAL_SECONDS) and ran < RAN_SECONDS",
        "return waited >= WAITED * (seconds - USUAL_SECONDS)",
        test(PULSE, "test_a_worker_without_a_processor_is_not_stuck"),
    ),
    Mutant(
        "the stack of an earlier silence is not shown for a later one",
        f"{WORKER}/pulse.py",
        "if seconds == 0 and self._slots.has_stack:  # of a silence that has ended",
        "if False:",
        test(PULSE, "test_the_stack_of_a_silence_that_has_ended_is_forgotten"),
    ),
    Mutant(
        "a worker that has ended is not stuck",
        f"{WORKER}/pulse.py",
        "seconds = self._silence.look(pulse, moment) if pulse else 0.0",
        "seconds = self._silence.look(pulse, moment)",
        test(PULSE, "test_a_worker_is_stuck_after_two_seconds_without_a_pulse_until_the_next"),
    ),
    Mutant(
        "a process that was continued has time to give a sign",
        f"{WORKER}/pulse.py",
        "if moment - self._continued > STUCK_SECONDS:",
        "if True:",
        test(PULSE, "test_a_stopped_process_that_goes_on_has_time_to_give_a_sign"),
    ),
    Mutant(
        "a report that failed is not sent again and again",
        f"{WORKER}/keeper.py",
        "await within(self._changed.wait(), every - (now() - began))",
        "await within(self._changed.wait(), 0.1 if any(each.unreported for each in workers) else every)",
        test(PULSE, "test_no_statement_is_added_while_the_event_loop_runs"),
    ),
    Mutant(
        "a report that failed is not forgotten",
        f"{WORKER}/keeper.py",
        "                    worker.unreported.add(statement)\n",
        "                    pass\n",
        test(PULSE, "test_no_statement_is_added_while_the_event_loop_runs"),
    ),
    Mutant(
        "a report of stopped children that failed is not forgotten",
        f"{WORKER}/keeper.py",
        "                    worker.unreported.add(statement)\n",
        "                    pass\n",
        test(PULSE, "test_a_report_of_stopped_children_that_failed_is_sent_again"),
    ),
    Mutant(
        "no secret is in the stack that a worker writes",
        f"{WORKER}/watchdog.py",
        "redacted(stacks.write(sys._current_frames(), thread, job))",
        "stacks.write(sys._current_frames(), thread, job)",
        test(PULSE, "test_a_worker_in_a_program_is_watched_by_its_keeper"),
    ),
    Mutant(
        "a worker that starts again is not stuck",
        f"{FUNCTIONS}/public/register_worker.sql",
        "        stuck_since = null,\n",
        "",
        test(SHOWN, "test_the_stack_of_a_stuck_worker_is_masked"),
    ),
    Mutant(
        "time in which the supervisor could not look does not make a child process stopped",
        f"{WORKER}/pulse.py",
        "min(passed, 2 * CHILDREN_SECONDS)",
        "passed",
        test(PULSE, "test_a_child_process_is_reported_after_three_seconds_in_which_it_was_seen_stopped"),
    ),
    Mutant(
        "a child process that goes on with another job was not stopped with it",
        f"{WORKER}/pulse.py",
        "known = {(each.process, each.job): each for each in self._seconds}",
        "known = {(each.process, entry.id): each for each in self._seconds for entry in self._slots.entries()}",
        test(PULSE, "test_a_child_process_is_reported_after_three_seconds_in_which_it_was_seen_stopped"),
    ),
    Mutant(
        "prefetched jobs take no slots",
        "src/treadle/db/queries/overview.py",
        "min(worker.holds - in_children, worker.concurrency)",
        "(worker.holds - in_children)",
        test(SHOWN, "test_prefetched_jobs_take_no_slots"),
    ),
    Mutant(
        "a lost worker is shown while it has jobs",
        "src/treadle/sql/queries/find_recent_workers.sql",
        "   or worker.lease is not null and claimed.jobs > 0\n",
        "",
        test(SHOWN, "test_lost_workers_are_shown_for_a_day_with_what_became_of_their_jobs"),
    ),
    Mutant(
        "a stuck worker has no free slots",
        "src/treadle/why/facts.py",
        "return self.serves and self.slots != 0 and self.stuck is None",
        "return self.serves and self.slots != 0",
        test("why/rules", "test_only_workers_that_are_not_stuck_have_free_slots"),
    ),
]
