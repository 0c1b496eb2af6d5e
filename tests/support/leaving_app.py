"""An application whose jobs end their processes."""

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
