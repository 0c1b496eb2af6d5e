"""Jobs that leak a secret in every way that a handler can."""

import asyncio
import logging

import psycopg

from treadle import Cancel, Job, Retries, Retry, Treadle

CANARY = "hunter2-canary"
URL = f"postgres://ada:{CANARY}@127.0.0.1:1/films"

app = Treadle()
log = logging.getLogger("shop")


@app.job(retry=Retries(0))
async def message() -> None:
    raise ValueError(f"cannot reach {URL}")


@app.job(retry=Retries(0))
def on_thread() -> None:
    raise ValueError(f"Authorization: Bearer {CANARY}")


@app.job(retry=Retries(0), process=True)
def in_process() -> None:
    log.warning("using password=%s", CANARY)
    raise ValueError({"password": CANARY, "host": "db"})


@app.job(retry=Retries(0))
async def note() -> None:
    error = ValueError("failed")
    error.add_note(f"api_key={CANARY}")
    raise error


@app.job(retry=Retries(0))
async def cause() -> None:
    try:
        raise LookupError(f"secret: {CANARY}")  # noqa: TRY301
    except LookupError as error:
        raise ValueError("failed") from error


@app.job(retry=Retries(0))
async def group() -> None:
    raise ExceptionGroup("failed", [ValueError(f"token={CANARY}"), ExceptionGroup("inner", [KeyError(URL)])])


@app.job(retry=Retries(0))
async def deep() -> None:
    def call(n: int) -> None:
        if n:
            call(n - 1)
        raise ValueError(f"password='{CANARY}'")

    call(300)


@app.job(retry=Retries(0))
async def long_message() -> None:
    # The secret is where the text is cut.
    raise ValueError("x" * (8 * 1024 - 20) + f" password={CANARY} " + "y" * 100_000)


@app.job(retry=Retries(0))
async def cancelled() -> None:
    raise Cancel(f"password={CANARY}")


@app.job(retry=Retries(0))
async def retried() -> None:
    raise Retry(f"password={CANARY}", after="1h")


@app.job(retry=Retries(0))
async def database() -> None:
    await psycopg.AsyncConnection.connect(f"host=127.0.0.1 port=1 password={CANARY} nonsense=1")


@app.job(retry=Retries(0))
async def wrong_result() -> int:
    return CANARY  # type: ignore[return-value]


@app.job(retry=Retries(0))
async def group_in_task() -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(message.function())


@app.job(prints=True)
async def logs(job: Job) -> None:
    log.info("connecting to %s", URL)
    log.warning("headers: %s", {"Authorization": f"Bearer {CANARY}"}, extra={"password": CANARY})
    try:
        raise ValueError(f"password={CANARY}")  # noqa: TRY301
    except ValueError:
        log.exception("could not sign in")
    logging.getLogger("library").warning("retrying with token=%s", CANARY)
    log.warning("wrong arguments %s %s", f"password={CANARY}")  # noqa: PLE1206 - Python then prints the arguments
    print(f"password={CANARY}"[:9], end="")
    print(f"password={CANARY}"[9:])
    # What this worker itself logs about the attempt.
    logging.getLogger("treadle").error("job failed: %s", URL, exc_info=ValueError(URL), extra={"event": {"url": URL}})
    asyncio.get_running_loop().call_exception_handler({"message": f"password={CANARY}"})
