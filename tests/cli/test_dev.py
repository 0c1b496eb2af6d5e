"""treadle dev: migrates the schema, restarts the worker when files change, serves the dashboard, stops together."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.screens import Terminal, terminal
from tests.support.workers import until
from treadle import JobQueue, Status

pytestmark = pytest.mark.own_database

GOOD = """
from treadle import Treadle

app = Treadle()


@app.job
def greet() -> str:
    return "{word}"
"""

Write = Callable[[str], None]
Start = Callable[..., AbstractContextManager[Terminal]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> None:
        (tmp_path / "dev_shop.py").write_text(text)

    return write


@pytest.fixture
def start(tmp_path: Path, empty_url: str) -> Start:
    def start(*options: str) -> AbstractContextManager[Terminal]:
        command = ("dev", "dev_shop:app", "--watch", str(tmp_path), *options)
        # Bytecode records the mtime in whole seconds, so two versions within a second would look the same.
        environment = {
            "TREADLE_DATABASE_URL": empty_url,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return terminal(*command, columns=200, rows=60, **environment)

    return start


@pytest.fixture
def queue(empty_url: str) -> Iterator[JobQueue]:
    with JobQueue(empty_url) as queue:
        yield queue


def greeting(queue: JobQueue) -> object:
    """The result of a job that the current worker runs."""
    job = queue.enqueue("greet")
    until(lambda: queue.get(job).status == Status.COMPLETED, lambda: queue.get(job), 60)
    return queue.get(job).result


@pytest.mark.long
def test_the_worker_restarts_when_files_change_and_ctrl_c_stops_all(
    write: Write, start: Start, queue: JobQueue
) -> None:
    write("nope")
    with start("--port", "0") as screen:
        screen.wait_for(
            "dev_shop cannot be imported: NameError: name 'nope' is not defined", "Waiting for a change.", seconds=60
        )
        write(GOOD.format(word="one"))
        screen.wait_for("Changed: ", "dev_shop.py. Restarting the worker.", "worker started", seconds=60)
        assert greeting(queue) == "one"
        screen.wait_for("the dashboard is at http://127.0.0.1:", seconds=60)
        write(GOOD.format(word="two"))
        screen.wait_for("worker stopped", seconds=60)
        until(lambda: screen.text().count("worker started") == 2, screen.text, 60)
        assert greeting(queue) == "two"
        write("nope")
        screen.wait_for("The worker exited with code 1. It restarts at the next change.", seconds=60)
        write(GOOD.format(word="three"))
        until(lambda: screen.text().count("worker started") == 3, screen.text, 60)
        assert greeting(queue) == "three"
        with all_stop(screen):
            screen.press_ctrl_c()
            assert screen.wait_for_exit(60) == 0
        assert "Traceback" not in screen.text()


@contextmanager
def all_stop(screen: Terminal) -> Iterator[None]:
    """The worker and the dashboard end with the block."""
    family = psutil.Process(screen.process.pid).children(recursive=True)
    assert len(family) >= 3
    yield
    assert psutil.wait_procs(family, 30)[1] == []


@pytest.mark.long
def test_sigterm_stops_all_processes(write: Write, start: Start) -> None:
    write(GOOD.format(word="one"))
    with start("--port", "0") as screen:
        screen.wait_for("worker started", "the dashboard is at http://127.0.0.1:", seconds=60)
        with all_stop(screen):
            screen.process.send_signal(signal.SIGTERM)
            assert screen.wait_for_exit(60) == 0
        assert "Traceback" not in screen.text()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell a process that its parent has died")
@pytest.mark.long
def test_a_change_while_the_application_is_loaded_is_noticed_and_a_kill_stops_all(
    write: Write, start: Start, queue: JobQueue, tmp_path: Path
) -> None:
    write("import pathlib, time; pathlib.Path(__file__).with_name('loading').touch(); time.sleep(1.5); nope")
    with start("--port", "0") as screen:
        until((tmp_path / "loading").exists, seconds=60)
        write(GOOD.format(word="one"))
        screen.wait_for("Changed: ", "worker started", "the dashboard is at http://127.0.0.1:", seconds=60)
        assert greeting(queue) == "one"
        with all_stop(screen):
            screen.process.kill()
