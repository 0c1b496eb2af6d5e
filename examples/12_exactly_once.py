"""Exactly-once effects: the debit and the completion of the job are one commit.

Install: pip install "treadle[embedded]"
"""

import asyncio

from treadle import Backoff, Job, Retries, Treadle

app = Treadle()


@app.job(retry=Retries(backoff=Backoff(first="100ms")))
def pay(job: Job, amount: int) -> str:
    with job.transaction() as connection:
        connection.execute("update example_account set balance = balance - %s", [amount])
        if job.attempt == 1:
            raise ConnectionError("failed halfway")  # the debit of this attempt is rolled back
        job.complete("paid")
    return "paid"


async def main() -> None:
    async with app.database.atransaction() as connection:
        await connection.execute("create table if not exists example_account (balance int)")
        await connection.execute("truncate example_account")
        await connection.execute("insert into example_account values (100)")
    async with app.worker():
        print(await (await pay.aenqueue(amount=30)).aresult(timeout=30))
    async with app.database.atransaction() as connection:
        balance = await (await connection.execute("select balance from example_account")).fetchone()
        print("balance:", balance[0] if balance else None)
        await connection.execute("drop table example_account")
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
