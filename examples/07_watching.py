"""Watch a job with a live progress bar. In a pipe, lines are printed instead.

Install: pip install "treadle[embedded]"
"""

import asyncio

from treadle import Job, Treadle

app = Treadle()


@app.job
async def import_rows(job: Job, rows: int) -> int:
    for row in job.track(range(rows), stage="importing"):
        await asyncio.sleep(0.02)
        if row % 20 == 10:
            job.event("checked", row=row)
    return rows


async def main() -> None:
    async with app.worker():
        handle = await import_rows.aenqueue(rows=50)
        print(await handle.awatch())  # or from a shell: treadle watch ID
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
