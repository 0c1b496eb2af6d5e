"""Workers that sleep."""

from chaos.guards.mutant import FUNCTIONS, WORKER, Mutant, test

SLEEPER = f"{WORKER}/sleeper.py"
NEXT_WORK = f"{FUNCTIONS}/public/next_work.sql"
LANE = "row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane"

MUTANTS = [
    Mutant(
        "a worker that has slept renews its lease before it claims",
        SLEEPER,
        "await parts.connection.persist(renewal, parts.unavailable)",
        "pass",
        test("worker/sleeping", "test_a_notification_wakes_it_and_its_lease_is_valid_before_it_claims"),
    ),
    *(
        Mutant(
            f"{what} wait while the worker sleeps",
            f"{WORKER}/{file}.py",
            f"await {event}.wait()",
            "pass",
            test("worker/sleeping", "test_a_sleeping_worker_sends_nothing_but_looks"),
        )
        for what, file, event in (
            ("claimers", "claimer", "self._host.awake"),
            ("services", "services", "awake"),
            ("schedules", "scheduler", "self._awake"),
        )
    ),
    Mutant(
        "a worker sleeps only if a notification that it sends arrives",
        f"{WORKER}/notifications.py",
        "        if await within(self._sleeps.wait(), ARRIVE_SECONDS):\n",
        "        if True:\n",
        test("worker/sleeping", "test_a_worker_that_receives_nothing_does_not_sleep"),
    ),
    Mutant(
        "a worker with jobs does not sleep",
        f"{WORKER}/worker.py",
        "self.may_start() and not self.busy()",
        "self.may_start()",
        test("worker/sleeping", "test_a_worker_with_a_job_does_not_sleep"),
    ),
    Mutant(
        "a worker wakes when the connection that listens breaks",
        SLEEPER,
        "self.parts.listener.lost = self.wake",
        "pass",
        test("worker/sleeping", "test_it_wakes_when_the_connection_that_listens_breaks"),
    ),
    Mutant(
        "a worker that sleeps looks from time to time",
        SLEEPER,
        "min(look_every, next_loss,",
        "min(next_loss,",
        test("worker/sleeping", "test_a_lost_notification_is_found_by_the_next_look"),
    ),
    Mutant(
        "a worker wakes when something is due",
        SLEEPER,
        "next_loss, due, end",
        "next_loss, end",
        test("worker/sleeping", "test_it_wakes_for_a_future_job_in_time"),
    ),
    Mutant(
        "a worker wakes after an hour",
        SLEEPER,
        "next_loss, due, end - time.monotonic())",
        "next_loss, due)",
        test("worker/sleeping", "test_it_wakes_after_some_time_and_does_the_maintenance"),
    ),
    *(
        Mutant(
            f"workers that sleep recover the jobs of lost ones: {what}",
            file,
            text,
            replacement,
            test("worker/sleeping", "test_a_sleeping_worker_recovers_the_jobs_of_a_lost_one"),
        )
        for what, file, text, replacement in (
            ("they look when a lease runs out", SLEEPER, "min(look_every, next_loss,", "min(look_every,"),
            ("they wake when one has", SLEEPER, "found.losses or ", ""),
            (
                "they look when a peer is awake",
                f"{WORKER}/notifications.py",
                "        self._sleeper.peer_awake()\n",
                "",
            ),
        )
    ),
    Mutant(
        "a new concurrency reaches a worker that sleeps",
        SLEEPER,
        "            parts.concurrency.heard(found.concurrency)\n",
        "",
        test("worker/sleeping", "test_it_learns_of_a_new_concurrency_without_waking"),
    ),
    Mutant(
        "peers remember a worker that sleeps",
        f"{WORKER}/notifications.py",
        "self.peers.hear(worker_id, group, ASLEEP_LEASE.total_seconds())",
        "self.peers.hear(worker_id, group)",
        test("worker/herd", "test_a_job_wakes_one_of_the_workers_that_sleep"),
    ),
    *(
        Mutant(
            f"the keeper {what}",
            f"{WORKER}/keeper.py",
            text,
            replacement,
            test("worker/keeper", "test_the_lease_of_a_worker_that_sleeps_is_renewed_once"),
        )
        for what, text, replacement in (
            (
                "notes that a worker sleeps",
                "renew(_ids(fell_asleep), ASLEEP_LEASE, asleep=True)",
                "renew([], self._lease)",
            ),
            (
                "does not renew the lease of a worker that sleeps",
                "for each in workers if not each.slots.asleep]",
                "for each in workers]",
            ),
        )
    ),
    Mutant(
        "a worker that sleeps is ready",
        f"{WORKER}/supervisor.py",
        "0.0 if each.slots.asleep else now()",
        "now()",
        test("worker/health", "test_a_worker_that_sleeps_is_ready"),
    ),
    Mutant(
        "a machine that is lost while its worker sleeps is noticed",
        f"{FUNCTIONS}/public/recover_lost_workers.sql",
        " or worker.asleep_at is not null",
        "",
        test("worker/sleeping", "test_a_sleeping_worker_is_lost_only_after_its_long_lease"),
    ),
    Mutant(
        "schedules of workers that sleep are not retired",
        f"{FUNCTIONS}/public/declare_schedules.sql",
        "known.declared_at < v_heard - interval '10 minutes'",
        "known.declared_at < v_now - interval '10 minutes'",
        test("queue/schedules", "test_schedules_of_workers_that_sleep_are_not_retired"),
    ),
    Mutant(
        "a job that is due before a worker that sleeps looks sends a notification",
        f"{FUNCTIONS}/parts/wake_workers.sql",
        "v_now + interval '2 minutes'",
        "v_now + interval '10 seconds'",
        test("worker/notifying", "test_when_workers_are_woken"),
    ),
    Mutant(
        "and so does one in a lane that its session remembers, for a worker that sleeps",
        f"{FUNCTIONS}/public/enqueue.sql",
        "v_now + interval '2 minutes'",
        "v_now + interval '10 seconds'",
        test("worker/notifying", "test_a_job_that_is_due_before_a_sleeping_worker_looks_wakes_it"),
    ),
    *(
        Mutant(
            f"a worker that sleeps sees {what}",
            NEXT_WORK,
            text,
            replacement,
            test("worker/sleeping", red),
        )
        for what, text, replacement, red in (
            (
                "what was committed late",
                f"treadle.safe_floor({LANE}, v_safe)",
                f"treadle.lane_floor({LANE})",
                "test_a_look_finds_what_was_committed_late",
            ),
            (
                "jobs of a lane that has just become dormant",
                "lane.dormant_xid >= v_safe.next_xid",
                "false",
                "test_a_look_finds_jobs_of_a_lane_that_has_just_become_idle",
            ),
            (
                "when a limit opens",
                "        treadle.next_opening(p_job_types, p_queues),\n",
                "",
                "test_it_wakes_when_a_limit_has_room_again",
            ),
            (
                "jobs that expire",
                "(select min(entry.look_at) from treadle.expiries as entry)",
                "null",
                "test_it_wakes_for_what_only_maintenance_does",
            ),
            (
                "checks of dependencies",
                "(select min(noted.look_at) from treadle.dependency_checks as noted)",
                "null",
                "test_it_wakes_for_what_only_maintenance_does",
            ),
            (
                "schedules",
                "        v_schedule,\n",
                "",
                "test_it_wakes_for_a_schedule_in_time",
            ),
            (
                "that it was taken for lost",
                "              and worker.seen_at >= v_now - worker.lease\n",
                "",
                "test_a_worker_that_is_taken_for_lost_or_has_a_job_does_not_sleep",
            ),
            (
                "a claim whose reply was lost",
                "              and job.status in ('claimed', 'running')\n",
                "              and false\n",
                "test_a_worker_that_is_taken_for_lost_or_has_a_job_does_not_sleep",
            ),
        )
    ),
]
