"""An application whose child processes start slowly."""

import multiprocessing
import os
import time

from treadle import Retries, Treadle

app = Treadle()

IMPORT_SECONDS = "TREADLE_TEST_IMPORT_SECONDS"


@app.job(retry=Retries(0), process=True, timeout=(0.5, 0.5))
def hurried() -> str:
    return "in time"


@app.job(retry=Retries(0), process=True)
def unhurried() -> str:
    return "done"


@app.job(retry=Retries(0), process=True, timeout=(None, 0.5))
def leave() -> None:
    os._exit(17)


if multiprocessing.current_process().name == "treadle-child":
    time.sleep(float(os.environ.get(IMPORT_SECONDS, "0")))
