"""An application that reports to Sentry: its events go to a file when they are flushed, also from child processes."""

import os
import signal
from pathlib import Path

from tests.support.sentry import FakeTransport, init
from treadle import Retries, Treadle
from treadle.contrib.sentry import instrument

FILE = "TREADLE_TEST_SENTRY"

init(FakeTransport(Path(os.environ.get(FILE, os.devnull))))
app = Treadle()
instrument(app)


@app.job(retry=Retries(0))
async def on_the_loop() -> None:
    fail()


@app.job(retry=Retries(0), process=True)
def in_a_child() -> None:
    fail()


@app.job(retry=Retries(0), process=True)
def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    raise LookupError("nothing found")
