"""Checkpoints and steps: the second attempt resumes where the first one failed.

Install: pip install "treadle[embedded]"
"""

import asyncio

from treadle import Backoff, Job, Retries, Treadle

app = Treadle()
soon = Backoff(first="100ms")


@app.job(retry=Retries(backoff=soon))
def import_rows(job: Job, rows: int) -> str:
    start = done = job.checkpoint or 0
    for n in job.track(range(done, rows), rows, stage="importing", done=done):
        done = n + 1
        if done % 10 == 0:
            job.save(done)
        if job.attempt == 1 and done == 57:
            raise ConnectionError("the connection broke")
    return f"{done} rows, the last attempt began at {start}"


def upload(path: str) -> str:
    print("uploading", path)
    return f"https://example.org/{path}"


@app.job(retry=Retries(backoff=soon))
def publish(job: Job, path: str) -> str:
    address = job.step("upload", upload, path)
    if job.attempt == 1:
        raise ConnectionError("the service is unavailable")
    return address


async def main() -> None:
    async with app.worker():
        print(await (await import_rows.aenqueue(rows=100)).aresult(timeout=30))
        print(await (await publish.aenqueue(path="a.pdf")).aresult(timeout=30))
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
