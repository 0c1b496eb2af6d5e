"""What a worker writes to its output: its own lines, and those of handlers, with the job that they belong to."""

import io
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.support import handlers
from tests.support.workers import SOON, run, worker_process
from treadle import Job, JobFailed, Retries, Treadle
from treadle.attempt.attempt import running_job_fields
from treadle.worker import log_format
from treadle.worker.worker import Worker

log = logging.getLogger("shop.mail")
Output = Callable[[], list[str]]


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Output]:
    """As in a process that `treadle worker` runs."""
    root, ours = logging.getLogger(), logging.getLogger("treadle")
    before = root.handlers[:], root.level, ours.handlers[:], ours.level
    monkeypatch.setattr(log_format, "options", None)

    def written() -> list[str]:
        return capsys.readouterr().err.splitlines()

    yield written
    root.handlers[:], ours.handlers[:] = before[0], before[2]
    root.setLevel(before[1])
    ours.setLevel(before[3])


def work(app: Treadle, *types: str) -> None:
    async def body(_: Worker) -> None:
        for each in types:
            handle = await app.function(each).aenqueue()
            with suppress(JobFailed):
                await handle.aresult(30)

    run(app, body)


@pytest.fixture
def shop(app: Treadle) -> Treadle:
    @app.job
    async def mail(job: Job) -> None:
        log.info("sent to %s", "ann")
        log.debug("in detail")

    @app.job
    def on_thread(job: Job) -> None:
        log.info("from a thread")

    @app.job(retry=Retries(1, backoff=SOON))
    async def broken() -> None:
        raise KeyError("nothing")

    return app


def test_lines_of_handlers_reach_the_output_with_their_job(shop: Treadle, output: Output) -> None:
    log_format.set_up("info", "text", running_job_fields)
    work(shop, "mail", "on_thread")
    logging.getLogger("library").info("outside of a job")
    logging.getLogger("library").warning("outside of a job, but important")
    lines = output()
    (sent,) = [line for line in lines if "sent to ann" in line]
    assert " INFO    shop.mail: sent to ann job_id=" in sent
    assert sent.endswith("job_type=mail attempt=1")
    assert any("shop.mail: from a thread" in line and line.endswith("job_type=on_thread attempt=1") for line in lines)
    assert not any("in detail" in line for line in lines)
    assert [line.split(maxsplit=2)[2] for line in lines if "outside of a job" in line] == [
        "library: outside of a job, but important"
    ]


@pytest.mark.parametrize(("level", "expected"), [("debug", 2), ("info", 1), ("warning", 0)])
def test_lines_of_handlers_are_written_at_the_level_that_is_asked_for(
    shop: Treadle, output: Output, connection: Connection[Any], level: str, expected: int
) -> None:
    log_format.set_up(level, "json", running_job_fields)
    work(shop, "mail")
    lines = [json.loads(line) for line in output()]
    mine = [line for line in lines if line["logger"] == "shop.mail"]
    assert [line["message"] for line in mine] == ["sent to ann", "in detail"][:expected]
    assert all(line["job_type"] == "mail" and line["attempt"] == 1 for line in mine)
    # They are kept with the job, whatever the output shows.
    assert connection.execute("select message from logs where level = 20").fetchall() == [("sent to ann",)]


def test_failures_have_a_constant_message_with_fields_and_the_exception(
    shop: Treadle, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "treadle"):
        work(shop, "broken", "broken")
    retried = [each for each in caplog.records if each.levelno == logging.WARNING]
    failed = [each for each in caplog.records if each.levelno == logging.ERROR]
    for records, text in ((retried, "job failed, will be retried"), (failed, "job failed")):
        assert len(records) == 2
        assert len({each.msg for each in records}) == 1
        assert records[0].msg.startswith(f"{text} job_id=%(job_id)s job_type=%(job_type)s")
        assert records[0].getMessage() != records[1].getMessage()
        for each in records:
            assert each.exc_info is not None
            assert isinstance(each.exc_info[1], KeyError)
            assert vars(each)["event"]["job_type"] == "broken"
            assert each.exc_text is not None
            assert each.exc_text.startswith("Traceback")
            assert "in broken" in each.exc_text


def test_an_exception_with_a_secret_is_logged_as_masked_text_only(
    app: Treadle, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job(retry=Retries(0))
    async def leaking() -> None:
        raise ValueError("password=hunter2-canary")

    with caplog.at_level(logging.ERROR, "treadle"):
        work(app, "leaking")
    (record,) = caplog.records
    assert record.exc_info is None
    assert record.exc_text is not None
    assert "password=********" in record.exc_text


def test_a_line_whose_arguments_do_not_fit_shows_no_secret(app: Treadle, output: Output) -> None:
    message = "retrying postgresql://shop:hunter2-canary@db/shop, %s of %s"

    @app.job
    async def mail() -> None:
        log.warning(message, 3)

    log_format.set_up("info", "text", running_job_fields)
    work(app, "mail")
    lines = output()
    assert any("retrying postgresql://shop:********@db/shop" in line for line in lines)
    assert "hunter2-canary" not in "\n".join(lines)


def test_lines_of_structlog_are_kept_and_written(app: Treadle, output: Output) -> None:
    """With its handler for the standard library, messages are dicts."""
    structlog = pytest.importorskip("structlog")
    structlog.configure(
        processors=[structlog.stdlib.add_log_level, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )

    @app.job
    async def mail() -> None:
        structlog.get_logger("shop.mail").info("sent", to="ann", password="hunter2")  # noqa: S106

    handles = []

    async def body(_: Worker) -> None:
        handles.append(await mail.aenqueue())
        await handles[0].aresult(30)

    log_format.set_up("info", "text", running_job_fields)
    try:
        run(app, body)
    finally:
        structlog.reset_defaults()
    (line,) = [line for line in output() if "shop.mail" in line]
    assert "shop.mail: sent to=ann password=******** level=info job_id=" in line
    (kept,) = handles[0].logs()
    assert kept.message == "sent to=ann password=******** level=info"


@pytest.mark.own_database
@pytest.mark.usefixtures("handlers_use_test_database")
def test_a_worker_program_writes_the_lines_of_its_child_processes(url: str, tmp_path: Path) -> None:
    handle = handlers.log_and_print.enqueue(lines=1)
    with worker_process(url, tmp_path, "--log-format", "json", "--types", "log_and_print") as worker:
        handle.result(60)
    lines = [json.loads(line) for line in worker.log.read_text().splitlines() if line.startswith("{")]
    (line,) = [line for line in lines if line["message"] == "logged 0"]
    assert (line["job_type"], line["job_id"], line["attempt"]) == ("log_and_print", str(handle.id), 1)


class NeedsRequest(logging.Filter):
    """As web applications have them: it raises where there is no request."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = os.environ["NO_REQUEST"]
        return True


@pytest.mark.parametrize("where", ["logger", "handler", "factory", "closed"])
def test_logging_that_raises_stops_nothing(
    app: Treadle, where: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    @app.job(retry=Retries(0))
    async def broken() -> None:
        raise ValueError("no")

    @app.job
    async def works() -> str:
        return "done"

    ours, target = logging.getLogger("treadle"), io.StringIO()
    handler, needs_request = logging.StreamHandler(target), NeedsRequest()
    if where == "logger":
        ours.addFilter(needs_request)
    elif where == "handler":
        handler.addFilter(needs_request)
    elif where == "factory":
        monkeypatch.setattr(logging, "_logRecordFactory", lambda *given, **named: 1 / 0)
    else:
        target.close()
        monkeypatch.setattr("sys.stderr", target)
    ours.addHandler(handler)
    try:

        async def body(_: Worker) -> None:
            for _round in range(3):
                with pytest.raises(JobFailed):
                    await (await broken.aenqueue()).aresult(30)
                assert await (await works.aenqueue()).aresult(30) == "done"

        run(app, body)
    finally:
        ours.removeHandler(handler)
        ours.removeFilter(needs_request)
    assert "treadle: a log line could not be written: " in capfd.readouterr().err
