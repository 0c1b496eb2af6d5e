"""Read the log lines of a job: what handlers log is stored with their jobs."""

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
        first, second = await shop.aenqueue(what="apples"), await shop.aenqueue(what="plums")
        for handle in (first, second):
            await handle.aresult(timeout=30)
    for handle in (first, second):
        print([(line.level, line.message) for line in await handle.alogs()])
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
