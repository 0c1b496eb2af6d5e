"""The guards that chaos/mutants.py removes, and the test or storm that must fail without each of them."""

from dataclasses import dataclass

FUNCTIONS = "src/treadle/sql/functions"
WORKER = "src/treadle/worker"


@dataclass(frozen=True)
class Mutant:
    guard: str
    """What the removed code ensures."""
    file: str
    text: str
    """The exact text in the file. All occurrences are replaced."""
    replacement: str
    red: str
    """The test that must fail, or `storm NAME …`."""


def test(module: str, *names: str) -> str:
    """Name tests of a module: `worker/lease` means tests/worker/test_lease.py."""
    room, name = module.split("/")
    return f"tests/{room}/test_{name}.py" + (f" -k {' or '.join(names)}" if names else "")


MUTANTS = [
    Mutant(
        "the lease number fences completions in batches",
        f"{FUNCTIONS}/public/complete_jobs.sql",
        "      and job.lease = done.lease\n",
        "",
        test("queue/fencing", "test_a_batch_refuses_a_job_that_the_same_worker_has_claimed_again"),
    ),
    Mutant(
        "the worker id fences completions in batches",
        f"{FUNCTIONS}/public/complete_jobs.sql",
        "      and job.worker_id is not distinct from done.worker_id\n",
        "",
        test("worker/fencing", "test_a_job_that_is_no_longer_claimed_is_not_written"),
    ),
    Mutant(
        "the lease number fences a completion",
        f"{FUNCTIONS}/public/complete_job.sql",
        "      and (p_lease is null or job.lease = p_lease)\n",
        "",
        test("queue/fencing", "test_a_worker_with_a_stale_claim_changes_nothing"),
    ),
    Mutant(
        "the lease number fences a failure",
        f"{FUNCTIONS}/public/fail_job.sql",
        "      and (p_lease is null or job.lease = p_lease)\n",
        "",
        test("queue/fencing", "test_a_worker_with_a_stale_claim_changes_nothing"),
    ),
    Mutant(
        "the lease number fences a start",
        f"{FUNCTIONS}/public/start_job.sql",
        "job.lease = p_lease",
        "true",
        test("queue/fencing", "test_a_worker_with_a_stale_claim_changes_nothing"),
    ),
    Mutant(
        "the lease number fences other outcomes",
        f"{FUNCTIONS}/public/settle_jobs.sql",
        "          and job.lease = ended.lease\n",
        "",
        test("worker/fencing", "test_a_job_that_is_no_longer_claimed_is_not_written"),
    ),
    Mutant(
        "the lease number fences other outcomes (checked by the model)",
        f"{FUNCTIONS}/public/settle_jobs.sql",
        "          and job.lease = ended.lease\n",
        "",
        test("queue/model", "test_every_transition_matches_the_oracle"),
    ),
    Mutant(
        "the lease number fences reports of running jobs",
        f"{FUNCTIONS}/public/start_jobs.sql",
        "      and job.lease = report.lease\n",
        "",
        test("worker/fencing", "test_a_job_that_is_no_longer_claimed_is_not_written"),
    ),
    Mutant(
        "the lease number fences a handler's transaction",
        f"{FUNCTIONS}/public/lock_claimed.sql",
        "            where job.lease = mine.lease\n",
        "            where true\n",
        test("queue/fencing", "test_writes_of_a_handler_with_a_stale_claim_are_refused"),
    ),
    Mutant(
        "an outcome is accepted only once",
        f"{FUNCTIONS}/public/settle_jobs.sql",
        "          and job.finished_at is null\n",
        "",
        test("worker/fencing", "test_a_job_that_is_no_longer_claimed_is_not_written"),
    ),
    Mutant(
        "claims skip locked rows",
        f"{FUNCTIONS}/parts/claim_lanes.sql",
        " skip locked\n",
        "\n",
        test("queue/claim_order", "test_a_claim_does_not_wait_if_all_rows_are_locked"),
    ),
    Mutant(
        "a job without attempts left is not claimed",
        f"{FUNCTIONS}/parts/has_attempts_left.sql",
        "select p_attempts < p_max_attempts",
        "select true",
        test("queue/contract", "test_a_job_without_attempts_left_is_not_claimed"),
    ),
    Mutant(
        "a job is not retried after its last attempt",
        f"{FUNCTIONS}/public/settle_jobs.sql",
        "or ended.outcome = 'retry' and treadle.has_attempts_left(job.attempts, job.max_attempts)",
        "or ended.outcome = 'retry'",
        test("worker/executor", "test_events_tell_everything"),
    ),
    Mutant(
        "crashes are limited",
        f"{FUNCTIONS}/public/settle_jobs.sql",
        "or ended.outcome = 'crashed' and job.crashes + 1 < p_crash_limit",
        "or ended.outcome = 'crashed'",
        test("worker/supervisor", "test_a_job_that_kills_its_process_fails_alone"),
    ),
    Mutant(
        "crashes are limited (checked by the model)",
        f"{FUNCTIONS}/public/settle_jobs.sql",
        "or ended.outcome = 'crashed' and job.crashes + 1 < p_crash_limit",
        "or ended.outcome = 'crashed'",
        test("queue/model", "test_every_transition_matches_the_oracle"),
    ),
    Mutant(
        "only workers that missed their lease are recovered (checked by a test)",
        f"{FUNCTIONS}/public/recover_lost_workers.sql",
        "           or worker.seen_at < treadle.clock_before(worker.lease, p_now)\n",
        "           or true\n",
        test("worker/supervisor", "test_a_blocked_worker_keeps_its_jobs"),
    ),
    Mutant(
        "only workers that missed their lease are recovered (checked by a storm)",
        f"{FUNCTIONS}/public/recover_lost_workers.sql",
        "           or worker.seen_at < treadle.clock_before(worker.lease, p_now)\n",
        "           or true\n",
        "storm slow",
    ),
    Mutant(
        "a stale job without attempts left fails",
        f"{FUNCTIONS}/public/recover_stale_jobs.sql",
        "set status = case when stale.exhausted then 'failed' else 'pending' end,",
        "set status = 'pending',",
        test("queue/contract_gaps", "test_a_stale_job_without_attempts_left_fails_with_a_reason"),
    ),
    Mutant(
        "recovery skips locked rows",
        f"{FUNCTIONS}/public/recover_worker.sql",
        "for no key update skip locked",
        "for no key update",
        test("worker/recovery", "test_a_lost_worker_keeps_its_row_while_a_job_of_it_is_locked"),
    ),
    Mutant(
        "a tick searches below the floors that an ended transaction may not have seen",
        f"{FUNCTIONS}/parts/safe_tick.sql",
        "least(v_last.next_xid, v_ended)",
        "v_last.next_xid",
        test("queue/contract_gaps", "test_a_job_is_found_however_long_its_transaction_was_open"),
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
        "        where lane.idle_xid >= v_safe.xid\n           or lane.idle_xid = any (v_safe.running)\n",
        "        where false\n",
        test("queue/races", "test_a_job_whose_lane_became_idle_before_its_commit_is_found"),
    ),
    Mutant(
        "a job that is committed after a claim made its lane idle is found",
        f"{FUNCTIONS}/public/tick.sql",
        "        where lane.idle_xid >= v_safe.xid\n           or lane.idle_xid = any (v_safe.running)\n",
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
        "jobs with the same key never run at once: only the first is claimed",
        f"{FUNCTIONS}/parts/claim_lanes.sql",
        "and (job.key is null or treadle.is_head_of_key(job.key, job.id))",
        "",
        test(
            "queue/keys",
            "test_a_delayed_head_blocks_its_key",
            "test_a_head_that_waits_for_its_retry_blocks_its_key",
            "test_a_job_retried_by_an_operator_runs_before_the_blocked_ones",
            "test_two_heads_from_two_open_transactions_do_not_run_at_once",
        ),
    ),
    Mutant(
        "jobs with the same key never run at once: the unique index",
        "src/treadle/sql/migrations/0001_jobs.sql",
        "create unique index idx_jobs_key_running",
        "create index idx_jobs_key_running",
        test("queue/keys", "test_two_jobs_of_a_key_cannot_run_at_once_even_after_a_plain_update"),
    ),
    Mutant(
        "a job with no earlier job to unblock it is not left blocked",
        f"{FUNCTIONS}/triggers/confirm_blocked.sql",
        "    if not found then\n",
        "    if false then\n",
        test("queue/keys", "test_the_head_finishes_while_the_next_job_is_not_yet_committed"),
    ),
    Mutant(
        "a job with no earlier job to unblock it is not left blocked (checked by the model)",
        f"{FUNCTIONS}/triggers/confirm_blocked.sql",
        "    if not found then\n",
        "    if false then\n",
        test("queue/model", "test_every_transition_matches_the_oracle"),
    ),
    Mutant(
        "unique returns the unfinished job and changes nothing",
        f"{FUNCTIONS}/public/enqueue_unique.sql",
        "            do nothing\n",
        "            do update set priority = excluded.priority\n",
        test("queue/unique_keys"),
    ),
    Mutant(
        "a worker that cannot renew its lease stops its handlers",
        f"{WORKER}/lease.py",
        "late = now() - self._slots.renewed_at > self._fence_after",
        "late = False",
        test("worker/outages", "test_a_worker_that_cannot_renew_its_lease_stops_its_handlers"),
    ),
    Mutant(
        "a worker that does not stop its handlers in time is killed",
        f"{WORKER}/supervisor.py",
        "and moment - worker.slots.renewed_at > self._settings.kill_after",
        "and False",
        test("worker/outages", "test_a_worker_that_cannot_renew_its_lease_stops_its_handlers"),
    ),
    Mutant(
        "the supervisor renews the leases of its workers",
        f"{WORKER}/keeper.py",
        "await self.connection.run(worker_queries.renew(list(workers), self._lease))",
        "pass",
        test("worker/supervisor", "test_a_blocked_worker_keeps_its_jobs"),
    ),
    Mutant(
        "a lease is measured from before its renewal was sent",
        f"{WORKER}/keeper.py",
        "slots.renewed_at = began",
        "slots.renewed_at = now()",
        test("worker/keeper", "test_a_lease_counts_from_before_its_renewal_was_sent"),
    ),
    Mutant(
        "worker processes die with their supervisor",
        f"{WORKER}/process.py",
        "ctypes.CDLL(None).prctl(1, signal.SIGKILL)",
        "pass",
        test("worker/supervisor", "test_the_processes_of_a_killed_supervisor_die_with_it"),
    ),
    Mutant(
        "an outcome is kept while the database is unavailable",
        f"{WORKER}/completer.py",
        "failures += 1\n                await asyncio.sleep(reconnect_delay(failures))\n            except Exception",
        "return\n            except Exception",
        test("worker/outages", "test_an_outcome_waits_while_the_database_is_unavailable"),
    ),
    Mutant(
        "an outcome that was written is not written twice",
        f"{WORKER}/completer.py",
        "            if again:\n",
        "            if False:\n",
        test("worker/outages", "test_an_outcome_whose_reply_is_lost_is_written_once"),
    ),
    Mutant(
        "a claim whose reply was lost is found",
        f"{WORKER}/claimer.py",
        "            self._reply_lost()\n",
        "",
        test("worker/outages", "test_a_claim_whose_reply_is_lost_is_found"),
    ),
    Mutant(
        "sleeping workers are woken",
        f"{FUNCTIONS}/triggers/notify_at_commit.sql",
        "        perform pg_notify(treadle.channel('work'), v_message);\n",
        "",
        test("worker/waking", "test_a_job_is_picked_up_by_a_notification"),
    ),
    Mutant(
        "an open transaction keeps no other from notifying",
        f"{FUNCTIONS}/parts/wake_workers.sql",
        "    perform set_config(c_requested, 'on', true);\n",
        "    perform setval('treadle.wake_clock', (extract(epoch from v_now) * 1000000)::bigint);\n"
        "    perform set_config(c_requested, 'on', true);\n",
        test("worker/notifying", "test_a_transaction_that_stays_open_silences_no_other"),
    ),
    Mutant(
        "a worker that does not answer a notification delays no job",
        f"{WORKER}/notifications.py",
        "            self._check_soon()\n",
        "            pass\n",
        test("worker/herd", "test_a_worker_that_does_not_answer_delays_no_job"),
    ),
    Mutant(
        "a worker without room passes a notification on",
        f"{WORKER}/claimer.py",
        "            self._full(claimed)\n",
        "            pass\n",
        test("worker/herd", "test_a_worker_without_room_passes_the_notification_on"),
    ),
    Mutant(
        "a job is reported as running only when it has begun",
        f"{WORKER}/running_jobs.py",
        "is_new = running.begun and not running.reported",
        "is_new = not running.reported",
        test("worker/children", "test_a_child_that_dies_before_it_started_the_next_job_is_replaced"),
    ),
    Mutant(
        "a suspect starts only in a free child process",
        f"{WORKER}/claimer.py",
        "self.suspects.waiting and self._free_children() > 0",
        "self.suspects.waiting",
        test("worker/claimer_steps", "test_suspects_start_only_in_free_child_processes_and_the_others_are_offered"),
    ),
    Mutant(
        "a job for a child process is claimed only if there is a free one",
        f"{WORKER}/claimer.py",
        "            room = min(room, self._free_children())\n",
        "            pass\n",
        test("worker/claimer_steps", "test_a_job_for_a_child_process_is_claimed_only_if_there_is_one"),
    ),
    Mutant(
        "suspects are offered to other workers",
        f"{WORKER}/suspects.py",
        "if self.waiting and now - self._offered_at >= OFFER_EVERY:",
        "if False:",
        test("worker/lost_machines", "test_the_suspects_of_a_dead_process_are_spread_over_workers"),
    ),
    Mutant(
        "jobs claimed ahead are given back if they cannot start",
        f"{WORKER}/claimer.py",
        "return self._release_stalled()",
        "return math.inf",
        test("worker/claimer_steps", "test_jobs_claimed_ahead_that_cannot_start_are_given_back"),
    ),
    Mutant(
        "a cancelled job that waits does not start",
        f"{WORKER}/claimer.py",
        "                    jobs.remove(claim)\n",
        "",
        test("worker/claimer_steps", "test_suspects_start_only_in_free_child_processes_and_the_others_are_offered"),
    ),
    Mutant(
        "a lost machine is not a crash of the jobs that ran on it",
        f"{FUNCTIONS}/public/recover_worker.sql",
        "when p_crashed is null and claimed.status = 'running' then 'lost'",
        "when p_crashed is null and claimed.status = 'running' then 'crashed'",
        test("worker/lost_machines", "test_no_job_fails_because_three_machines_were_lost"),
    ),
    Mutant(
        "a job that did not run on a lost worker is not blamed",
        f"{FUNCTIONS}/public/recover_worker.sql",
        "p_crashed is null and claimed.status = 'running'",
        "p_crashed is null",
        test("worker/recovery", "test_only_jobs_that_ran_on_a_lost_worker_count_as_lost"),
    ),
    Mutant(
        "losses of workers are limited",
        f"{FUNCTIONS}/public/settle_jobs.sql",
        "or ended.outcome = 'lost' and job.crashes + coalesce(job.losses, 0) < p_crash_limit",
        "or ended.outcome = 'lost'",
        test("worker/recovery", "test_a_job_that_loses_worker_after_worker_fails"),
    ),
    Mutant(
        "the row of a worker with jobs is kept",
        f"{FUNCTIONS}/triggers/keep_worker.sql",
        "        return null;\n",
        "",
        test("worker/recovery", "test_the_row_of_a_worker_with_jobs_cannot_be_deleted"),
    ),
    Mutant(
        "a worker that registers again does not keep the jobs of the one before",
        f"{FUNCTIONS}/public/register_worker.sql",
        "    if found and ",
        "    if false and ",
        test(
            "worker/recovery",
            "test_a_worker_that_registers_its_old_name_does_not_keep_the_jobs_of_the_dead_one",
        ),
    ),
    Mutant(
        "a client that is not registered keeps its jobs for a day",
        f"{FUNCTIONS}/public/recover_unregistered.sql",
        "< v_before",
        "< p_now",
        test("worker/recovery", "test_jobs_of_a_worker_without_a_row_are_given_back_after_a_day"),
    ),
    Mutant(
        "jobs of a worker without a row are given back",
        f"{FUNCTIONS}/public/recover_unregistered.sql",
        "                where gap.before is null\n",
        "                where false\n",
        test("worker/recovery", "test_jobs_of_a_worker_without_a_row_are_given_back_after_a_day"),
    ),
    Mutant(
        "a worker that drains recovers the jobs of lost workers",
        f"{WORKER}/worker.py",
        "found = await maintenance.recover_lost(",
        "found = 0 and await maintenance.recover_lost(",
        test(
            "worker/lost_machines",
            "test_a_worker_that_drains_recovers_the_jobs_of_lost_machines_and_counts_what_it_ends",
        ),
    ),
    Mutant(
        "a worker that drains counts what it ended last",
        f"{WORKER}/worker.py",
        "timedelta(0) if alone else None",
        "None",
        test(
            "worker/lost_machines",
            "test_a_worker_that_drains_recovers_the_jobs_of_lost_machines_and_counts_what_it_ends",
        ),
    ),
]
