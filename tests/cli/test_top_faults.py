"""treadle top under outages of the database, hostile text, and all kinds of terminals."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
from treadle.cli.top import refresh
from treadle.cli.top.refresh import Refresher
from treadle.db.embedded import leave

TREADLE = str(Path(sys.executable).parent / "treadle")


# A fifth of the intervals and time limits of the command.
QUICK = """
from treadle.cli.top import refresh
refresh.SECONDS /= 5
refresh.TIMEOUT /= 5
refresh.UNAVAILABLE_AFTER /= 5
"""


@pytest.mark.fresh_database
@pytest.mark.long
def test_closed_connections_are_replaced_and_a_network_without_replies_is_shown_and_survived(
    url: str, queue: JobQueue, connection: Connection[Any]
) -> None:
    proxy = Proxy(url)
    job = claim_and_start(queue)
    ours = "select array_agg(pid) from pg_stat_activity where datname = current_database()"
    others = """select count(pg_terminate_backend(pid)) from pg_stat_activity
        where datname = current_database() and application_name = 'treadle' and pid <> all (%s)"""
    before = one(connection, ours)
    try:
        with terminal("top", "--database-url", proxy.url, before=QUICK) as screen:
            screen.wait_for("films", "running 1")
            for percent in (10, 20, 30):
                until(lambda: one(connection, others, before))
                queue.progress(job, percent)
                screen.wait_for(f"{percent}%")
            assert "Traceback" not in screen.text()
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


def test_an_outage_of_the_database_is_shown_and_survived(server_folder: Path) -> None:
    server = Server(server_folder)
    with JobQueue(server.url, "worker-1") as queue:
        claim_and_start(queue)
    with terminal("top", "--database-url", server.url, before=QUICK) as screen:
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


def test_a_pool_that_fails_twice_is_replaced(url: str, queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait longer and longer between its attempts to reconnect."""
    monkeypatch.setattr(refresh, "TIMEOUT", 1.0)
    proxy = Proxy(url)
    app = Treadle(proxy.url)

    async def fail_twice() -> None:
        refresher = Refresher(app)
        while await refresher.refresh() is None:  # the first one may time out on a busy machine
            pass
        assert refresher.unavailable_for is None
        proxy.close()
        pool = vars(app.database.origin)["_apool"]
        while vars(app.database.origin)["_apool"] is pool:
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
        screen.wait_for("types")
        screen.press("f")
        screen.wait_for("torn", "[2J ]0;t [red] 31m", "1/3")
        for sequence in (b"\x1b[2J\x1b]", b"\x1b]0;", "\x9b31m".encode(), "\u202e".encode()):
            assert sequence not in screen.raw


class Kind(NamedTuple):
    """A kind of terminal, and what is sent to it and what is not."""

    environment: dict[str, str]
    shown: str = "━━━━━─────  50%  zürich"
    sent: tuple[bytes, ...] = ()
    not_sent: tuple[bytes, ...] = ()


BLUE = b"34;49m"
KINDS = {
    "xterm": Kind(
        {"COLORTERM": "truecolor"},
        sent=(BLUE,),
        # Only the 16 colours of the palette; and no mouse, so that text can be selected and copied.
        not_sent=(b"8;2;", b"\x1b[?1000h"),
    ),
    "without colours": Kind({"NO_COLOR": "1"}, not_sent=(BLUE,)),
    "screen": Kind({"TERM": "screen"}),
    "linux": Kind({"TERM": "linux"}),
    # It replaces the characters that the encoding lacks.
    "ascii": Kind({"PYTHONIOENCODING": "ascii"}, shown="50%  z?rich"),
}


WAYS_OUT: dict[str, str | signal.Signals] = {
    "xterm": "q",
    "without colours": signal.SIGTERM,
    "screen": "\x03",
    "linux": signal.SIGHUP,
    "ascii": signal.SIGINT,
}


@pytest.mark.long
def test_a_terminal_of_any_kind_is_restored_by_every_way_out(url: str, queue: JobQueue) -> None:
    queue.progress(claim_and_start(queue), 50, stage="zürich")
    with ThreadPoolExecutor(len(WAYS_OUT)) as threads:
        list(threads.map(partial(is_restored, url), WAYS_OUT))


def is_restored(url: str, kind: str) -> None:
    way_out = WAYS_OUT[kind]
    environment, shown, sent, not_sent = KINDS[kind]
    with terminal("top", "--database-url", f"{url} password=opensesame", columns=80, rows=24, **environment) as screen:
        screen.wait_for(shown)
        screen.press(TAB)
        screen.press("s")
        screen.wait_for("oldest▾" if kind != "ascii" else "oldest?")
        assert not screen.echoes()
        if isinstance(way_out, str):
            screen.press(way_out)
        else:
            screen.process.send_signal(way_out)
        assert screen.wait_for_exit() == 0
        assert screen.raw.count(b"\x1b[?1049h") == screen.raw.count(b"\x1b[?1049l") == 1
        assert screen.raw.endswith(b"\x1b[?25h") or b"\x1b[?25h" in screen.raw.split(b"\x1b[?1049l")[1]
        assert screen.echoes()
        assert all(each in screen.raw for each in sent)
        assert not any(each in screen.raw for each in not_sent)
        assert b"opensesame" not in screen.raw


def test_it_exits_when_the_terminal_is_closed(url: str, queue: JobQueue) -> None:
    with terminal("top", "--database-url", url) as screen:
        screen.wait_for("No jobs are running.")
        screen.hang_up()
        screen.process.wait(30)


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


@pytest.mark.long
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
                screen.wait_for("types 1")
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
