"""Ordering by key, with the async methods: bookings of one account run in order, different accounts in parallel.

Install: pip install "treadle[embedded]"
"""

import asyncio

from treadle import JobQueue


async def work(queue: JobQueue) -> None:
    while jobs := await queue.aclaim(["booking"]):
        for job in jobs:
            print(f"account {job.key}: booking {job.data['number']}")
        await queue.acomplete_many(jobs)


async def main() -> None:
    async with JobQueue() as queue:
        for number in (1, 2, 3):
            await queue.aenqueue("booking", {"number": number}, key="ada")
            await queue.aenqueue("booking", {"number": number}, key="grace")
        await work(queue)


if __name__ == "__main__":
    asyncio.run(main())
