"""What treadle top lives through: a database that goes away, hostile text, terminals of all sorts, and none."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chaos.proxy import Proxy
from chaos.servers import Server
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from tests.apps import held
from tests.roles import granted
from tests.screens import terminal
from tests.test_top import ENTER, ESCAPE, TAB, register, row_of
from tests.workers import one, until
from treadle import JobQueue, Treadle, migrate
from treadle.cli.top.looks import Looks
from treadle.db.embedded import leave

TREADLE = str(Path(sys.executable).parent / "treadle")


def test_a_cut_connection_is_made_again(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    job = held(queue)
    ours = "select array_agg(pid) from pg_stat_activity where datname = current_database()"
    others = """select count(pg_terminate_backend(pid)) from pg_stat_activity
        where datname = current_database() and application_name = 'treadle' and pid <> all (%s)"""
    before = one(connection, ours)
    with terminal("top", "--database-url", url) as screen:
        screen.shows("films", "running 1")
        for percent in (10, 20, 30):
            until(lambda: one(connection, others, before))
            queue.progress(job, percent)
            screen.shows(f"{percent}%")
        screen.press("q")
        assert screen.ended() == 0
        assert "Traceback" not in screen.text()


def test_a_database_that_is_away_is_said_and_waited_for(folder: Path) -> None:
    server = Server(folder)
    with JobQueue(server.url, "worker-1") as queue:
        held(queue)
    with terminal("top", "--database-url", server.url) as screen:
        screen.shows("films", "running 1")
        server.crash()
        screen.shows("the database is away for", "trying again", "films")
        screen.press("c")
        screen.shows("Cancel films")
        screen.press("y")
        screen.shows("it may not have been done: ")
        server.come_back()
        until(lambda: "the database is away" not in screen.text(), screen.text, 60)
        with JobQueue(server.url, "worker-1") as queue:
            held(queue, "later")
        screen.shows("later")
        screen.press("q")
        assert screen.ended() == 0
    leave(folder)


def test_a_network_that_falls_silent_is_said_and_waited_for(url: str, queue: JobQueue) -> None:
    proxy = Proxy(url)
    held(queue)
    try:
        with terminal("top", "--database-url", proxy.url) as screen:
            screen.shows("films", "running 1")
            proxy.go_silent()
            screen.shows("the database is away for")
            held(queue, "later")
            screen.shows("later", seconds=60)
            proxy.go_silent()
            screen.shows("the database is away for")
            screen.press("q")
            assert screen.ended() == 0
            assert re.fullmatch(rb"(\x1b\[[^a-zA-Z]*[a-zA-Z]|\s)*", screen.raw.split(b"\x1b[?1049l")[1]), "no warnings"
    finally:
        proxy.close()


def test_a_pool_that_fails_again_is_left(url: str, queue: JobQueue) -> None:
    """It would wait longer and longer between its attempts."""
    proxy = Proxy(url)
    app = Treadle(proxy.url)

    async def look() -> None:
        looks = Looks(app)
        while await looks.glance() is None:  # on a busy machine it may be slow at first
            pass
        assert looks.away is None
        proxy.close()
        pool = app.database._async
        while app.database._async is pool:
            assert await looks.glance() is None
        assert looks.away is not None
        await app.aclose()

    asyncio.run(look())


def test_what_is_stored_cannot_touch_the_terminal(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    hostile = "\x1b[2J\x1b]0;t\x07[red]\x9b31m\u202e"
    job = held(queue)
    queue.enqueue("mail")
    queue.fail(held(queue, "torn"), hostile, final=True)
    register(connection, f"w{hostile}")
    connection.execute("update workers set host = %s, job_types = array[%s]", [hostile, hostile])
    connection.execute("update lanes set job_type = %s, queue = %s where job_type = 'mail'", [hostile, f"q{hostile}"])
    connection.execute(
        "update jobs set current_stage = %s, worker_id = %s, job_type = %s, queue = %s, last_error = %s where id = %s",
        [hostile, hostile, f"f{hostile}", f"q{hostile}", hostile, job.id],
    )
    connection.execute("select record_event(%s, %s, jsonb_build_object('a', %s::text))", [job.id, hostile, hostile])
    connection.execute(
        """insert into logs (job_id, number, attempt, lease, sequence, level, logger, message, logged_at)
            values (%s, 1, 1, 1, 1, 20, %s, %s, now())""",
        [job.id, hostile, hostile],
    )
    connection.execute("select pause(%s, null, %s, %s)", [f"f{hostile}", hostile, hostile])
    with terminal("top", "--database-url", url, columns=140, rows=40) as screen:
        screen.shows("f [2J ]0;t [red] 31m", "w [2J ]0;t", "q [2J")
        screen.press("p")
        screen.shows("Resume f [2J ]0;t [red] 31m? Paused by [2J ]0;t [red] 31m at ")
        screen.press("n")
        screen.press(ENTER)
        screen.shows("events 1", "log 1", "queue q [2J ]0;t [red] 31m", "a=[2J", "INFO")
        screen.press(ESCAPE)
        screen.shows("lanes")
        screen.press("f")
        screen.shows("torn", "[2J ]0;t [red] 31m", "1/3")
        for sequence in (b"\x1b[2J\x1b]", b"\x1b]0;", "\x9b31m".encode(), "\u202e".encode()):
            assert sequence not in screen.raw


def test_the_password_is_nowhere(url: str, queue: JobQueue) -> None:
    with terminal("top", "--database-url", f"{url} password=opensesame") as screen:
        screen.shows("nothing runs")
        assert b"opensesame" not in screen.raw


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_terminal_as_it_was(url: str, queue: JobQueue, number: int) -> None:
    with terminal("top", "--database-url", url) as screen:
        screen.shows("nothing runs")
        assert not screen.echoes()
        screen.process.send_signal(number)
        assert screen.ended() == 0
        assert b"\x1b[?1049l" in screen.raw
        assert screen.echoes()


def test_a_terminal_that_is_closed_ends_it(url: str, queue: JobQueue) -> None:
    with terminal("top", "--database-url", url) as screen:
        screen.shows("nothing runs")
        screen.hang_up()
        screen.process.wait(30)


def test_without_colour(url: str, queue: JobQueue) -> None:
    queue.progress(held(queue), 50)
    with terminal("top", "--database-url", url, NO_COLOR="1") as screen:
        screen.shows("━━━━━─────  50%")
        assert b"34;49m" not in screen.raw


def test_colours_and_mouse_stay_the_terminals_own(url: str, queue: JobQueue) -> None:
    queue.progress(held(queue), 50)
    with terminal("top", "--database-url", url, COLORTERM="truecolor") as screen:
        screen.shows("━━━━━─────  50%")
        assert b"34;49m" in screen.raw, "blue"
        assert b"8;2;" not in screen.raw, "no colour but those that somebody has chosen"
        assert b"\x1b[?1000h" not in screen.raw, "text can be marked and copied"


@pytest.mark.parametrize("kind", ["screen", "linux"])
def test_terminals_of_other_kinds(url: str, queue: JobQueue, kind: str) -> None:
    queue.progress(held(queue), 50)
    with terminal("top", "--database-url", url, TERM=kind) as screen:
        screen.shows("━━━━━─────  50%")
        screen.press(TAB)
        screen.press("s")
        screen.shows("since▾")
        screen.press("q")
        assert screen.ended() == 0


def test_letters_that_a_terminal_has_not(url: str, queue: JobQueue) -> None:
    queue.progress(held(queue), 50, stage="zürich")
    with terminal("top", "--database-url", url, PYTHONIOENCODING="ascii") as screen:
        screen.shows("50%  z?rich")
        screen.press("q")
        assert screen.ended() == 0


def said(*arguments: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [*arguments], capture_output=True, text=True, check=False, timeout=60, env=os.environ | environment
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_without_a_terminal_it_says_what_there_is(url: str) -> None:
    code, error = said(TREADLE, "top", "--database-url", url)
    assert code == 1
    assert error == (
        "Error: treadle top draws on a terminal, and this is none; for a pipe there are: treadle stats, treadle watch\n"
    )


def test_a_dumb_terminal_is_none(url: str) -> None:
    with terminal("top", "--database-url", url, TERM="dumb") as screen:
        assert screen.ended() == 1
        assert "treadle top draws on a terminal" in screen.text()


def test_without_the_library_it_says_what_to_install(url: str) -> None:
    code = "import sys; sys.modules['textual'] = None; from treadle.cli import main; main()"
    assert said(sys.executable, "-c", code, "top", "--database-url", url) == (
        1,
        'Error: treadle top needs a library that is not installed; run: pip install "treadle[top]"\n',
    )


def test_a_database_that_is_not_there_is_a_sentence(url: str) -> None:
    with terminal("top", "--database-url", make_conninfo(url, dbname="nowhere")) as screen:
        assert screen.ended() == 1
        assert screen.text().startswith("Error: ")
        assert "Traceback" not in screen.text()
        assert b"\x1b[?1049h" not in screen.raw


def test_a_viewer_looks_and_an_operator_acts(empty_url: str) -> None:
    migrate(empty_url)
    with JobQueue(empty_url, "worker-1") as queue, granted(empty_url) as roles:
        queue.event(held(queue), "drawn")
        for group, said in (("viewer", "may not"), ("operator", "paused films")):
            with terminal("top", "--database-url", roles.url_of(group)) as screen:
                screen.shows("films", "running 1")
                screen.press(ENTER)
                screen.shows("events 1", "log none")
                screen.press(ESCAPE)
                screen.shows("lanes 1")
                screen.press("f")
                screen.shows("nothing failed")
                screen.press("f")
                row_of(screen, "running", "films")
                screen.press("p")
                screen.shows("Pause films?")
                screen.press("y")
                screen.shows(said)
        assert [pause.job_type for pause in queue.pauses()] == ["films"]
        with terminal("top", "--database-url", roles.url_of("enqueue")) as screen:
            assert screen.ended() == 1
            assert "Error: " in screen.text()
            assert "Traceback" not in screen.text()
