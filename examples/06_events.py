"""Publish events from a job, and read them live, after the fact, and for all jobs.

Install: pip install "treadle[embedded]"
"""

import asyncio

from treadle import Job, Treadle

app = Treadle()


@app.job
async def render(job: Job, pages: int) -> None:
    for page in range(1, pages + 1):
        job.event("rendered", page=page)
        await asyncio.sleep(0.05)


async def main() -> None:
    async with app.worker():
        handle = await render.aenqueue(pages=3)
        async for event in handle.events():  # live, until the job is finished
            print(event.number or "-", event.name, event.data.get("page", ""))
        print("after 2:", [event.name for event in handle.events(after=2)])
        async for event in app.events(types=["render"]):  # of all jobs, for example to forward them
            print("of job", event.job_id == handle.id, event.data["page"])
            if event.number == 3:
                break
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
