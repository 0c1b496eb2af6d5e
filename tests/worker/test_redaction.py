"""No secret that a handler raises, logs or prints is stored with its job, logged by its worker or shown."""

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from tests.support import secret_app
from tests.support.apps import run_jobs
from tests.support.commands import run_in_process, run_treadle
from tests.support.secret_app import CANARY, URL
from treadle import JobQueue, Redaction, Retries, Treadle, events
from treadle.text.log_redaction import RedactingFilter, redact_own_log
from treadle.text.masking import MASK, masked, use_redaction

FAILING = [name for name in secret_app.app.job_types if name != "logs"]


@pytest.fixture(autouse=True)
def default_redaction() -> Iterator[None]:
    yield
    use_redaction(Redaction())


def stored_texts(connection: Connection[Any]) -> str:
    """Everything that the tables of jobs, errors, logs and events have."""
    tables = ("jobs", "errors", "logs", "events", "audit")
    return "\n".join(str(row) for table in tables for row in connection.execute(f"select * from {table}"))


@pytest.mark.parametrize("style", [pytest.param("text", marks=pytest.mark.long), "json"])
def test_a_worker_neither_stores_nor_logs_secrets(
    url: str, queue: JobQueue, connection: Connection[Any], style: str
) -> None:
    for name in secret_app.app.job_types:
        queue.enqueue(name, {}, retry=Retries(0))
    done = run_in_process(
        *("worker", "tests.support.secret_app:app", "--drain", "--log-level", "debug", "--log-format", style),
        TREADLE_DATABASE_URL=url,
    )
    # The line that the handler prints itself is its own; it is stored without the secret.
    assert done.stdout.replace(f"password={CANARY}\n", "").count(CANARY) == 0
    assert CANARY not in done.stderr
    assert done.stderr.count(MASK) > len(FAILING)
    kept = stored_texts(connection)
    assert CANARY not in kept
    rows = connection.execute("select job_type, to_json(errors)::text from errors join jobs on jobs.id = job_id")
    # The others have no recognisable secret in their error, or no error.
    assert {row[0] for row in rows if MASK in row[1]} == {*FAILING} - {"cancelled", "wrong_result"}
    lines = [row[0] for row in connection.execute("select message from logs where job_id in (select id from jobs)")]
    assert sum(MASK in line for line in lines) >= 6
    if style == "json":
        return  # the format of the log does not change what commands show
    for job in queue.list(limit=100).jobs:
        for options in (["show"], ["show", "--full"], ["show", "--json"], ["why"]):
            shown = run_treadle(*options, job.id, TREADLE_DATABASE_URL=url).output
            assert CANARY not in shown, (job.job_type, options)
    for command in (["jobs"], ["jobs", "--json"], ["stats", "--json"], ["doctor"], ["doctor", "--json"]):
        assert CANARY not in run_treadle(*command, TREADLE_DATABASE_URL=url).output, command


def test_listeners_and_a_programs_own_log_get_no_secrets(
    url: str, queue: JobQueue, caplog: pytest.LogCaptureFixture
) -> None:
    app = Treadle(url)
    told: list[str] = []
    app.on(events.JobFailed)(lambda event: told.append(event.error))

    @app.job(retry=Retries(0))
    async def fail() -> None:
        raise ValueError(f"cannot reach {URL}")

    with pytest.raises(Exception, match=r"://ada:\*{8}@") as failed:
        run_jobs(app, fail.enqueue())
    assert told == [f"ValueError: cannot reach postgres://ada:{MASK}@127.0.0.1:1/films"]
    assert CANARY not in str(failed.value)
    assert "job failed" in caplog.text
    assert CANARY not in caplog.text
    assert CANARY not in str([vars(record) for record in caplog.records if record.name == "treadle"])


def test_a_wrong_log_call_of_a_handler_shows_no_secret(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Python prints the message and its arguments to standard error."""
    app = Treadle(url)

    @app.job
    async def work() -> None:
        logging.getLogger("shop").warning("wrong %s %s", f"password={CANARY}")  # noqa: PLE1206

    handlers = logging.getLogger().handlers[:]
    logging.getLogger().handlers[:] = []  # pytest's own would raise an exception
    try:
        run_jobs(app, work.enqueue())
    finally:
        logging.getLogger().handlers[:] = handlers
    said = capsys.readouterr().err
    assert "Logging error" in said
    assert f"password={MASK}" in said
    assert CANARY not in said


def test_jobs_that_are_failed_by_hand_store_no_secrets(queue: JobQueue) -> None:
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    queue.fail(job, ValueError(f"password={CANARY}"), final=True)
    assert queue.get(job).last_error == f"ValueError: password={MASK}"


def test_an_application_can_add_keys_and_a_function(url: str) -> None:
    app = Treadle(url, redaction=Redaction(keys=["customer_number"], text=lambda text: text.replace("ada", "***")))

    @app.job(retry=Retries(0))
    async def fail() -> None:
        raise ValueError("customer_number=77 of ada", f"password={CANARY}")

    handle = fail.enqueue()
    with pytest.raises(Exception, match="failed"):
        run_jobs(app, handle)
    (error,) = handle.errors()
    for text in (error.error, error.traceback or ""):
        assert f"customer_number={MASK} of ***" in text
        assert CANARY not in text
    assert masked({"customerNumber": 77, "name": "ada"}) == {"customerNumber": MASK, "name": "***"}
    Treadle(url).close()  # another application changes nothing
    assert masked("ada") == "***"


def test_an_application_can_switch_it_off(url: str, caplog: pytest.LogCaptureFixture) -> None:
    app = Treadle(url, redaction=False)

    @app.job(retry=Retries(0))
    async def fail() -> None:
        raise ValueError(f"password={CANARY}")

    handle = fail.enqueue()
    with pytest.raises(Exception, match=CANARY):
        run_jobs(app, handle)
    assert CANARY in caplog.text
    shown = run_treadle("show", handle.id, TREADLE_DATABASE_URL=url).output
    assert CANARY not in shown, "what is shown is still masked"


def test_a_redaction_that_fails_loses_neither_outcome_nor_log_line(url: str, caplog: pytest.LogCaptureFixture) -> None:
    def fails(text: str) -> str:
        raise RuntimeError(text)

    app = Treadle(url, redaction=Redaction(text=fails))

    @app.job(retry=Retries(0))
    async def fail() -> None:
        logging.getLogger("shop").warning("about to fail")
        raise ValueError(f"password={CANARY}")

    handle = fail.enqueue()
    with pytest.raises(Exception, match=rf"password=\{MASK[0]}"):
        run_jobs(app, handle)
    assert [line.message for line in handle.logs()] == ["about to fail"]
    assert "job failed" in caplog.text


def test_a_record_that_cannot_be_formatted_is_not_dropped() -> None:
    record = logging.LogRecord("treadle", logging.INFO, "a", 1, "%s %s", (f"password={CANARY}",), None)
    assert RedactingFilter().filter(record)
    assert (record.msg, record.args) == ("%s %s", (f"password={MASK}",)), "Python prints both"


def test_own_log_lines_are_redacted_with_any_handler(caplog: pytest.LogCaptureFixture) -> None:
    redact_own_log()
    log = logging.getLogger("treadle")
    formatter = logging.Formatter()
    try:
        raise ValueError(URL)  # noqa: TRY301
    except ValueError:
        log.exception("cannot reach %s", URL, extra={"event": {"error": URL}}, stack_info=True)
    (record,) = caplog.records
    assert CANARY not in formatter.format(record)
    assert CANARY not in json.dumps(getattr(record, "event", None))
    assert f"ValueError: postgres://ada:{MASK}@" in formatter.format(record)


def test_a_command_shows_no_secret_of_an_error(url: str) -> None:
    wrong = f"postgresql://ada:{CANARY}@127.0.0.1:1/films"
    for shown in (
        run_in_process("jobs", "--database-url", wrong),
        run_in_process("worker", "tests.support.secret_import:app", TREADLE_DATABASE_URL=url),
    ):
        assert shown.returncode != 0
        assert CANARY not in shown.stdout + shown.stderr
    for wrong_as_well in (wrong + "?nonsense=%zz", f"host=127.0.0.1 password={CANARY} nonsense=1"):
        here = run_treadle("jobs", "--database-url", wrong_as_well)
        assert here.exit_code != 0
        assert CANARY not in here.output


def test_a_deep_traceback_does_not_block_the_event_loop(url: str) -> None:
    app = Treadle(url)
    gaps: list[float] = []

    @app.job(retry=Retries(0))
    def deep() -> None:
        error = ValueError("deep")
        trace = None
        try:
            raise LookupError  # noqa: TRY301
        except LookupError as found:
            frame = found.__traceback__
        assert frame is not None
        for _ in range(50_000):
            trace = type(frame)(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
        raise error.with_traceback(trace)

    async def body() -> str | None:
        from tests.support.workers import running_worker

        async def measure() -> None:
            loop = asyncio.get_running_loop()
            while True:
                begin = loop.time()
                await asyncio.sleep(0.01)
                gaps.append(loop.time() - begin)

        async with running_worker(app):
            measuring = asyncio.create_task(measure())
            handle = await deep.aenqueue()
            with pytest.raises(Exception, match="deep"):
                await handle.aresult(30)
            measuring.cancel()
            return (await handle.aerrors())[0].traceback

    trace = asyncio.run(_closing(app, body()))
    assert trace is not None
    assert "frames left out" in trace
    assert trace.endswith("ValueError: deep\n")
    assert max(gaps) < 1


async def _closing(app: Treadle, body: Any) -> Any:
    try:
        return await body
    finally:
        await app.aclose()
