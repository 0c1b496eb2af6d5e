"""The jobs of the worker processes that `treadle bench` starts: as many job types as the environment says."""

import os

from treadle.app.treadle import Treadle

SCHEMA, TYPES = "TREADLE_BENCH_SCHEMA", "TREADLE_BENCH_JOB_TYPES"


def job_type(number: int) -> str:
    return f"noop{number}"


async def noop(n: int, path: str) -> None:
    pass


app = Treadle(schema=os.environ.get(SCHEMA, "treadle"))
for number in range(int(os.environ.get(TYPES, "1"))):
    app.job(name=job_type(number))(noop)
