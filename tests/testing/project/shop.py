"""An application as a user writes it: tests/testing/test_plugin.py runs its tests."""

from treadle import Cron, Job, Retries, Treadle

app = Treadle("postgresql://nobody@production.invalid/shop")
outbox: list[str] = []


@app.job(retry=Retries(2))
def welcome(user_id: int, kind: str = "short") -> str:
    outbox.append(f"welcome {user_id}")
    return f"{kind} welcome for {user_id}"


@app.job
async def remind(user_id: int) -> None:
    outbox.append(f"reminder for {user_id}")


@app.job(schedule=Cron("0 9 * * *", timezone="Europe/Oslo"))
def daily(job: Job) -> None:
    outbox.append("daily report")


def signup(user_id: int) -> None:
    welcome.enqueue(user_id=user_id)
    remind.using(delay="1d").enqueue(user_id=user_id)
