"""Workers whose event loop does not run, because their process is stopped or a handler blocks it: what people see and
after how long, that no job is taken away, and that it ends by itself."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.support.dashboards import OPERATOR, SECRETS, Site
from tests.support.doctor import get_finding
from tests.support.handlers import block_the_interpreter, block_the_loop, nap, nap_in_child, noop, search_endlessly
from tests.support.workers import Ledger, WorkerProgram, count, locked_file, one, until, worker_process
from treadle import Treadle
from treadle.cli.stats import worker_row
from treadle.cli.top.columns import WORKERS, WorkerNow
from treadle.cli.top.header import second_line
from treadle.doctor import Severity
from treadle.operations.metrics import exposition, metrics
from treadle.operations.overview import overview
from treadle.web import dashboard_app
from treadle.why.explain import why

pytestmark = [pytest.mark.own_database, pytest.mark.usefixtures("handlers_use_test_database")]

# It takes 3 to 4 s on a machine that is not overloaded.
SECONDS = 30.0


class Surfaces:
    """What people see."""

    def __init__(self, url: str, log: Callable[[], str]) -> None:
        self._url = url
        self.app = Treadle(url)
        self._site = Site(dashboard_app(self.app), self.app)
        self._program = self._site.signed_in(OPERATOR)
        self.log = log

    def why(self, job_id: UUID) -> str:
        reason = why(self.app.database, job_id)
        return f"{reason.name}: {reason.sentence} {reason.remedy}"

    def doctor(self, name: str = "stuck_workers") -> tuple[Severity, str]:
        found = get_finding(self._url, name)
        return found.level, f"{found.detail} {found.remedy}"

    def page(self, path: str = "/workers") -> str:
        return self._program.get(path).text

    def top(self) -> str:
        found = overview(self.app.database)
        cells = [column.cell(WorkerNow(found.workers[0], found.at), 40) for column in WORKERS.columns]
        return f"{second_line(found, 200).plain} {' '.join(map(str, cells))}"

    def stats(self) -> str:
        found = overview(self.app.database)
        return " ".join(map(str, worker_row(found.workers[0], found.at)))

    def metrics(self) -> str:
        return exposition(metrics(self.app.database))

    def say(self, *words: str, top: str = "stuck") -> bool:
        """Whether all that list workers say so. There is less room in `top`."""
        return top in self.top() and all(word in text for text in (self.page(), self.stats()) for word in words)

    def close(self) -> None:
        self._site.close()
        self.app.close()


@pytest.fixture
def surfaces(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[WorkerProgram], Surfaces]]:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    made: list[Surfaces] = []

    def make(program: WorkerProgram) -> Surfaces:
        made.append(Surfaces(url, program.log.read_text))
        return made[-1]

    yield make
    for each in made:
        each.close()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    taken = time.monotonic() - began
    assert taken < seconds, f"it took {taken:.1f} s"


def test_a_stuck_worker_is_shown_everywhere_and_keeps_its_jobs(
    url: str,
    tmp_path: Path,
    connection: Connection[Any],
    ledger: Ledger,
    surfaces: Callable[[WorkerProgram], Surfaces],
) -> None:
    def kind() -> Any:
        return one(connection, "select stuck_kind from workers")

    def ends() -> None:
        with within(SECONDS):
            until(lambda: kind() is None)
        assert 'treadle_workers{state="stuck"} 0' in seen.metrics()
        assert 'treadle_workers{state="alive"} 1' in seen.metrics()
        assert not seen.say("stuck")
        assert seen.doctor()[0] is Severity.OK

    with worker_process(url, tmp_path, "--concurrency", "4") as program:
        seen = surfaces(program)
        process = until(program.worker_process)
        lasting = nap.enqueue(seconds=120)
        until(lambda: lasting.status() == "running")

        # Stopped by a signal.
        process.suspend()
        waiting = noop.enqueue()
        with within(SECONDS):
            until(kind)
        assert seen.say("stuck", "its process was stopped", top="stopped by a signal or a debugger")
        assert "workers_stuck: The only live worker that serves the job type noop, " in seen.why(waiting.id)
        said = seen.why(lasting.id)
        assert said.startswith("worker_stuck: The job is running on ")
        assert f"kill -CONT {process.pid}" in said
        level, text = seen.doctor()
        assert (level is Severity.OK, f"kill -CONT {process.pid}" in text) == (False, True)
        assert 'treadle_workers{state="stuck"} 1' in seen.metrics()
        assert "worker_stuck" not in seen.page(f"/jobs/{lasting.id}")
        assert "which is stuck: its process was stopped" in seen.page(f"/jobs/{lasting.id}")
        assert "is stuck: its process has been stopped, by a signal or a debugger" in seen.log()
        process.resume()
        waiting.result(30)
        ends()
        assert "is no longer stuck: its event loop runs again" in seen.log()

        # Blocked by an async handler.
        with locked_file(tmp_path) as lock:
            job = block_the_loop.enqueue(lock=lock)
            until(lambda: ledger.starts(str(job.id)))
            with within(SECONDS):
                until(kind)
            where = "tests/support/handlers.py line "
            by = "blocked by block_the_loop at handlers.py:"
            assert seen.say("stuck", f"by job {job.id} (block_the_loop)", where, " in block_the_loop", top=by)
            assert "fcntl.flock(file, fcntl.LOCK_SH)" in seen.page()
            assert "fcntl.flock(file, fcntl.LOCK_SH)" in seen.log()
            assert "its event loop has been blocked for" in seen.log()
            said = seen.why(job.id)
            assert said.startswith("worker_stuck: The job blocks the event loop of ")
            assert where in said
            assert "which is stuck: its event loop has been blocked for" in seen.why(lasting.id)
            assert f"by job {job.id} (block_the_loop)" in seen.doctor()[1]
            assert job.status() == "running"
            assert one(connection, "select started_at < now() - interval '2 s' from jobs where id = %s", job.id)
            slots = seen.page("/").partition('class="slot-summary">')[2].partition("<")[0]
            assert slots == "2 running", "a worker that is stuck has no free slots"
        assert job.result(30) == 1
        ends()

        # Blocked by a thread that holds the GIL.
        with locked_file(tmp_path) as lock:
            job = block_the_interpreter.enqueue(lock=lock)
            until(lambda: ledger.starts(str(job.id)))
            with within(SECONDS):
                until(kind)
            until(lambda: "in block_the_interpreter" in seen.page())
            assert "A thread does not help" in seen.doctor()[1]
            assert "in block_the_interpreter" in seen.log()
        assert job.result(30) == 1, "the signal that asks for the stacks has interrupted the handler"
        ends()

        assert lasting.status() == "running"
        lasting.cancel()
        until(lambda: lasting.status() == "cancelled")

        # Blocked by a regular expression, which holds the GIL on the thread of the event loop.
        endless = search_endlessly.enqueue()
        until(lambda: ledger.starts(str(endless.id)))
        with within(SECONDS):
            until(kind)
        assert seen.say("stuck", f"by job {endless.id} (search_endlessly)", top="blocked by search_endlessly at ")
        assert "A thread does not help" in seen.doctor()[1]
        until(lambda: ", in search_endlessly" in seen.log())
        assert "recovered" not in seen.log()
        assert count(connection, "attempts > 1 or crashes > 0 or losses > 0") == 0
        process.kill()
        until(lambda: one(connection, "select count(*) from workers where lost_at is not null"))
        until(lambda: "given back to run again" in seen.page())
        assert "its worker process was killed by SIGKILL" in seen.page()


@pytest.mark.long
def test_a_stopped_child_process_is_shown_everywhere_and_its_worker_is_not_stuck(
    url: str,
    tmp_path: Path,
    connection: Connection[Any],
    ledger: Ledger,
    surfaces: Callable[[WorkerProgram], Surfaces],
) -> None:
    def stopped() -> Any:
        return one(connection, "select stopped_children from workers")

    with worker_process(url, tmp_path, "--concurrency", "2") as program:
        seen = surfaces(program)
        job = nap_in_child.enqueue(seconds=120)
        until(lambda: ledger.starts(str(job.id)))
        worker = until(program.worker_process)
        (child,) = [each for each in worker.children() if "spawn_main" in " ".join(each.cmdline())]
        child.suspend()
        with within(SECONDS):
            until(stopped)
        name = f"child process {child.pid}"
        assert seen.say(f"{name} was stopped", str(job.id), top=f"{name} is stopped")
        assert not seen.say("is stuck")
        said = seen.why(job.id)
        assert said.startswith("process_stopped: The job is running on ")
        assert f"kill -CONT {child.pid}" in said
        level, text = seen.doctor("stopped_children")
        assert (level is Severity.OK, f"kill -CONT {child.pid}" in text) == (False, True)
        assert seen.doctor()[0] is Severity.OK
        assert f"Child process {child.pid} of worker " in seen.page("/"), "in the verdict"
        assert "treadle_stopped_children 1" in seen.metrics()
        assert 'treadle_workers{state="stuck"} 0' in seen.metrics()
        assert f'"process":{child.pid}' in seen.page("/api/workers").replace(" ", "")
        assert f"child process {child.pid} of worker " in seen.log()
        noop.enqueue().result(30)  # the worker runs other jobs meanwhile

        child.resume()
        with within(SECONDS):
            until(lambda: stopped() is None)
        assert f"child process {child.pid} of worker " in seen.log().rpartition(" is no longer stopped")[0]
        assert seen.why(job.id).startswith("running: ")
        assert "treadle_stopped_children 0" in seen.metrics()
