"""The application of benchmarks/schedules.py, which declares 10,000 schedules if its environment says so."""

import os

from treadle import Cron, Treadle

SCHEDULES = 10_000
DECLARED = "TREADLE_BENCHMARK_DECLARED"

app = Treadle()


@app.job
async def nothing() -> None: ...


def expression(number: int) -> str:
    """Of 9,000 schedules, 10 are due in each second of a quarter of an hour. The others are due once a year."""
    if number >= 9_000:
        return f"{number % 60} 0 1 1 *"
    minute, second = divmod(number % 900, 60)
    return f"{second} {minute}-59/15 * * * *"


if os.environ.get(DECLARED):
    for each in range(SCHEDULES):
        app.schedule(f"schedule {each}", Cron(expression(each)), nothing)
