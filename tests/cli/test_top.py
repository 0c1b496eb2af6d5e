"""treadle top on a terminal: its screens and its keys."""

from typing import Any

import pytest
from psycopg import Connection

from tests.support.apps import claim_and_start
from tests.support.screens import Terminal, terminal
from tests.support.workers import one, until
from treadle import JobQueue, Priority, Status

ENTER, ESCAPE, TAB, DOWN = "\r", "\x1b", "\t", "\x1b[B"


def register(connection: Connection[Any], name: str = "worker-1", types: str = "{films,mail}") -> None:
    connection.execute("select register_worker(%s, '1 hour', %s, null, 8, 'cellar', 7, '0.1')", [name, types])


def row_of(screen: Terminal, table: str, beginning: str) -> str:
    """Waits for a row of the table that begins like this."""
    return find_row(screen, table, beginning)[1]


def place_of(screen: Terminal, table: str, beginning: str) -> int:
    return find_row(screen, table, beginning)[0]


def find_row(screen: Terminal, table: str, beginning: str) -> tuple[int, str]:
    """The place and the text of a row, both of the same moment: the screen may be redrawn at any time."""

    def find() -> tuple[int, str] | None:
        inside = False
        for place, line in enumerate(screen.lines()):
            inside = line.startswith(f"{table} ") or (inside and bool(line))
            if inside and line.startswith(f"{beginning} "):
                return place, line
        return None

    found: tuple[int, str] = until(find, lambda: f"{beginning} among {table} in:\n{screen.text()}")
    return found


def test_the_queue_screen_fits_80_columns_and_follows_the_size_of_the_terminal(
    url: str, queue: JobQueue, connection: Connection[Any]
) -> None:
    register(connection)
    queue.enqueue_many("mail", [{}] * 3, priority=Priority.EXPLICIT)
    queue.enqueue("report", queue="slow")
    job = claim_and_start(queue)
    with terminal("top", "--database-url", url) as screen:
        screen.wait_for("waiting 4", "running 1", "failed 0 in 1h", "workers 1", "? help  q quit")
        assert row_of(screen, "types", "mail").split()[:4] == ["mail", "default", "150", "3"]
        assert row_of(screen, "types", "report").endswith("no worker")
        assert row_of(screen, "workers", "worker-1").split()[:4] == ["worker-1", "cellar", "films,", "mail"]
        assert "1/8" in row_of(screen, "workers", "worker-1")
        assert f"{job.id.hex[-8:]}  ──────────   0%" in row_of(screen, "running", "films")
        queue.progress(job, 40, stage="drawing")
        screen.wait_for("━━━━──────  40%  drawing")
        connection.execute("""update jobs set pace = '{"done": 1220, "total": 2000, "rate": 212.4, "left": 3.7}'
            where status = 'running'""")
        screen.wait_for("212/s       4s")
        assert max(map(len, screen.lines())) <= 80
        screen.resize(140, 45)
        screen.wait_for("workers 1", "r retry  f failed")
        # The rows are drawn one after the other.
        until(lambda: "worker-1" in row_of(screen, "types", "mail"), screen.text)  # the two tables are side by side
        until(lambda: row_of(screen, "running", "films").split()[-2] == "worker-1", screen.text)
        screen.resize(80, 24)
        until(lambda: "worker-1" not in row_of(screen, "types", "mail"), screen.text)
        screen.resize(50, 12)
        screen.wait_for("This terminal is 50x12.\ntreadle top needs at least 60x15.\nq quit")
        screen.resize(80, 24)
        screen.wait_for("mail", "films", "worker-1")
        queue.complete(job)
        screen.wait_for("No jobs are running.")
        assert max(map(len, screen.lines())) <= 80


@pytest.mark.long
def test_help_sorting_and_filtering_by_type(url: str, queue: JobQueue) -> None:
    slow, quick = claim_and_start(queue, "films"), claim_and_start(queue, "mail")
    queue.progress(slow, 10)
    queue.progress(quick, 90)
    queue.enqueue("mail_many")
    with terminal("top", "--database-url", url) as screen:
        screen.wait_for("time▾", "90%", "running 2")
        assert place_of(screen, "running", "films") < place_of(screen, "running", "mail"), (
            "the job that has run longest comes first"
        )
        screen.press("ss")
        screen.wait_for("progress▾")
        until(lambda: place_of(screen, "running", "films") > place_of(screen, "running", "mail"), screen.text)
        screen.press("?")
        screen.wait_for("select a row", "pause or resume the job type of the row")
        screen.press(ESCAPE)
        until(lambda: "select a row" not in screen.text(), screen.text)
        screen.press("/maiq")
        screen.wait_for("type: maiq", "No jobs are running.", "No jobs are waiting.", "Filter by job type: maiq")
        screen.press("\x7f")
        screen.wait_for("running 1 ", "types 2 ")
        until(lambda: "films" not in screen.text(), screen.text)
        screen.press(ENTER)
        screen.wait_for("type: mai", "q quit")
        screen.press(ESCAPE)
        screen.wait_for("films", "running 2 ")
        until(lambda: "type:" not in screen.text(), screen.text)


@pytest.mark.long
def test_a_type_is_paused_after_confirmation(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    register(connection)
    queue.enqueue("mail")
    with terminal("top", "--database-url", url) as screen:
        screen.wait_for("mail", "No jobs are running.")
        screen.press(TAB)
        screen.press("p")
        screen.wait_for("Pause mail? Running jobs continue, no new ones start. yes / no")
        screen.press("n")
        screen.wait_for("q quit")
        assert queue.pauses() == []
        screen.press("p")
        screen.wait_for("Pause mail?")
        screen.press("y")
        screen.wait_for("Paused mail.")
        until(lambda: row_of(screen, "types", "mail").endswith("paused"), screen.text)
        (pause,) = queue.pauses()
        assert (pause.job_type, pause.queue) == ("mail", None)
        assert queue.claim(["mail"]) == []
        screen.press("p")
        screen.wait_for("Resume mail? Paused by top:")
        screen.press("y")
        screen.wait_for("Resumed mail.")
        assert queue.pauses() == []
    rows = connection.execute("select actor ~ '^top:.+', action, job_type from audit order by id").fetchall()
    assert rows == [(True, "pause", "mail"), (True, "resume", "mail")]


def test_jobs_are_cancelled_and_retried_after_confirmation(
    url: str, queue: JobQueue, connection: Connection[Any]
) -> None:
    torn = claim_and_start(queue)
    queue.fail(torn, "the film\nis torn", final=True)
    job = claim_and_start(queue)
    with terminal("top", "--database-url", url) as screen:
        row_of(screen, "running", "films")
        screen.press("r")
        screen.wait_for(f"Retry films {job.id.hex[-8:]}?")
        screen.press("y")
        screen.wait_for("is running and cannot be retried.")
        screen.press("c")
        screen.wait_for(f"Cancel films {job.id.hex[-8:]}?")
        screen.press("y")
        screen.wait_for(f"films {job.id.hex[-8:]} was cancelled.", "No jobs are running.")
        assert queue.get(job.id).status == Status.CANCELLED
        assert one(connection, "select action from audit where job_id = %s and actor like 'top:%%'", job.id) == "cancel"
        screen.press("f")
        screen.wait_for("failed 1 ", "the film is torn", "1/3")
        screen.press("r")
        screen.wait_for("Retry films")
        screen.press("y")
        screen.wait_for("was retried.", "No jobs failed in the last hour.")
        screen.press("f")
        screen.wait_for("No jobs are running.")
    assert queue.get(torn.id).status == Status.PENDING


def test_the_job_screen_is_live(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    job = claim_and_start(queue)
    with terminal("top", "--database-url", url) as screen:
        row_of(screen, "running", "films")
        screen.press(ENTER)
        screen.wait_for(
            str(job.id), "▸ running", "attempt 1 of 3, queue default, priority 100, on worker-1", "events none"
        )
        queue.progress(job, 61, stage="drawing")
        queue.event(job, "drawn", frames=12)
        connection.execute(
            "select keep_logs('worker-1', %s, %s, '{1}', '{1}', '{30}', '{films}', '{the ink is low}', '{0}', 9, 9)",
            [[job.id], [job.lease]],
        )
        screen.wait_for("61%  drawing", "events 1", "drawn  frames=12", "log 1", "WARNING the ink is low")
        queue.event(job, "drawn", frames=13)
        screen.wait_for("events 2", "frames=12", "frames=13")
        queue.fail(job, "the film is torn", final=True)
        screen.wait_for("✗ failed", "failed on attempt 1 of 3", "the film is torn")
        screen.press("r")
        screen.wait_for("Retry films")
        screen.press("y")
        screen.wait_for("· pending")
        screen.press(ESCAPE)
        screen.wait_for("No jobs are running.", "types 1")
