"""retry, cancel, delete, run-now, priority: by id at once, by filter after a preview and a confirmation."""

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.support.commands import json_output_of, output_of, run_treadle
from tests.support.screens import terminal
from treadle import JobQueue, Status
from treadle.cli import bulk

UNKNOWN = "01a1df1a-9662-7b8e-8b29-d2293fbf8aaf"


@pytest.fixture(autouse=True)
def where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)


def failed(queue: JobQueue, number: int = 1, job_type: str = "films", **options: Any) -> list[UUID]:
    ids = queue.enqueue_many(job_type, [{}] * number, **options)
    for job in queue.claim([job_type], number):
        queue.fail(job, "torn", final=True)
    return ids


def statuses(queue: JobQueue) -> list[str]:
    return sorted(job.status for job in queue.list(limit=1000).jobs)


def test_a_job_given_by_id_is_changed_at_once(queue: JobQueue) -> None:
    (job,) = failed(queue)
    assert output_of("retry", job) == f"Retried films {job} (was failed, now pending).\n"
    assert output_of("priority", 150, job) == f"Set the priority of films {job} to 150 (was pending).\n"
    assert queue.get(job).priority == 150
    assert output_of("cancel", job, "--reason", "seen") == f"Cancelled films {job} (was pending, now cancelled).\n"
    assert output_of("delete", job) == f"Deleted films {job} (was cancelled).\n"
    later = queue.enqueue("films", {}, delay="1h")
    assert output_of("run-now", later) == f"Made films {later} due now (was pending).\n"
    assert queue.claim(["films"])


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (["retry"], "pending", "is pending and will run anyway"),
        (["retry"], "claimed", "is already claimed"),
        (["cancel"], "completed", "is completed and cannot be cancelled"),
        (["delete"], "claimed", "is claimed and cannot be deleted; cancel it first"),
        (["run-now"], "pending", "is already due"),
        (["run-now"], "completed", "is completed and cannot be run now"),
        (["priority", "100"], "pending", "already has priority 100"),
        (["priority", "7"], "completed", "is completed and cannot be given another priority"),
    ],
)
def test_an_ineligible_job_is_left_unchanged(queue: JobQueue, command: list[str], status: str, said: str) -> None:
    job = queue.enqueue("films", {})
    if status != "pending":
        (held,) = queue.claim(["films"])
        if status == "completed":
            queue.complete(held)
    result = run_treadle(*command, job)
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr
    assert queue.get(job).status == status


def test_the_exit_code_is_0_if_one_of_several_jobs_was_changed(queue: JobQueue) -> None:
    (job,) = failed(queue)
    result = run_treadle("retry", UNKNOWN, job, job.hex)
    assert result.exit_code == 0
    assert result.stdout == f"Retried films {job} (was failed, now pending).\n"
    assert result.stderr == f"No job has the id {UNKNOWN}; it may have been pruned.\n"
    assert run_treadle("retry", UNKNOWN).exit_code == 1


def test_an_id_can_be_shortened(queue: JobQueue) -> None:
    (job,) = failed(queue)
    assert output_of("retry", str(job)[:13]) == f"Retried films {job} (was failed, now pending).\n"
    assert output_of("show", job.hex[:10]).startswith("films  pending\n")
    assert output_of("show", job.hex[-8:]).startswith("films  pending\n"), "as pages show it"
    assert "no job whose id begins or ends with 00000000" in run_treadle("retry", "00000000").stderr


def test_a_locked_job_is_skipped(queue: JobQueue, connect: Any) -> None:
    ids = failed(queue, 2)
    with connect(autocommit=False) as other:
        other.execute("select from jobs where id = %s for update", [ids[0]])
        result = run_treadle("retry", *ids)
    assert (result.exit_code, queue.get(ids[1]).status) == (0, Status.PENDING)
    assert "is locked by another transaction; try again" in result.stderr


def test_the_exit_code_is_1_if_all_matching_jobs_are_locked(queue: JobQueue, connect: Any) -> None:
    failed(queue, 2)
    with connect(autocommit=False) as other:
        other.execute("select from jobs for update")
        result = run_treadle("retry", "--status", "failed", "--yes")
    assert result.exit_code == 1
    assert result.stdout == "Retried 0 jobs; skipped 2 locked by another transaction (try again).\n"


def test_actor_and_reason_are_recorded(queue: JobQueue, connection: Connection[Any]) -> None:
    ids = failed(queue, 2)
    output_of("retry", ids[0], "--actor", "ada", "--reason", "the disk has room")
    run_treadle("retry", "--status", "failed", "--yes", "--reason", "all of them")
    rows = connection.execute("select actor, action, job_id, reason from audit order by id").fetchall()
    assert rows[0] == ("ada", "retry", ids[0], "the disk has room")
    assert rows[1][0].startswith("cli:")
    assert rows[1][1:] == ("retry", ids[1], "all of them")


def test_json_by_id(queue: JobQueue) -> None:
    (job,) = failed(queue)
    assert json_output_of("retry", job) == [
        {"id": str(job), "action": "retry", "outcome": "done", "was": "failed", "is": "pending"}
    ]
    assert json_output_of("retry", UNKNOWN)[0]["outcome"] == "missing"


def test_a_dry_run_by_id_prints_json(queue: JobQueue) -> None:
    (job,) = failed(queue)
    assert json_output_of("retry", job, UNKNOWN, "--dry-run") == [
        {"id": str(job), "action": "retry", "outcome": None, "was": "failed", "is": "failed"},
        {"id": UNKNOWN, "action": "retry", "outcome": "missing", "was": None, "is": None},
    ]
    assert queue.get(job).status == "failed"


def test_a_dry_run_exits_with_1_if_no_job_exists(queue: JobQueue) -> None:
    (job,) = failed(queue)
    for more in ([], ["--json"]):
        assert run_treadle("cancel", UNKNOWN, "--dry-run", *more).exit_code == 1
        assert run_treadle("retry", UNKNOWN, job, "--dry-run", *more).exit_code == 0
    result = run_treadle("cancel", UNKNOWN, "--dry-run")
    assert (result.stdout, result.stderr) == ("", f"No job has the id {UNKNOWN}; it may have been pruned.\n")


def test_jobs_selected_by_filter_are_previewed_and_changed(queue: JobQueue) -> None:
    failed(queue, 700)
    failed(queue, 3, "mail")
    result = run_treadle("retry", "--status", "failed", "--type", "films", "--yes")
    assert result.exit_code == 0
    assert result.stdout == "Retried 700 jobs.\n"
    assert "This would retry 700 jobs.\n" in result.stderr
    assert result.stderr.count(" films ") == 5
    assert statuses(queue) == ["failed"] * 3 + ["pending"] * 700


def test_the_preview_counts_by_type(queue: JobQueue) -> None:
    failed(queue, 2)
    failed(queue, 4, "mail")
    said = run_treadle("delete", "--status", "failed", "--dry-run")
    assert (said.exit_code, said.stdout) == (0, "")
    assert "This would delete 6 jobs.\nBy type: mail 4, films 2\n" in said.stderr
    assert statuses(queue) == ["failed"] * 6
    assert json_output_of("delete", "--status", "failed", "--dry-run") == [
        {"action": "delete", "found": 6, "exact": True, "done": 0}
    ]


def test_without_a_terminal_and_without_yes_nothing_is_changed(queue: JobQueue) -> None:
    failed(queue, 2)
    nothing = run_treadle("cancel", "--status", "pending")
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    result = run_treadle("retry", "--status", "failed")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nothing was changed: there is no terminal to ask for confirmation; add --yes" in result.stderr
    assert statuses(queue) == ["failed"] * 2


def test_json_by_filter(queue: JobQueue) -> None:
    failed(queue, 2)
    assert json_output_of("retry", "--status", "failed", "--yes") == [
        {"action": "retry", "done": 2, "unfit": 0, "busy": 0, "missing": 0}
    ]
    assert json_output_of("retry", "--status", "failed", "--yes")[0]["done"] == 0
    assert run_treadle("retry", "--status", "failed", "--yes").exit_code == 1


def test_priority_by_filter(queue: JobQueue) -> None:
    queue.enqueue_many("films", [{}] * 3)
    assert told_by_filter("priority", "150", "--type", "films") == "Set the priority of 3 jobs to 150.\n"
    assert [job.priority for job in queue.list().jobs] == [150] * 3


def told_by_filter(*command: str) -> str:
    return run_treadle(*command, "--yes").stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["retry"], "no jobs selected; give their ids, or filters"),
        (["retry", UNKNOWN, "--status", "failed"], "give either ids or filters, not both"),
        (["retry", "films"], "expected the id of a job (a UUID)"),
        (["retry", "--status", "running"], "their status must be one of"),
        (["priority", "high", UNKNOWN], "'high' is not a valid integer"),
        (["priority", "9999999999", UNKNOWN], "is not in the range"),
        (["priority", "--", "-2147483648", UNKNOWN], "is not in the range -2147483647<=x<=2147483647"),
    ],
)
def test_wrong_input_is_one_sentence(queue: JobQueue, command: list[str], said: str) -> None:
    result = run_treadle(*command)
    assert result.exit_code in (1, 2)
    assert said in result.stderr


def test_on_a_terminal_it_asks_for_confirmation(url: str, queue: JobQueue) -> None:
    failed(queue, 3)
    with terminal("retry", "--status", "failed") as screen:
        screen.wait_for("This would retry 3 jobs.", "Retry 3 failed jobs? [y/N]:")
        screen.press("n\n")
        assert screen.wait_for_exit() == 1
        assert "Nothing was changed." in screen.text()
    assert statuses(queue) == ["failed"] * 3
    with terminal("retry", "--status", "failed") as screen:
        screen.wait_for("Retry ")
        screen.press("y\n")
        assert screen.wait_for_exit() == 0
        assert "Retried 3 jobs." in screen.text()
    assert statuses(queue) == ["pending"] * 3


def test_to_delete_jobs_on_a_terminal_their_number_is_typed(url: str, queue: JobQueue) -> None:
    failed(queue, 3)
    with terminal("delete", "--status", "failed") as screen:
        screen.wait_for("This would delete 3 jobs.", "To delete 3 failed jobs, type their number (3):")
        failed(queue)  # has not been confirmed
        screen.press("3\n")
        assert screen.wait_for_exit() == 0
        assert "Deleted 3 jobs." in screen.text()
    assert statuses(queue) == ["failed"]


@pytest.mark.parametrize("typed", ["2", "", "y"])
def test_if_another_number_is_typed_nothing_is_deleted(
    queue: JobQueue, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    failed(queue, 3)
    keyboard = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True), exit=sys.exit)
    monkeypatch.setattr(bulk, "sys", keyboard)
    result = run_treadle("delete", "--status", "failed", text=f"{typed}\n")
    assert result.exit_code == 1
    assert "This would delete 3 jobs." in result.output
    assert "To delete 3 failed jobs, type their number (3):" in result.output
    assert "Nothing was changed: expected 3, got" in result.stderr
    assert statuses(queue) == ["failed"] * 3


def test_ctrl_c_at_the_confirmation_changes_nothing(url: str, queue: JobQueue) -> None:
    failed(queue)
    with terminal("retry", "--status", "failed") as screen:
        screen.wait_for("Retry ")
        screen.press_ctrl_c()
        assert screen.wait_for_exit() == 130
        assert "Traceback" not in screen.text()
    assert statuses(queue) == ["failed"]


@pytest.fixture
def slow_changes(connection: Connection[Any]) -> Iterator[Callable[[], None]]:
    """Slows down each row of the audit, so that a change can be interrupted. Call it to make changes fast again."""
    connection.execute(
        """create function public.slow_down() returns trigger language plpgsql as $$ begin
        perform pg_sleep(0.002); return new; end $$;
        create trigger slow_down before insert on audit for each row execute function public.slow_down()"""
    )

    def stop() -> None:
        connection.execute("drop trigger if exists slow_down on audit; drop function if exists public.slow_down")

    yield stop
    stop()


@pytest.mark.long
def test_ctrl_c_between_chunks_reports_the_progress(
    queue: JobQueue, connection: Connection[Any], slow_changes: Callable[[], None]
) -> None:
    connection.execute(
        """insert into jobs (job_type, status, attempts, finished_at)
        select 'films', 'failed', 1, now() from generate_series(1, 2000)"""
    )
    with terminal("retry", "--status", "failed", "--yes") as screen:
        screen.wait_for("500/2000")
        screen.press_ctrl_c()
        assert screen.wait_for_exit() == 130
        text = screen.text().replace("\n", " ")
    assert "Interrupted. Retried " in text
    assert "jobs, and possibly the next 500." in text
    assert "To continue: treadle retry --status failed" in text
    assert "Traceback" not in text
    left = number_failed(queue)
    assert 0 < left < 2000
    slow_changes()
    run_treadle("retry", "--status", "failed", "--yes")
    assert number_failed(queue) == 0


def number_failed(queue: JobQueue) -> int:
    return queue.counts().get(Status.FAILED, 0)
