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
    is_locked,
    is_running,
    kill_server,
    one_value,
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


def test_a_killed_user_leaves_the_server_to_the_next(server_folder: Path) -> None:
    with User(server_folder) as killed:
        postmaster = killed.postmaster
        killed.kill()
        with User(server_folder) as following:
            assert following.postmaster == postmaster
            following.exit()
        wait_until_stopped(postmaster)


def test_an_interrupt_from_the_keyboard_is_not_for_the_server(server_folder: Path) -> None:
    with User(server_folder) as interrupted:
        assert is_running(interrupted.postmaster)  # it has started the server before the other comes
        with User(server_folder) as other:
            assert other.postmaster == interrupted.postmaster
            os.killpg(interrupted.process.pid, signal.SIGINT)
            interrupted.process.wait(SECONDS)
            assert other.run("join")["postmaster"] == other.postmaster


def test_a_killed_server_comes_back_with_its_data(server_folder: Path) -> None:
    with User(server_folder) as killed:
        with psycopg.connect(killed.start["url"]) as connection:
            connection.execute("create table kept as select 42 as answer")
        kill_server(killed)
        killed.kill()
    url = embedded_url(server_folder, QUICK)
    assert one_value(url, "select answer from kept") == 42


def test_a_process_gets_back_its_own_killed_server(server_folder: Path) -> None:
    with User(server_folder) as user:
        kill_server(user)
        restarted = user.run("join")["postmaster"]
        assert restarted != user.postmaster
        user.exit()
        wait_until_stopped(restarted)


def test_a_server_that_is_still_dying_is_waited_for(server_folder: Path) -> None:
    with User(server_folder) as user, psycopg.connect(user.start["url"]) as connection:
        # A stopped process of the old server still holds its memory when the new one wants to start.
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        os.kill(user.postmaster, signal.SIGKILL)
        with User(server_folder) as following:
            user.kill()
            wait_until(lambda: is_locked(server_folder / "users"), "the following process is about to start")
            os.kill(backend, signal.SIGCONT)
            assert following.postmaster != user.postmaster


def test_a_stale_process_id_does_not_stand_in_the_way(server_folder: Path, innocent: int) -> None:
    with User(server_folder) as killed:
        kill_server(killed)
        killed.kill()
    give_process_id(server_folder, innocent)
    assert one_value(embedded_url(server_folder, QUICK), "select 1") == 1
    assert is_running(innocent)


def test_a_stale_process_id_is_not_stopped(server_folder: Path, innocent: int) -> None:
    with User(server_folder) as user:
        kill_server(user)
        give_process_id(server_folder, innocent)
        user.exit()
    assert is_running(innocent)


def give_process_id(server_folder: Path, pid: int) -> None:
    for stale in (server_folder / "data" / "postmaster.pid", server_folder / "data" / ".s.PGSQL.5432.lock"):
        _, *rest = stale.read_text().splitlines(keepends=True)
        stale.write_text("".join([f"{pid}\n", *rest]))


def test_a_first_start_killed_half_way_is_begun_again(new_server_folder: Path) -> None:
    with User(new_server_folder) as killed:
        wait_until(lambda: any(new_server_folder.glob("data.*/PG_VERSION")), "initdb is at work")
        ask = ["pgrep", "-P", str(killed.process.pid), "initdb"]
        initdb = int(subprocess.run(ask, capture_output=True, check=True).stdout)
        os.kill(initdb, signal.SIGSTOP)
        killed.kill()
    assert not (new_server_folder / "data").exists()
    # Whoever comes next waits for the end of it, else the two would write and delete the same files.
    assert is_locked(new_server_folder / "server")
    os.kill(initdb, signal.SIGCONT)
    assert one_value(embedded_url(new_server_folder, QUICK), "select 1") == 1
    assert not list(new_server_folder.glob("data.*"))


def test_a_failed_start_says_what_the_log_says(server_folder: Path) -> None:
    with pytest.raises(EmbeddedFailed, match="exited during startup") as failure:
        embedded_url(server_folder, {"shared_buffers": "plenty"})
    assert 'invalid value for parameter "shared_buffers": "plenty"' in str(failure.value)
    assert str(server_folder / "data" / "server.log") in str(failure.value)
    # Nothing of the failure stays: the next start works, and its end is the end of the server.
    assert one_value(embedded_url(server_folder, QUICK), "select 1") == 1
    leave(server_folder)
    wait_until(lambda: not is_locked(server_folder / "server"), "the server stops")


def test_a_child_forked_during_the_start_is_not_taken_for_the_server(new_server_folder: Path) -> None:
    with User(new_server_folder, "--fork-while-starting") as parent:
        kill_server(parent)
        assert is_running(parent.start["child"])
        assert parent.run("join")["postmaster"] != parent.postmaster
