"""The users of the embedded server: real processes that join, leave and fork."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tests.support.embedded_server import QUICK, User, is_locked, is_running, one_value, wait_until, wait_until_stopped
from treadle.db.embedded import embedded_url, leave


def test_threads_that_start_at_once_share_one_server(new_server_folder: Path) -> None:
    together = threading.Barrier(8)
    urls = []

    def start() -> None:
        together.wait()
        urls.append(embedded_url(new_server_folder, QUICK))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(urls) == 8
    postmaster = int((new_server_folder / "data" / "postmaster.pid").read_text().split()[0])
    assert is_running(postmaster)
    # If each thread had joined separately, a lock would remain and the server would keep running.
    leave(new_server_folder)
    wait_until_stopped(postmaster)


@pytest.mark.long
def test_processes_that_start_at_once_share_one_server(new_server_folder: Path) -> None:
    users = [User(new_server_folder) for _ in range(5)]
    try:
        (postmaster,) = {user.postmaster for user in users}
        for user in users:
            assert is_running(postmaster)
            user.exit()
        wait_until_stopped(postmaster)
    finally:
        for user in users:
            user.kill()


def test_the_server_stops_with_its_last_user(server_folder: Path) -> None:
    with User(server_folder) as first, User(server_folder) as second:
        postmaster = first.postmaster
        assert second.postmaster == postmaster
        first.exit()
        assert second.run("join")["postmaster"] == postmaster
        second.exit()
        wait_until_stopped(postmaster)


def test_a_process_can_leave_before_it_exits(server_folder: Path) -> None:
    with User(server_folder) as user:
        postmaster = user.postmaster
        user.run("leave")
        wait_until_stopped(postmaster)
        user.run("leave")
        assert user.run("join")["postmaster"] != postmaster


@pytest.mark.long
def test_joining_and_leaving_never_stops_a_server_in_use(server_folder: Path) -> None:
    """In each round one user leaves while another joins; no user may find its server stopped."""
    users = [User(server_folder) for _ in range(3)]
    try:
        for user in users * 5:
            user.send("leave")
            user.send("join")
        for user in users:
            for _ in range(5):
                assert user.answer() == {}
                assert "postmaster" in user.answer()
            user.exit()
    finally:
        for user in users:
            user.kill()


def test_a_forked_child_does_not_stop_the_server_of_its_parent(server_folder: Path) -> None:
    with User(server_folder) as parent:
        child = parent.run("fork")["child"]
        os.kill(child, signal.SIGTERM)
        wait_until(lambda: not is_running(child), "the child exits")
        assert parent.run("join")["postmaster"] == parent.postmaster
        parent.exit()
        wait_until_stopped(parent.postmaster)


def test_a_forked_child_keeps_the_server_when_its_parent_exits(server_folder: Path) -> None:
    with User(server_folder) as parent:
        child = parent.run("fork")["child"]
        parent.exit()
        assert one_value(parent.start["url"], "select 1") == 1
        os.kill(child, signal.SIGTERM)
        wait_until_stopped(parent.postmaster)


def test_a_subprocess_does_not_keep_the_server(server_folder: Path) -> None:
    with User(server_folder) as user:
        child = user.run("spawn")["child"]
        user.exit()
        assert is_running(child)
        wait_until_stopped(user.postmaster)


def test_the_embedded_server_stops_after_the_worker_that_uses_it(project_folder: Path) -> None:
    """The supervisor still writes to the database after the worker has exited."""
    (project_folder / "jobs.py").write_text(
        "from treadle import Treadle\napp = Treadle()\n@app.job\nasync def hello() -> None: ...\nhello.enqueue()\n"
    )
    command = [str(Path(sys.executable).parent / "treadle"), "worker", "jobs", "--drain"]
    finished = subprocess.run(command, cwd=project_folder, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "worker stopped" in finished.stderr
    assert "away" not in finished.stderr
    assert finished.stderr.count("using the embedded PostgreSQL") == 1
    assert not is_locked(project_folder / ".treadle" / "server")


@pytest.mark.long
def test_a_program_that_exits_without_waiting_for_a_thread_leaves_the_server(project_folder: Path) -> None:
    """It exits without Python's exit handlers, which would leave the server."""
    program = """
        import time
        from treadle import Treadle

        app = Treadle()

        @app.job
        def endless() -> None:
            print("begun", flush=True)
            time.sleep(600)

        endless.enqueue()
        app.run_worker(grace=0)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=project_folder, stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stdout
            assert running.stdout.readline() == "begun\n"
            running.terminate()
            assert running.wait(30) == 0
        finally:
            running.kill()
    assert not is_locked(project_folder / ".treadle" / "server")
