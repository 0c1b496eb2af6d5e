"""An application whose jobs end their processes."""

import asyncio
import os
import subprocess
import time

from tests.support.handlers import note
from treadle import Job, Retries, Treadle

app = Treadle()


@app.job(retry=Retries(0))
def leave_a_helper(job: Job) -> None:
    helper = subprocess.Popen(["sleep", "600"])
    note(f"helper {helper.pid}", job)
    os._exit(17)


@app.job(retry=Retries(0), process=True)
def leave_when_stopped(job: Job) -> None:
    note("start", job)
    while not job.cancelled:
        time.sleep(0.01)
    note("stopped", job)
    os._exit(17)


@app.job(retry=Retries(0))
async def fork_and_return(job: Job) -> str:
    if child := os.fork():
        note(f"child {child}", job)
    return "done"


@app.job(retry=Retries(0))
async def fork_and_wait(job: Job) -> str:
    if child := os.fork():
        note(f"child {child}", job)
    else:
        await asyncio.sleep(600)
    return "done"


@app.job(retry=Retries(0))
def fork_on_thread(job: Job) -> str:
    if child := os.fork():
        note(f"child {child}", job)
    return "done"
