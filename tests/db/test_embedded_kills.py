"""The embedded server among kills: of its users, of itself, and half way through its start."""

import os
import pwd
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.embedded_server import (
    QUICK,
    SECONDS,
    User,
    held,
    kill_server,
    one_value,
    runs,
    wait_until,
    wait_until_stopped,
)
from treadle.db.embedded import embedded_url, leave
from treadle.words.errors import EmbeddedFailed


@pytest.fixture
def innocent() -> Iterator[int]:
    """A process of the account that the server runs as, but not of the server."""
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    with subprocess.Popen(["/bin/sleep", "600"], user=user) as process:
        yield process.pid
        process.kill()


def test_a_killed_user_leaves_the_server_to_the_next(folder: Path) -> None:
    with User(folder) as killed:
        postmaster = killed.postmaster
        killed.kill()
        with User(folder) as following:
            assert following.postmaster == postmaster
            following.exit()
        wait_until_stopped(postmaster)


def test_an_interrupt_from_the_keyboard_is_not_for_the_server(folder: Path) -> None:
    with User(folder) as interrupted:
        assert runs(interrupted.postmaster)  # it has started the server before the other comes
        with User(folder) as other:
            assert other.postmaster == interrupted.postmaster
            os.killpg(interrupted.process.pid, signal.SIGINT)
            interrupted.process.wait(SECONDS)
            assert other.do("join")["postmaster"] == other.postmaster


def test_a_killed_server_comes_back_with_its_data(folder: Path) -> None:
    with User(folder) as killed:
        with psycopg.connect(killed.start["url"]) as connection:
            connection.execute("create table kept as select 42 as answer")
        kill_server(killed)
        killed.kill()
    url = embedded_url(folder, QUICK)
    assert one_value(url, "select answer from kept") == 42


def test_a_process_gets_back_its_own_killed_server(folder: Path) -> None:
    with User(folder) as user:
        kill_server(user)
        restarted = user.do("join")["postmaster"]
        assert restarted != user.postmaster
        user.exit()
        wait_until_stopped(restarted)


def test_a_server_that_is_still_dying_is_waited_for(folder: Path) -> None:
    with User(folder) as user, psycopg.connect(user.start["url"]) as connection:
        # A stopped process of the old server still holds its memory when the new one wants to start.
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        os.kill(user.postmaster, signal.SIGKILL)
        with User(folder) as following:
            user.kill()
            wait_until(lambda: held(folder / "users"), "the following process is about to start")
            os.kill(backend, signal.SIGCONT)
            assert following.postmaster != user.postmaster


def test_a_stale_process_id_does_not_stand_in_the_way(folder: Path, innocent: int) -> None:
    with User(folder) as killed:
        kill_server(killed)
        killed.kill()
    give_process_id(folder, innocent)
    assert one_value(embedded_url(folder, QUICK), "select 1") == 1
    assert runs(innocent)


def test_a_stale_process_id_is_not_stopped(folder: Path, innocent: int) -> None:
    with User(folder) as user:
        kill_server(user)
        give_process_id(folder, innocent)
        user.exit()
    assert runs(innocent)


def give_process_id(folder: Path, pid: int) -> None:
    for stale in (folder / "data" / "postmaster.pid", folder / "data" / ".s.PGSQL.5432.lock"):
        _, *rest = stale.read_text().splitlines(keepends=True)
        stale.write_text("".join([f"{pid}\n", *rest]))


def test_a_first_start_killed_half_way_is_begun_again(fresh: Path) -> None:
    with User(fresh) as killed:
        wait_until(lambda: any(fresh.glob("data.*/PG_VERSION")), "initdb is at work")
        ask = ["pgrep", "-P", str(killed.process.pid), "initdb"]
        initdb = int(subprocess.run(ask, capture_output=True, check=True).stdout)
        os.kill(initdb, signal.SIGSTOP)
        killed.kill()
    assert not (fresh / "data").exists()
    # Whoever comes next waits for the end of it, else the two would write and delete the same files.
    assert held(fresh / "server")
    os.kill(initdb, signal.SIGCONT)
    assert one_value(embedded_url(fresh, QUICK), "select 1") == 1
    assert not list(fresh.glob("data.*"))


def test_a_failed_start_says_what_the_log_says(folder: Path) -> None:
    with pytest.raises(EmbeddedFailed, match="exited during startup") as failure:
        embedded_url(folder, {"shared_buffers": "plenty"})
    assert 'invalid value for parameter "shared_buffers": "plenty"' in str(failure.value)
    assert str(folder / "data" / "server.log") in str(failure.value)
    # Nothing of the failure stays: the next start works, and its end is the end of the server.
    assert one_value(embedded_url(folder, QUICK), "select 1") == 1
    leave(folder)
    wait_until(lambda: not held(folder / "server"), "the server stops")


def test_a_child_forked_during_the_start_is_not_taken_for_the_server(fresh: Path) -> None:
    with User(fresh, "--fork-while-starting") as parent:
        kill_server(parent)
        assert runs(parent.start["child"])
        assert parent.do("join")["postmaster"] != parent.postmaster
