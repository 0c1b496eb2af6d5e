"""Read the log lines of a job: what handlers log is stored with their jobs.

Install: pip install "treadle[embedded]"
"""

import asyncio
import logging

from treadle import Job, Treadle

app = Treadle()
log = logging.getLogger("shop")
log.setLevel(logging.INFO)


@app.job(prints=True)
def shop(job: Job, what: str) -> None:
    log.info("%s %s", 3, what)
    print("and a pear")


async def main() -> None:
    async with app.worker():
        handles = []
        for what in ("apples", "plums"):  # one after the other: two threads could print into one line
            handles.append(await shop.aenqueue(what=what))
            await handles[-1].aresult(timeout=30)
    for handle in handles:
        print([(line.level, line.message) for line in await handle.alogs()])
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
