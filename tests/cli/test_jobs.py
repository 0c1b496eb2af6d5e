"""treadle jobs and treadle stats: tables for people, plain text in pipes, JSON for programs."""

import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.support.commands import TREADLE, json_output_of, output_of, run_treadle
from tests.support.screens import terminal
from treadle import JobQueue, JobRow
from treadle.cli.stats import last
from treadle.words.overview import Span

HOSTILE = "\x1b[2J\x1b]0;title\x07[red]bold[/red]\x9b31m\u202e"


@pytest.fixture(autouse=True)
def where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)


def held(jobs: JobQueue, job_type: str = "films", **options: Any) -> JobRow:
    jobs.enqueue(job_type, {}, **options)
    (job,) = jobs.claim([job_type])
    return job


def listed(*arguments: str) -> list[str]:
    """The ids that are printed."""
    return [line.split()[0] for line in output_of("jobs", *arguments).splitlines()[1:]]


def test_jobs_are_listed_newest_first(queue: JobQueue) -> None:
    failed, running = held(queue, "mail"), held(queue)
    queue.start(running)
    queue.progress(running, 40, stage="rendering")
    queue.fail(failed, "ValueError: no such address", final=True)
    later = queue.enqueue("films", {}, delay="90m")
    heading, *lines = output_of("jobs").splitlines()
    assert heading.split() == ["ID", "STATUS", "TYPE", "AGE", "DETAILS"]
    cells = [line.split(maxsplit=4) for line in lines]
    assert [(each[0], each[1], each[2]) for each in cells] == [
        (str(later), "pending", "films"),
        (str(running.id), "running", "films"),
        (str(failed.id), "failed", "mail"),
    ]
    assert [each[4][:10] for each in cells] == ["due in 1h ", "40% render", "1/3: Value"]
    assert len({line.index(cell[2]) for line, cell in zip(lines, cells, strict=True)}) == 1  # aligned
    assert not any(line != line.rstrip() or "\t" in line or "\x1b" in line for line in lines)


def test_filters(queue: JobQueue) -> None:
    mail, films = held(queue, "mail", queue="slow"), held(queue, key="k")
    behind = queue.enqueue("films", {"title": "Metropolis"}, key="k")
    queue.fail(mail, "torn", final=True)
    assert listed("--status", "failed") == [str(mail.id)]
    assert listed("--type", "films") == [str(behind), str(films.id)]
    assert listed("--queue", "slow") == [str(mail.id)]
    assert listed("--worker", "worker-1", "--status", "claimed") == [str(films.id)]
    assert listed("--key", "k", "--status", "blocked") == [str(behind)]
    assert " blocked " in output_of("jobs", "--status", "blocked")
    assert listed("--search", "metropolis") == [str(behind)]
    assert run_treadle("jobs", "--type", "nope").stderr == "No matching jobs.\n"
    assert "Invalid value for '--status'" in run_treadle("jobs", "--status", "done").stderr


def test_in_a_pipe_the_next_page_goes_to_standard_error(queue: JobQueue) -> None:
    ids = [str(queue.enqueue("two words", {})) for _ in range(5)]
    seen: list[str] = []
    command = ["jobs", "--limit", "2", "--type", "two words"]
    for _ in range(3):
        result = run_treadle(*command)
        seen += [line.split()[0] for line in result.stdout.splitlines()[1:]]
        if not result.stderr:
            break
        assert result.stderr.startswith("Next page: treadle jobs --type 'two words' --limit 2 --after ")
        command = [*command[:5], "--after", result.stderr.split()[-1]]
    assert seen == ids[::-1]


def test_a_search_examines_all_jobs(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.db.queries.listing.EXAMINED_LIMIT", 10)
    oldest = queue.enqueue("films", {"title": "Metropolis"})
    queue.enqueue_many("films", [{}] * 200)
    assert listed("--search", "metropolis") == [str(oldest)]
    assert listed("--where", 'data.title = "Metropolis"') == [str(oldest)]


def test_json_prints_one_object_per_line(queue: JobQueue) -> None:
    ids = [str(queue.enqueue("films", {})) for _ in range(3)]
    found = json_output_of("jobs", "--limit", "2")
    assert [each["id"] for each in found] == ids[:0:-1]
    assert {"job_type", "status", "queue", "priority", "attempts", "error", "created_at"} <= set(found[0])
    datetime.fromisoformat(found[0]["created_at"])


def test_a_closed_pipe_causes_no_error_message(queue: JobQueue) -> None:
    queue.enqueue_many("films", [{}] * 1000)
    command = ["bash", "-c", f"{TREADLE} jobs --limit 1000 | head -1; exit ${{PIPESTATUS[0]}}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout.startswith("ID ")
    assert result.stderr == ""
    assert result.returncode == 1


def test_a_narrow_terminal_does_not_truncate_the_id(queue: JobQueue) -> None:
    job = held(queue, "a_rather_long_name_of_a_job_type")
    queue.fail(job, "ValueError: " + "long " * 50, final=True)
    with terminal("jobs") as screen:
        assert screen.wait_for_exit() == 0
        _, line, *rest = screen.lines()
    assert line.startswith(f"{job.id} failed ")
    assert line.endswith("…")
    assert not any(rest)
    assert b"\x1b[31mfailed" in screen.raw


def test_no_color_disables_colours(queue: JobQueue) -> None:
    queue.fail(held(queue), "torn", final=True)
    with terminal("jobs", NO_COLOR="1") as screen:
        assert screen.wait_for_exit() == 0
        assert b"\x1b[31m" not in screen.raw


def test_control_characters_and_markup_are_not_interpreted(connection: Connection[Any]) -> None:
    connection.execute(
        """insert into jobs (job_type, queue, key, last_error, worker_id, status, current_stage)
        select text, text, case when status <> 'pending' then text end, text, text, status, text
        from (values ('failed'), ('running'), ('pending'), ('cancelled')) as each (status),
            (select %(t)s::text as text) as hostile""",
        {"t": HOSTILE},
    )
    for said in (
        output_of("jobs"),
        run_treadle("jobs", "--json").stdout,
        output_of("stats"),
        run_treadle("stats", "--json").stdout,
    ):
        assert not any(each in said for each in "\x1b\x07\x9b\u202e")
        assert said.count("bold") == said.count("[red]bold[/red]") > 0
    with terminal("jobs", columns=200) as screen:
        assert screen.wait_for_exit() == 0
        assert b"\x1b[2J" not in screen.raw
        assert "[red]bold[/red]" in screen.text()


def test_stats(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.complete(held(queue))
    queue.fail(held(queue), "torn", final=True)
    queue.enqueue("mail", {}, delay="90m")
    queue.enqueue("mail", {}, queue="slow")
    queue.pause("mail", "slow")
    connection.execute("update meter set reached = now() - interval '1 minute'")
    connection.execute("select count_minutes()")
    said = output_of("stats")
    assert "pending 2  claimed 0  running 0  completed 1  failed 1  cancelled 0" in said
    assert "paused, no worker" in said
    assert "films" not in said  # nothing waits in its lane
    (seen,) = json_output_of("stats")
    assert seen["totals"]["failed"] == {"jobs": 1, "exact": True, "counted_at": None}
    assert {(each["job_type"], each["queue"], each["depth"]) for each in seen["lanes"] if each["depth"]} == {
        ("mail", "default", 1),
        ("mail", "slow", 1),
    }


def test_recently_finished_jobs_are_added_up() -> None:
    now = datetime.now(UTC)
    spans = [
        Span(now + timedelta(minutes=each), each, 0, 0, 1, float(each) if each else None, float(each), 1.0, 1.0)
        for each in range(60)
    ]
    found = last(spans, 1)
    assert (found.minutes, found.completed, found.errors) == (1, 58 + 59, 2)
    assert found.waited == pytest.approx((58 * 58 + 59 * 59) / (58 + 59))
    assert last(spans, 60).completed == sum(range(60))
    assert last([], 1).waited is None
