"""An application whose middleware runs where its handlers do: also in child processes."""

import os
import threading
from collections.abc import Iterator

from treadle import Job, Retries, Treadle

app = Treadle()


@app.middleware
def note_place(job: Job) -> Iterator[None]:
    job.event("before", pid=os.getpid(), thread=threading.get_ident(), arguments=dict(job.arguments))
    try:
        yield
    except ValueError as error:
        job.event("raised", error=str(error))
        raise
    job.event("after", pid=os.getpid(), thread=threading.get_ident())


def _place(n: int) -> list[int]:
    if n < 0:
        raise ValueError("n is negative")
    return [os.getpid(), threading.get_ident()]


@app.job(retry=Retries(0))
async def on_the_loop(n: int) -> list[int]:
    return _place(n)


@app.job(retry=Retries(0))
def on_a_thread(job: Job, n: int) -> list[int]:
    return _place(n)


@app.job(retry=Retries(0), process=True)
def in_a_child(n: int) -> list[int]:
    return _place(n)


@app.job(retry=Retries(0), process=True)
async def on_the_loop_of_a_child(job: Job, n: int) -> list[int]:
    return _place(n)
