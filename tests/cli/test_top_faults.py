"""treadle top under outages of the database, hostile text, and all kinds of terminals."""

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

from tests.cli.test_top import ENTER, ESCAPE, TAB, register, row_of
from tests.support.apps import claim_and_start
from tests.support.roles import granted_roles
from tests.support.screens import terminal
from tests.support.workers import one, until
from treadle import JobQueue, Treadle, migrate
from treadle.cli.top.refresh import Refresher
from treadle.db.embedded import leave

TREADLE = str(Path(sys.executable).parent / "treadle")


@pytest.mark.fresh_database
def test_a_closed_connection_is_replaced(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    job = claim_and_start(queue)
    ours = "select array_agg(pid) from pg_stat_activity where datname = current_database()"
    others = """select count(pg_terminate_backend(pid)) from pg_stat_activity
        where datname = current_database() and application_name = 'treadle' and pid <> all (%s)"""
    before = one(connection, ours)
    with terminal("top", "--database-url", url) as screen:
        screen.wait_for("films", "running 1")
        for percent in (10, 20, 30):
            until(lambda: one(connection, others, before))
            queue.progress(job, percent)
            screen.wait_for(f"{percent}%")
        screen.press("q")
        assert screen.wait_for_exit() == 0
        assert "Traceback" not in screen.text()


def test_an_outage_of_the_database_is_shown_and_survived(server_folder: Path) -> None:
    server = Server(server_folder)
    with JobQueue(server.url, "worker-1") as queue:
        claim_and_start(queue)
    with terminal("top", "--database-url", server.url) as screen:
        screen.wait_for("films", "running 1")
        server.crash()
        screen.wait_for("database unavailable for", "retrying", "films")
        screen.press("c")
        screen.wait_for("Cancel films")
        screen.press("y")
        screen.wait_for("The change may not have been made: ")
        server.come_back()
        until(lambda: "database unavailable" not in screen.text(), screen.text, 60)
        with JobQueue(server.url, "worker-1") as queue:
            claim_and_start(queue, "later")
        screen.wait_for("later")
        screen.press("q")
        assert screen.wait_for_exit() == 0
    leave(server_folder)


def test_a_network_without_replies_is_shown_and_survived(url: str, queue: JobQueue) -> None:
    proxy = Proxy(url)
    claim_and_start(queue)
    try:
        with terminal("top", "--database-url", proxy.url) as screen:
            screen.wait_for("films", "running 1")
            proxy.go_silent()
            screen.wait_for("database unavailable for")
            claim_and_start(queue, "later")
            screen.wait_for("later", seconds=60)
            proxy.go_silent()
            screen.wait_for("database unavailable for")
            screen.press("q")
            assert screen.wait_for_exit() == 0
            assert re.fullmatch(rb"(\x1b\[[^a-zA-Z]*[a-zA-Z]|\s)*", screen.raw.split(b"\x1b[?1049l")[1]), "no warnings"
    finally:
        proxy.close()


def test_a_pool_that_fails_twice_is_replaced(url: str, queue: JobQueue) -> None:
    """It would wait longer and longer between its attempts to reconnect."""
    proxy = Proxy(url)
    app = Treadle(proxy.url)

    async def fail_twice() -> None:
        refresher = Refresher(app)
        while await refresher.refresh() is None:  # the first one may time out on a busy machine
            pass
        assert refresher.unavailable_for is None
        proxy.close()
        pool = app.database._async
        while app.database._async is pool:
            assert await refresher.refresh() is None
        assert refresher.unavailable_for is not None
        await app.aclose()

    asyncio.run(fail_twice())


def test_control_characters_do_not_reach_the_terminal(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    hostile = "\x1b[2J\x1b]0;t\x07[red]\x9b31m\u202e"
    job = claim_and_start(queue)
    queue.enqueue("mail")
    queue.fail(claim_and_start(queue, "torn"), hostile, final=True)
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
        screen.wait_for("f [2J ]0;t [red] 31m", "w [2J ]0;t", "q [2J")
        screen.press("p")
        screen.wait_for("Resume f [2J ]0;t [red] 31m? Paused by [2J ]0;t [red] 31m at ")
        screen.press("n")
        screen.press(ENTER)
        screen.wait_for("events 1", "log 1", "queue q [2J ]0;t [red] 31m", "a=[2J", "INFO")
        screen.press(ESCAPE)
        screen.wait_for("lanes")
        screen.press("f")
        screen.wait_for("torn", "[2J ]0;t [red] 31m", "1/3")
        for sequence in (b"\x1b[2J\x1b]", b"\x1b]0;", "\x9b31m".encode(), "\u202e".encode()):
            assert sequence not in screen.raw


def test_the_password_is_not_shown(url: str, queue: JobQueue) -> None:
    with terminal("top", "--database-url", f"{url} password=opensesame") as screen:
        screen.wait_for("No jobs are running.")
        assert b"opensesame" not in screen.raw


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_restores_the_terminal(url: str, queue: JobQueue, number: int) -> None:
    with terminal("top", "--database-url", url) as screen:
        screen.wait_for("No jobs are running.")
        assert not screen.echoes()
        screen.process.send_signal(number)
        assert screen.wait_for_exit() == 0
        assert b"\x1b[?1049l" in screen.raw
        assert screen.echoes()


def test_it_exits_when_the_terminal_is_closed(url: str, queue: JobQueue) -> None:
    with terminal("top", "--database-url", url) as screen:
        screen.wait_for("No jobs are running.")
        screen.hang_up()
        screen.process.wait(30)


def test_no_color_disables_colours(url: str, queue: JobQueue) -> None:
    queue.progress(claim_and_start(queue), 50)
    with terminal("top", "--database-url", url, NO_COLOR="1") as screen:
        screen.wait_for("━━━━━─────  50%")
        assert b"34;49m" not in screen.raw


def test_it_uses_the_terminal_palette_and_no_mouse(url: str, queue: JobQueue) -> None:
    queue.progress(claim_and_start(queue), 50)
    with terminal("top", "--database-url", url, COLORTERM="truecolor") as screen:
        screen.wait_for("━━━━━─────  50%")
        assert b"34;49m" in screen.raw, "blue"
        assert b"8;2;" not in screen.raw, "only the 16 colours of the palette"
        assert b"\x1b[?1000h" not in screen.raw, "text can be selected and copied"


@pytest.mark.parametrize("kind", ["screen", "linux"])
def test_other_terminal_types(url: str, queue: JobQueue, kind: str) -> None:
    queue.progress(claim_and_start(queue), 50)
    with terminal("top", "--database-url", url, TERM=kind) as screen:
        screen.wait_for("━━━━━─────  50%")
        screen.press(TAB)
        screen.press("s")
        screen.wait_for("oldest▾")
        screen.press("q")
        assert screen.wait_for_exit() == 0


def test_characters_missing_in_the_encoding_are_replaced(url: str, queue: JobQueue) -> None:
    queue.progress(claim_and_start(queue), 50, stage="zürich")
    with terminal("top", "--database-url", url, PYTHONIOENCODING="ascii") as screen:
        screen.wait_for("50%  z?rich")
        screen.press("q")
        assert screen.wait_for_exit() == 0


def said(*arguments: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [*arguments], capture_output=True, text=True, check=False, timeout=60, env=os.environ | environment
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_without_a_terminal_it_names_the_alternatives(url: str) -> None:
    code, error = said(TREADLE, "top", "--database-url", url)
    assert code == 1
    assert error == ("Error: treadle top needs a terminal; use treadle stats or treadle watch in a pipe or a script\n")


def test_a_dumb_terminal_is_refused(url: str) -> None:
    with terminal("top", "--database-url", url, TERM="dumb") as screen:
        assert screen.wait_for_exit() == 1
        assert "treadle top needs a terminal" in screen.text()


def test_without_textual_it_says_what_to_install(url: str) -> None:
    code = "import sys; sys.modules['textual'] = None; from treadle.cli import main; main()"
    assert said(sys.executable, "-c", code, "top", "--database-url", url) == (
        1,
        'Error: treadle top needs a library that is not installed; run: pip install "treadle[top]"\n',
    )


def test_an_unreachable_database_is_one_sentence(url: str) -> None:
    with terminal("top", "--database-url", make_conninfo(url, dbname="nowhere")) as screen:
        assert screen.wait_for_exit() == 1
        assert screen.text().startswith("Error: ")
        assert "Traceback" not in screen.text()
        assert b"\x1b[?1049h" not in screen.raw


def test_a_viewer_can_look_and_an_operator_can_act(empty_url: str) -> None:
    migrate(empty_url)
    with JobQueue(empty_url, "worker-1") as queue, granted_roles(empty_url) as roles:
        queue.event(claim_and_start(queue), "drawn")
        for group, said in (("viewer", "may not"), ("operator", "Paused films.")):
            with terminal("top", "--database-url", roles.url_of(group)) as screen:
                screen.wait_for("films", "running 1")
                screen.press(ENTER)
                screen.wait_for("events 1", "log none")
                screen.press(ESCAPE)
                screen.wait_for("lanes 1")
                screen.press("f")
                screen.wait_for("No jobs failed")
                screen.press("f")
                row_of(screen, "running", "films")
                screen.press("p")
                screen.wait_for("Pause films?")
                screen.press("y")
                screen.wait_for(said)
        assert [pause.job_type for pause in queue.pauses()] == ["films"]
        with terminal("top", "--database-url", roles.url_of("enqueue")) as screen:
            assert screen.wait_for_exit() == 1
            assert "Error: " in screen.text()
            assert "Traceback" not in screen.text()
