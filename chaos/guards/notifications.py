"""Notifications."""

from chaos.guards.mutant import FUNCTIONS, WORKER, Mutant, test

MUTANTS = [
    Mutant(
        "a worker does not wait until its request for notifications is on disk",
        "src/treadle/sql/queries/next_due.sql",
        "from pg_catalog.set_config('synchronous_commit', 'off', true)\n",
        "",
        test("worker/notifying", "test_a_worker_does_not_wait_until_its_request_is_on_disk"),
    ),
    Mutant(
        "sleeping workers are woken",
        f"{FUNCTIONS}/triggers/notify_at_commit.sql",
        "    perform treadle.wake_workers(clock_timestamp(), true);\n",
        "",
        test("worker/notifying", "test_a_transaction_that_stays_open_silences_no_other"),
    ),
    Mutant(
        "a call that is a transaction by itself wakes sleeping workers",
        f"{FUNCTIONS}/parts/wake_workers.sql",
        "    if p_now then\n",
        "    if false then\n",
        test("worker/notifying", "test_a_call_that_is_a_transaction_by_itself_notifies_at_once"),
    ),
    Mutant(
        "a transaction of the caller notifies at commit",
        "src/treadle/db/runner.py",
        '"alone": own and connection.info.transaction_status == TransactionStatus.IDLE',
        '"alone": True',
        test("worker/notifying", "test_a_call_that_is_a_transaction_by_itself_notifies_at_once"),
    ),
    Mutant(
        "a call notifies only if there is room for the notification",
        f"{FUNCTIONS}/parts/wake_workers.sql",
        "            if pg_notification_queue_usage() < 0.9 then",
        "            if true then",
        test("worker/notifying", "test_nothing_fails_while_the_queue_of_notifications_is_full"),
    ),
    Mutant(
        "a job whose commit takes long does not wait for the poll",
        f"{WORKER}/claimer.py",
        "for seconds in RECHECK_SECONDS if own",
        "for seconds in RECHECK_SECONDS[:1] if own",
        test("worker/waking", "test_a_job_whose_commit_takes_long_is_found"),
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
        "            self._check_soon(own == rank + 1)\n",
        "            pass\n",
        test("worker/herd", "test_a_worker_that_does_not_answer_delays_no_job"),
    ),
    Mutant(
        "a worker without room passes a notification on",
        f"{WORKER}/claimer.py",
        "            self._host.full(claimed)\n",
        "            pass\n",
        test("worker/herd", "test_a_worker_without_room_passes_the_notification_on"),
    ),
    Mutant(
        "a request for notifications does not shorten another one",
        f"{FUNCTIONS}/public/request_notifications.sql",
        "if v_until > v_last or v_last > v_most then",
        "if true then",
        test("worker/notifying", "test_a_request_does_not_shorten_that_of_another_session"),
    ),
    Mutant(
        "notifications are sent only if there is room for them",
        f"{FUNCTIONS}/parts/send_notification.sql",
        " or pg_notification_queue_usage() > 0.9",
        "",
        test("worker/notifying", "test_nothing_fails_while_the_queue_of_notifications_is_full"),
    ),
]
