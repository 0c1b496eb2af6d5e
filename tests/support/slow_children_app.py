"""An application whose child processes start slowly."""

import multiprocessing
import os
import time

from treadle import Treadle

app = Treadle()

IMPORT_SECONDS = "TREADLE_TEST_IMPORT_SECONDS"


@app.job(max_attempts=1, process=True, timeout=0.5, deadline=0.5)
def hurried() -> str:
    return "in time"


@app.job(max_attempts=1, process=True)
def unhurried() -> str:
    return "done"


@app.job(max_attempts=1, process=True, deadline=0.5)
def leave() -> None:
    os._exit(17)


if multiprocessing.current_process().name == "treadle-child":
    time.sleep(float(os.environ.get(IMPORT_SECONDS, "0")))
