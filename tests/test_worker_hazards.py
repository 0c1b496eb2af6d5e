"""Odd moments: a fence that lifts, threads that never end, answers in the wrong order, messages from strangers."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import Connection
from psycopg_pool import AsyncConnectionPool

from tests.test_worker import run, until
from tests.test_worker_processes import QUICK
from tests.workers import Ledger, count, working
from tests.workers import until as until_seen
from treadle import Backoff, Job, JobFailed, JobQueue, Snooze, Status, Treadle, events, migrate
from treadle.db import work
from treadle.db.line import Line
from treadle.db.query import Query
from treadle.worker import Worker
from treadle.worker.board import now


def test_a_worker_goes_on_after_its_fence_lifts(app: Treadle) -> None:
    fenced: list[events.Event] = []
    app.on(events.WorkerFenced)(fenced.append)

    @app.job
    async def hello(n: int) -> int:
        return n

    async def body(worker: Worker) -> None:
        assert await (await hello.aenqueue(n=0)).aresult(10) == 0
        keeper = psutil.Process(worker.keeper_pid)
        keeper.suspend()
        try:
            await until(lambda: fenced)
            # A claim that was under way, or found later: not begun, and given back.
            handles = [await hello.aenqueue(n=n) for n in range(5)]
            claims = await worker._claims.run(work.claim("treadle", worker.worker_id, ["hello"], 2, None))
            assert len(claims) == 2
            worker._intakes[0].take(claims)
            assert len(worker.bench) == 0
        finally:
            keeper.resume()
        assert [await handle.aresult(15) for handle in handles] == list(range(5))
        assert {(await handle.ajob()).attempts for handle in handles} == {1}

    run(app, body, lease="2s", concurrency=3)


def test_a_deadline_without_a_timeout(app: Treadle) -> None:
    over = threading.Event()

    @app.job(deadline=0.2, max_attempts=1)
    async def sleepy() -> None:
        await asyncio.sleep(30)

    @app.job(deadline=0.2, max_attempts=1)
    def deaf() -> None:
        over.wait(30)

    async def body(worker: Worker) -> None:
        for job in (sleepy, deaf):
            with pytest.raises(JobFailed, match=r"(timed out|still ran at its deadline,) after 0\.2 seconds"):
                await (await job.aenqueue()).aresult(10)
        over.set()
        await until(lambda: len(worker.bench) == 0)

    run(app, body, concurrency=2)


def test_a_job_does_not_run_again_beside_a_thread_of_it_that_never_ended(app: Treadle) -> None:
    at_once, most, ended = 0, 0, threading.Event()
    lock = threading.Lock()

    @app.job(deadline=0.2, timeout=0.1, max_attempts=5, backoff=Backoff(first=0))
    def deaf(job: Job) -> int:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        if job.fence == 1:
            ended.wait(1.5)
        with lock:
            at_once -= 1
        return job.fence

    async def body(worker: Worker) -> None:
        handle = await deaf.aenqueue()
        assert await handle.aresult(15) > 1
        await until(lambda: len(worker.bench) == 0)
        assert worker._intakes[0].running == 0
        assert worker._board.entries() == []

    run(app, body, concurrency=3)
    assert most == 1


def test_a_full_worker_starts_each_job_in_a_context_of_its_own(app: Treadle) -> None:
    tenant: ContextVar[int | None] = ContextVar("tenant", default=None)

    @app.job
    async def remembers(n: int) -> int | None:
        before = tenant.get()
        tenant.set(n)
        await asyncio.sleep(0)
        return before

    async def body(worker: Worker) -> None:
        handles = await remembers.aenqueue_many({"n": n} for n in range(20))
        assert [await handle.aresult(10) for handle in handles] == [None] * 20

    run(app, body, concurrency=1)


def test_what_a_handler_raises_because_it_was_stopped_is_not_its_failure(app: Treadle) -> None:
    started = asyncio.Event

    @app.job(max_attempts=1)
    async def untidy() -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise ValueError("could not tidy up") from None

    begun = started()

    async def body() -> Any:
        async with app.worker(grace=0):
            handle = await untidy.aenqueue()
            await begun.wait()
        row = await handle.ajob()
        await app.aclose()
        return row

    row = asyncio.run(body())
    assert (row.status, row.attempts, row.last_error) == ("pending", 0, None)


def test_a_verdict_counts_even_when_the_worker_stops(app: Treadle) -> None:
    begun = asyncio.Event()

    @app.job(max_attempts=1)
    async def later() -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise Snooze("1h") from None

    async def body() -> Any:
        async with app.worker(grace=0):
            handle = await later.aenqueue()
            await begun.wait()
        row = await handle.ajob()
        await app.aclose()
        return row

    row = asyncio.run(body())
    assert (row.status, row.attempts) == ("pending", 0)
    assert (row.run_at - row.created_at).total_seconds() > 3000


def test_strangers_messages_do_no_harm(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        await until(lambda: worker.hears)
        for kind in ("work", "ends"):
            for message in ("cancelled nonsense", "cancelled", "probe", "nonsense", "\u2603"):
                connection.execute("select pg_notify(channel(%s), %s)", [kind, message])
        for _ in range(3):
            assert await (await hello.aenqueue()).aresult(10) == "hello"
            connection.execute("select pg_notify(channel('ends'), 'nonsense')")

    run(app, body)


@pytest.mark.parametrize(
    "name",
    [
        "complete_jobs(uuid[], bigint[], varchar[], text[], float8[])",
        "settle_jobs(varchar, uuid[], bigint[], varchar[], text[], text[], float8[], float8[], int)",
        "claim_jobs(varchar, varchar[], int, varchar[])",
        "rest(varchar[], varchar[], boolean)",
        "renew_workers(varchar[], interval)",
        "start_jobs(varchar, uuid[], bigint[], float8[], int[], varchar[])",
    ],
    ids=lambda name: str(name).split("(", 1)[0],
)
def test_a_function_that_is_missing_for_a_while_costs_nothing(
    app: Treadle, connection: Connection[Any], name: str
) -> None:
    """As while somebody migrates."""

    @app.job(max_attempts=3, backoff=Backoff(first=0))
    async def hello(job: Job, n: int) -> int:
        if n % 3 == 0 and job.attempt == 1:
            raise ValueError("the first time")
        await asyncio.sleep(0.3 * (n % 2))
        return n

    async def body(worker: Worker) -> None:
        handles = [await hello.aenqueue(n=n) for n in range(6)]
        other = name.split("(", 1)[0] + "_away"
        connection.execute(f"alter function {name} rename to {other}")
        try:
            handles += [await hello.aenqueue(n=n) for n in range(6, 12)]
            await asyncio.sleep(1)
        finally:
            connection.execute(
                f"alter function {name.replace(name.split('(')[0], other, 1)} rename to {name.split('(')[0]}"
            )
        assert [await handle.aresult(20) for handle in handles] == list(range(12))

    run(app, body, lease="3s")


def test_what_ends_while_holdings_are_looked_at_is_not_run_again(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to "what do I hold" arrives late: by then some of it was claimed, run and completed."""
    ran: Counter[int] = Counter()
    real = Line.run
    looked = 0

    async def late(line: Line, query: Query[Any]) -> Any:
        nonlocal looked
        if b"held_jobs" in query.text and looked < 3:
            looked += 1
            beside = Line(app.database.url, "late")
            answer = await real(beside, query)
            await beside.close()
            await asyncio.sleep(0.3)
            return answer
        return await real(line, query)

    monkeypatch.setattr(Line, "run", late)

    @app.job
    async def hello(n: int) -> None:
        ran[n] += 1
        await asyncio.sleep(0.05)

    async def body(worker: Worker) -> None:
        handles = await hello.aenqueue_many({"n": n} for n in range(40))
        for _ in range(3):
            await asyncio.sleep(0.03)
            await worker._adopt()
        for handle in handles:
            await handle.aresult(10)

    run(app, body, concurrency=2, prefetch=10)
    assert looked
    assert set(ran.values()) == {1}


def test_a_result_is_awaited_on_a_pool_of_the_callers(url: str, queue: JobQueue) -> None:
    async def body() -> None:
        async with AsyncConnectionPool[psycopg.AsyncConnection[Any]](url, open=False) as pool:
            app = Treadle(pool)

            @app.job
            async def hello() -> int:
                return 3

            handle = await hello.aenqueue()
            waiting = asyncio.create_task(handle.aresult(10))
            await asyncio.sleep(0.1)
            (row,) = await asyncio.to_thread(queue.claim, ["hello"])
            await asyncio.to_thread(queue.complete, row, 4)
            assert await waiting == 4
            with pytest.raises(TimeoutError):
                await (await hello.aenqueue()).aresult(0.3)

    asyncio.run(body())


def test_the_second_of_two_quick_jobs_does_not_wait_for_the_poll(app: Treadle, connection: Connection[Any]) -> None:
    """Who enqueues right after somebody rang does not ring again. Here it commits after the worker went to rest."""
    seen: dict[int, float] = {}

    @app.job
    async def hello(n: int) -> None:
        seen[n] = time.monotonic()

    async def body(worker: Worker) -> None:
        await until(lambda: worker.hears)
        await asyncio.sleep(0.3)
        with psycopg.connect(app.database.url) as late:
            await hello.aenqueue(n=1)
            late.execute("select treadle.enqueue('hello', '{\"n\": 2}')")
            await until(lambda: 1 in seen)
            await asyncio.sleep(0.01)
            late.commit()
            committed = time.monotonic()
        await until(lambda: 2 in seen)
        assert seen[2] - committed < 1

    run(app, body, poll="60s")


PROGRAM = """
    import asyncio, os, sys, time
    from treadle import Treadle

    app = Treadle()

    @app.job
    async def long() -> None:
        await asyncio.sleep(600)

    async def main() -> None:
        async with app.worker(lease="1s"):
            await long.aenqueue()
            if os.fork() == 0:  # a helper that inherits everything, and stays
                time.sleep(600)
                os._exit(0)
            print("working", flush=True)
            await asyncio.sleep(600)

    asyncio.run(main())
"""


def test_the_lease_of_a_killed_program_ends_although_a_helper_of_it_lives(
    url: str, connection: Connection[Any]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TREADLE_DATABASE_URL": url},
    ) as program:
        assert program.stdout
        assert program.stdout.readline() == "working\n"
        until_seen(lambda: count(connection, "status = 'running'") == 1)
        helper = [each for each in psutil.Process(program.pid).children() if "keeper" not in " ".join(each.cmdline())]
        try:
            program.kill()
            until_seen(lambda: count(connection, "status = 'pending' and crashes = 1 and attempts = 0") == 1)
        finally:
            for each in helper:
                each.kill()


def test_a_job_in_a_child_of_a_killed_program_is_not_suspected(
    url: str, connection: Connection[Any], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import asyncio, time
            from treadle import Treadle

            app = Treadle()

            @app.job(process=True)
            def long() -> None:
                time.sleep(600)

            @app.job
            async def beside() -> None:
                await asyncio.sleep(600)

            async def main() -> None:
                async with app.worker(lease="1s"):
                    await asyncio.sleep(600)

            if __name__ == "__main__":
                long.enqueue()
                beside.enqueue()
                asyncio.run(main())
            """
        )
    )
    environment = os.environ | {"TREADLE_DATABASE_URL": url}
    with subprocess.Popen([sys.executable, str(program)], env=environment) as running:
        until_seen(lambda: count(connection, "status = 'running'") == 2)
        time.sleep(1)  # until the child itself runs it
        running.kill()
        until_seen(lambda: count(connection, "status = 'pending'") == 2)
    crashes = dict(connection.execute("select job_type, crashes from jobs").fetchall())
    assert crashes == {"long": 0, "beside": 1}


# In worker processes


@pytest.mark.parametrize("name", ["leave_politely", "leave_behind"])
def test_an_exit_that_looks_clean_is_a_crash(
    url: str,
    tmp_path: Path,
    connection: Connection[Any],
    ledger: Ledger,
    queue: JobQueue,
    name: str,
) -> None:
    pill = queue.enqueue(name, max_attempts=1)
    good = [queue.enqueue("nap", {"seconds": 0.3}, max_attempts=1) for _ in range(3)]
    with working(url, tmp_path, *QUICK) as worker:
        until_seen(lambda: count(connection, "status in ('completed', 'failed')") == 4, worker.log.read_text)
        assert queue.get(pill).status == "failed"
        assert {queue.get(job_id).status for job_id in good} == {"completed"}
        assert worker.process.poll() is None


def test_a_worker_process_that_is_told_to_stop_alone_is_replaced(url: str, tmp_path: Path) -> None:
    with working(url, tmp_path, *QUICK) as worker:
        until_seen(worker.worker_process).terminate()
        worker.started(2)
        worker.terminate()
        assert worker.ended() == 0


def test_a_child_that_talks_all_the_time_is_killed_at_its_deadline(
    url: str,
    tmp_path: Path,
    ledger: Ledger,
    queue: JobQueue,
) -> None:
    job_id = queue.enqueue("chatter", max_attempts=1)
    with working(url, tmp_path, *QUICK):
        until_seen(ledger.starts)
        began = now()
        until_seen(lambda: queue.get(job_id).status == "failed")
        assert now() - began < 4
    assert "still ran at its deadline" in (queue.get(job_id).last_error or "")


def test_a_job_that_waited_for_a_child_has_all_of_its_time(
    url: str,
    tmp_path: Path,
    connection: Connection[Any],
    ledger: Ledger,
    queue: JobQueue,
) -> None:
    """A suspect occupies the only child; what waits for it is neither late nor a crash."""
    suspect = queue.enqueue("nap", {"seconds": 5}, priority=200)
    connection.execute("update jobs set crashes = 1")
    waiting = queue.enqueue("punctual", {"seconds": 3.5}, max_attempts=1)
    with working(url, tmp_path, *QUICK, "--children", "1"):
        until_seen(lambda: queue.get(waiting).status.finished)
        row = queue.get(waiting)
        assert (row.status, row.crashes, row.last_error) == ("completed", 0, None)
        assert queue.get(suspect).status == "completed"


def test_a_child_that_is_stopped_while_it_tells_its_result_takes_the_next_job(
    url: str,
    tmp_path: Path,
    ledger: Ledger,
    queue: JobQueue,
) -> None:
    with working(url, tmp_path, *QUICK, "--children", "1"):
        job_id = queue.enqueue("slow_to_tell", max_attempts=1)
        until_seen(ledger.starts)
        time.sleep(0.3)  # it is being told
        queue.cancel(job_id)
        after = queue.enqueue("apart", {"seconds": 0}, max_attempts=1)
        until_seen(lambda: queue.get(after).status == "completed")


def test_a_worker_ends_while_the_database_is_away(tmp_path: Path, empty_url: str) -> None:
    migrate(empty_url)
    with working(empty_url, tmp_path, *QUICK, "--grace", "1s") as worker:
        with JobQueue(empty_url) as queue:
            queue.enqueue("doze", {"seconds": 60})
            until_seen(lambda: queue.counts()[Status.RUNNING] == 1)
        name = psycopg.conninfo.conninfo_to_dict(empty_url)["dbname"]
        with psycopg.connect(psycopg.conninfo.make_conninfo(empty_url, dbname="postgres"), autocommit=True) as server:
            server.execute(f"alter database {name} allow_connections false".encode())
            server.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
            worker.terminate()
            try:
                assert worker.ended(25) == 0
            finally:
                server.execute(f"alter database {name} allow_connections true".encode())


def test_a_program_ends_at_a_signal_although_a_thread_of_its_handler_does_not(url: str, tmp_path: Path) -> None:
    program = """
        import asyncio, time
        from treadle import Treadle
        app = Treadle()

        @app.job
        async def stuck() -> None:
            print("stuck", flush=True)
            await asyncio.to_thread(time.sleep, 600)

        stuck.enqueue()
        app.run_worker(grace=0)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TREADLE_DATABASE_URL": url},
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "stuck\n"
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(15)
        code = process.poll()
        process.kill()
        assert code == 0
