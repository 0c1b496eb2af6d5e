"""Schedules: a job every second, and one that was added at run time.

Install: pip install "treadle[embedded]"
"""

import asyncio

from treadle import Cron, Every, Job, Treadle

app = Treadle()
finished = asyncio.Event()


@app.job(schedule=Every("1s"))
async def beat(job: Job) -> None:
    if job.scheduled_for and job.previously_scheduled_for:
        print("seconds since the last beat:", (job.scheduled_for - job.previously_scheduled_for).seconds)
        finished.set()


@app.job
async def report(kind: str) -> None:
    print("report:", kind)


async def main() -> None:
    app.schedules.add("weekly report", Cron("0 9 * * mon", timezone="Europe/Oslo"), report, {"kind": "full"})
    async with app.worker():
        await asyncio.wait_for(finished.wait(), 30)
        app.schedules.pause("beat")
        app.schedules.run_now("weekly report")
        await asyncio.sleep(1)
    for schedule in app.schedules():
        print(schedule.name, schedule.expression, "paused" if schedule.paused_at else "active")


asyncio.run(main())
