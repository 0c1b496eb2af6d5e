"""The embedded server after kills: of its users, of itself, and during its start."""

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
def unrelated_process() -> Iterator[int]:
    """A process under the account of the server that does not belong to the server."""
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    with subprocess.Popen(["/bin/sleep", "600"], user=user) as process:
        yield process.pid
        process.kill()


def test_the_next_user_takes_over_the_server_of_a_killed_user(server_folder: Path) -> None:
    with User(server_folder) as killed:
        postmaster = killed.postmaster
        killed.kill()
        with User(server_folder) as following:
            assert following.postmaster == postmaster
            following.exit()
        wait_until_stopped(postmaster)


def test_a_keyboard_interrupt_does_not_stop_the_server(server_folder: Path) -> None:
    with User(server_folder) as interrupted:
        assert is_running(interrupted.postmaster)  # it has started the server before the second user joins
        with User(server_folder) as other:
            assert other.postmaster == interrupted.postmaster
            os.killpg(interrupted.process.pid, signal.SIGINT)
            interrupted.process.wait(SECONDS)
            assert other.run("join")["postmaster"] == other.postmaster


def test_a_killed_server_is_started_again_with_its_data(server_folder: Path) -> None:
    with User(server_folder) as killed:
        with psycopg.connect(killed.start["url"]) as connection:
            connection.execute("create table kept as select 42 as answer")
        kill_server(killed)
        killed.kill()
    url = embedded_url(server_folder, QUICK)
    assert one_value(url, "select answer from kept") == 42


def test_a_process_restarts_its_own_killed_server(server_folder: Path) -> None:
    with User(server_folder) as user:
        kill_server(user)
        restarted = user.run("join")["postmaster"]
        assert restarted != user.postmaster
        user.exit()
        wait_until_stopped(restarted)


def test_a_start_waits_until_the_old_server_is_gone(server_folder: Path) -> None:
    with User(server_folder) as user, psycopg.connect(user.start["url"]) as connection:
        # A stopped process of the old server still holds its shared memory when the new server starts.
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        os.kill(user.postmaster, signal.SIGKILL)
        with User(server_folder) as following:
            user.kill()
            wait_until(lambda: is_locked(server_folder / "users"), "the following process is about to start")
            os.kill(backend, signal.SIGCONT)
            assert following.postmaster != user.postmaster


def test_a_stale_process_id_does_not_prevent_a_start(server_folder: Path, unrelated_process: int) -> None:
    with User(server_folder) as killed:
        kill_server(killed)
        killed.kill()
    write_process_id(server_folder, unrelated_process)
    assert one_value(embedded_url(server_folder, QUICK), "select 1") == 1
    assert is_running(unrelated_process)


def test_the_process_with_a_stale_process_id_is_not_stopped(server_folder: Path, unrelated_process: int) -> None:
    with User(server_folder) as user:
        kill_server(user)
        write_process_id(server_folder, unrelated_process)
        user.exit()
    assert is_running(unrelated_process)


def write_process_id(server_folder: Path, pid: int) -> None:
    for stale in (server_folder / "data" / "postmaster.pid", server_folder / "data" / ".s.PGSQL.5432.lock"):
        _, *rest = stale.read_text().splitlines(keepends=True)
        stale.write_text("".join([f"{pid}\n", *rest]))


@pytest.mark.long
def test_a_first_start_that_was_killed_is_repeated(new_server_folder: Path) -> None:
    with User(new_server_folder) as killed:
        wait_until(lambda: any(new_server_folder.glob("data.*/PG_VERSION")), "initdb is at work")
        ask = ["pgrep", "-P", str(killed.process.pid), "initdb"]
        initdb = int(subprocess.run(ask, capture_output=True, check=True).stdout)
        os.kill(initdb, signal.SIGSTOP)
        killed.kill()
    assert not (new_server_folder / "data").exists()
    # The next user waits until it has finished; otherwise both would write and delete the same files.
    assert is_locked(new_server_folder / "server")
    os.kill(initdb, signal.SIGCONT)
    assert one_value(embedded_url(new_server_folder, QUICK), "select 1") == 1
    assert not list(new_server_folder.glob("data.*"))


def test_the_error_of_a_failed_start_quotes_the_log(server_folder: Path) -> None:
    with pytest.raises(EmbeddedFailed, match="exited during startup") as failure:
        embedded_url(server_folder, {"shared_buffers": "plenty"})
    assert 'invalid value for parameter "shared_buffers": "plenty"' in str(failure.value)
    assert str(server_folder / "data" / "server.log") in str(failure.value)
    # The failure leaves nothing behind: the next start works, and the server stops with its user.
    assert one_value(embedded_url(server_folder, QUICK), "select 1") == 1
    leave(server_folder)
    wait_until(lambda: not is_locked(server_folder / "server"), "the server stops")


def test_a_child_forked_during_the_start_is_not_taken_for_the_server(new_server_folder: Path) -> None:
    with User(new_server_folder, "--fork-while-starting") as parent:
        kill_server(parent)
        assert is_running(parent.start["child"])
        assert parent.run("join")["postmaster"] != parent.postmaster
