"""Log lines and printed text of handlers: kept from loop, thread and child, bounded, never mixed."""

import asyncio
import contextlib
import logging
import sys
import threading
from typing import Any

import pytest
from psycopg import Connection

from tests.support import handlers
from tests.support.workers import SOON, auntil, one, run
from treadle import Job, JobFailed, JobQueue, LogLine, Retries, Treadle
from treadle.attempt import outbox
from treadle.attempt.attempt import running_attempt
from treadle.db.queries import logs as log_queries
from treadle.words.job import Claim
from treadle.words.record import OutgoingLogLine
from treadle.worker import recorder
from treadle.worker.worker import Worker

log = logging.getLogger("tests.shop")


@pytest.fixture(autouse=True)
def from_info() -> Any:
    log.setLevel(logging.INFO)
    yield
    log.setLevel(logging.NOTSET)


def logs_of(app: Treadle, job: Any, **arguments: Any) -> list[LogLine]:
    """Enqueue one job, run it, and return its log."""

    async def body(_: Worker) -> list[LogLine]:
        handle = await job.aenqueue(**arguments)
        with contextlib.suppress(JobFailed):
            await handle.aresult(30)
        lines: list[LogLine] = await handle.alogs()
        return lines

    lines: list[LogLine] = run(app, body)
    return lines


def test_lines_are_kept_with_level_logger_and_attempt(app: Treadle) -> None:
    @app.job(retry=Retries(1, backoff=SOON))
    async def shop() -> None:
        log.info("%s apples", 3)
        log.debug("not asked for")
        try:
            _ = dict[str, str]()["plum"]
        except KeyError:
            log.exception("one is bad")
        raise LookupError("no shop")

    lines = logs_of(app, shop)
    assert [(line.number, line.attempt, line.level) for line in lines] == [
        (1, 1, "INFO"),
        (2, 1, "ERROR"),
        (3, 2, "INFO"),
        (4, 2, "ERROR"),
    ]
    assert lines[0].message == "3 apples"
    assert lines[0].logger == "tests.shop"
    assert lines[1].message.startswith("one is bad\nTraceback")
    assert lines[1].message.endswith("KeyError: 'plum'")


def test_two_jobs_lines_are_never_mixed(app: Treadle) -> None:
    @app.job
    async def on_loop(n: int) -> None:
        for k in range(20):
            log.info("%s %s", n, k)
            await asyncio.gather(*(asyncio.sleep(0) for _ in range(3)))
            await asyncio.create_task(below(n))

    async def below(n: int) -> None:
        log.info("%s below", n)
        await asyncio.to_thread(log.info, "%s on a thread", n)

    @app.job
    def on_thread(n: int) -> None:
        for k in range(20):
            log.info("%s %s", n, k)

    async def body(_: Worker) -> None:
        handles = [(n, await job.aenqueue(n)) for n in range(10) for job in (on_loop, on_thread)]
        for n, handle in handles:
            await handle.aresult(30)
            lines = await handle.alogs()
            assert lines
            assert {line.message.split()[0] for line in lines} == {str(n)}
            assert [line.number for line in lines] == list(range(1, len(lines) + 1))

    run(app, body)


def test_a_child_process_logs_and_prints(handlers_use_test_database: None) -> None:
    async def body(_: Worker) -> list[tuple[str, str]]:
        handle = await handlers.log_and_print.aenqueue(lines=3)
        await handle.aresult(30)
        return [(line.logger, line.message) for line in await handle.alogs()]

    assert run(handlers.app, body, types=["log_and_print"]) == [
        ("tests.support.handlers", "logged 0"),
        ("print", "printed 0"),
        ("tests.support.handlers", "logged 1"),
        ("print", "printed 1"),
        ("tests.support.handlers", "logged 2"),
        ("print", "printed 2"),
        ("print", "without an end"),
    ]


def test_prints_are_kept_by_option(app: Treadle, capsys: pytest.CaptureFixture[str]) -> None:
    @app.job(prints=True)
    def talk() -> None:
        print("one\ntwo")
        print("three", end="")

    before = sys.stdout
    lines = logs_of(app, talk)
    assert sys.stdout is before  # restored
    assert [(line.logger, line.level, line.message) for line in lines] == [
        ("print", "INFO", "one"),
        ("print", "INFO", "two"),
        ("print", "INFO", "three"),
    ]
    assert capsys.readouterr().out == "one\ntwo\nthree"


def test_prints_are_left_alone_otherwise(app: Treadle, capsys: pytest.CaptureFixture[str]) -> None:
    @app.job
    def talk() -> None:
        print("one")

    before = sys.stdout
    assert logs_of(app, talk) == []
    assert capsys.readouterr().out == "one\n"
    assert sys.stdout is before


def test_a_job_type_can_turn_logs_off(app: Treadle) -> None:
    @app.job(logs=False)
    async def shop() -> None:
        log.info("apples")

    assert logs_of(app, shop) == []


def test_of_many_lines_the_first_and_the_last_are_kept(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def shop() -> None:
        for n in range(5000):
            log.info("%s", n)
            if n % 100 == 0:
                await asyncio.sleep(0.005)

    lines = logs_of(app, shop)
    numbers = [line.number for line in lines]
    assert numbers == [*range(1, 501), *range(4501, 5001)]
    assert [line.message for line in lines] == [str(number - 1) for number in numbers]
    assert one(connection, "select count(*) from logs") == 1000


def test_the_bound_is_the_job_s_and_not_the_attempt_s(app: Treadle) -> None:
    @app.job(retry=Retries(2, backoff=SOON))
    async def shop(job: Job) -> None:
        for n in range(700):
            log.info("%s %s", job.attempt, n)
        if job.attempt < 3:
            raise ValueError

    lines = logs_of(app, shop)
    assert len(lines) == 1000
    assert lines[0].message == "1 0"
    assert lines[499].message == "1 499"
    assert lines[500].message == "3 200"
    assert lines[-1].message == "3 699"


def test_a_handler_that_logs_without_end_is_bounded_in_memory(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be written while it blocks the event loop; lines from the middle are dropped."""

    @app.job
    async def shop() -> int:
        for n in range(20_000):
            log.info("%s", n)
        waiting = running_attempt.get().outbox
        return len(waiting.log_head) + len(waiting.log_tail)

    async def body(_: Worker) -> tuple[int, list[LogLine]]:
        handle = await shop.aenqueue()
        return await handle.aresult(60), await handle.alogs()

    held, lines = run(app, body)
    assert held == outbox.LOG_HEAD + outbox.LOG_TAIL
    assert [line.message for line in lines[-2:]] == ["19998", "19999"]
    assert lines[-1].number == 20_000


def test_a_thread_that_a_handler_starts_has_no_job(app: Treadle) -> None:
    @app.job
    def shop() -> None:
        thread = threading.Thread(target=log.info, args=("elsewhere",))
        thread.start()
        thread.join()
        log.info("here")

    assert [line.message for line in logs_of(app, shop)] == ["here"]


def test_strange_and_long_lines_are_stored(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's own handlers fail on such a line

    @app.job
    async def shop() -> None:
        log.info("a NUL \x00 and half a pair \ud800")
        log.info("x" * 100_000)

    lines = logs_of(app, shop)
    assert lines[0].message == "a NUL \\x00 and half a pair \\ud800"
    assert len(lines[1].message) < 9000
    assert "characters left out" in lines[1].message


def test_lines_of_a_job_that_was_taken_away_are_refused(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def shop() -> None:
        connection.execute("update jobs set lease = lease + 1, worker_id = 'other'")
        log.info("late")
        await asyncio.sleep(5)

    async def body(worker: Worker) -> None:
        await shop.aenqueue()
        await auntil(lambda: one(connection, "select lease from jobs") == 2)
        await auntil(lambda: not len(worker.running))
        assert one(connection, "select count(*) from logs") == 0

    run(app, body)


def test_a_line_is_not_written_twice_when_the_reply_was_lost(app: Treadle, queue: JobQueue) -> None:
    job_id = queue.enqueue("a")
    (job,) = queue.claim(["a"])
    claim = Claim(job.id, job.lease, "a", "{}", 1, 3, 0, "default", 100, None, None, 0.0)
    lines = [OutgoingLogLine(n, 0.0, 20, "shop", str(n)) for n in (1, 2, 3)]
    for some in (lines[:2], lines[1:], lines):
        assert app.database.run(log_queries.record_logs(queue.worker_id, [(claim, some)], 0.0, 9, 9))
    assert [line.message for line in app.handle(job_id).logs()] == ["1", "2", "3"]


def test_the_worker_s_own_lines_are_not_the_job_s(app: Treadle) -> None:
    @app.job
    async def shop() -> None:
        logging.getLogger("treadle").warning("from below")
        logging.getLogger("treadle.worker").warning("from below")

    assert logs_of(app, shop) == []


def test_warnings_still_reach_standard_error_where_nothing_is_set_up(
    app: Treadle, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The capturing handler on the root logger must not disable Python's handler of last resort."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])

    @app.job
    async def shop() -> None:
        log.warning("out of apples")

    assert [line.message for line in logs_of(app, shop)] == ["out of apples"]
    assert capsys.readouterr().err.count("out of apples") == 1


def test_warnings_are_not_written_a_second_time_where_something_is_set_up(
    app: Treadle, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here pytest has set up handlers on the root logger."""

    @app.job
    async def shop() -> None:
        log.warning("out of apples")

    assert [line.message for line in logs_of(app, shop)] == ["out of apples"]
    assert "out of apples" not in capsys.readouterr().err


def test_lines_are_deleted_with_their_job(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def shop() -> None:
        log.info("apples")

    assert logs_of(app, shop)
    connection.execute("delete from jobs")
    assert one(connection, "select count(*) from logs") == 0


def test_lines_are_written_in_batches(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "GATHER_SECONDS", 0.2)

    @app.job
    async def shop() -> None:
        for n in range(400):
            log.info("%s", n)

    async def body(worker: Worker) -> int:
        sent: list[str] = []
        send = worker.connections.outcomes.run

        async def counted(query: Any) -> Any:
            sent.append(query.text)
            return await send(query)

        worker.connections.outcomes.run = counted  # type: ignore[method-assign]
        for handle in [await shop.aenqueue() for _ in range(10)]:
            await handle.aresult(30)
        return len([text for text in sent if "keep_logs" in text])

    assert run(app, body) <= 10


def test_a_strange_level_or_logger_does_not_cost_the_other_lines(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's own handlers fail on such a line

    @app.job
    async def logs() -> None:
        logging.getLogger("mine").warning("one")
        logging.getLogger("mine").log(100_000, "two")
        logging.getLogger("mi\x00ne\ud800").warning("three")
        logging.getLogger("mine").log(10**12, "four")

    async def body(_: Worker) -> None:
        handle = await logs.aenqueue()
        await handle.aresult(30)
        assert [line.message for line in await handle.alogs()] == ["one", "two", "three", "four"]

    run(app, body)


def test_printed_text_without_line_ends_is_bounded(app: Treadle) -> None:
    """Kept in pieces: neither memory nor work grows with the length of the line."""
    held: list[int] = []

    @app.job(prints=True)
    def dots() -> None:
        for _ in range(10_000):
            print("." * 10, end="")
            held.append(running_attempt.get().outbox.unfinished_size)

    lines = logs_of(app, dots)
    assert max(held) <= outbox.LINE_LIMIT
    assert sum(len(line.message) for line in lines) == 100_000
