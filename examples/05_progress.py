"""Report progress with stages and counted items, and read it from outside of the job.

Install: pip install "treadle[embedded]"
"""

import asyncio

from treadle import Job, Treadle

app = Treadle()


@app.job
async def resize(job: Job, pictures: int) -> None:
    with job.stage("fetching", weight=0.2):
        job.progress(50)
        await asyncio.sleep(0.5)
    for _ in job.track(range(pictures), stage="resizing"):
        await asyncio.sleep(0.2)


async def main() -> None:
    async with app.worker():
        handle = await resize.aenqueue(pictures=5)
        shown = set()
        while (progress := await handle.aprogress()).percent < 100:
            shown.add(progress.stage)
            await asyncio.sleep(0.05)
        print(sorted(stage for stage in shown if stage), f"{progress.done} of {progress.total}")
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
