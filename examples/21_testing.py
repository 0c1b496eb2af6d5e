"""Tests of an application: what was enqueued, and what happens in the days after. Usually in a pytest fixture.

Install: pip install "treadle[embedded]"
"""

from treadle import Job, Retries, Treadle
from treadle.testing import harness_for, make_job

app = Treadle("postgresql://production.example.org/shop")  # never used here
sent: list[str] = []


@app.job
def welcome(user_id: int) -> None:
    sent.append(f"welcome {user_id}")


@app.job(retry=Retries(2))
def remind(job: Job, user_id: int) -> None:
    if job.attempt == 1:
        raise ConnectionError("the mail server does not answer")
    job.progress(100, stage="sent")
    sent.append(f"reminder {user_id}")


def signup(user_id: int) -> None:
    welcome.enqueue(user_id=user_id)
    remind.using(delay="1d").enqueue(user_id=user_id)


if __name__ == "__main__":
    with harness_for(app) as treadle:
        signup(7)
        treadle.assert_enqueued(welcome, user_id=7)
        print("due:", treadle.drain().completed, sent)
        treadle.travel("1d")
        try:
            treadle.drain()
        except ConnectionError as error:
            print("raised:", error)
        print("retried:", treadle.drain(follow=True).completed, sent)
        try:
            treadle.assert_enqueued(welcome, user_id=8)
        except AssertionError as error:
            print(error)

    job = make_job(remind, attempt=2)
    remind(job, user_id=9)
    print("reported:", *job.reported)
