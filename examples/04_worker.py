"""Run a worker inside a program: an async job, a sync job and a job that is retried, and their results.

Install: pip install "treadle[embedded]"
"""

import asyncio

from treadle import Backoff, Job, Retries, Treadle

app = Treadle()


@app.job
async def greet(name: str) -> str:
    return f"hello {name}"


@app.job
def count_letters(job: Job, text: str) -> int:
    job.progress(50, stage="counting")
    return len(text)


@app.job(retry=Retries(backoff=Backoff(first="100ms")))
async def shaky(job: Job) -> str:
    if job.attempt == 1:
        raise ConnectionError("the first attempt always fails")
    return f"done at attempt {job.attempt}"


async def main() -> None:
    async with app.worker():
        handles = [await greet.aenqueue("ada"), await count_letters.aenqueue(text="treadle"), await shaky.aenqueue()]
        for handle in handles:
            print(await handle.aresult(timeout=30))
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
