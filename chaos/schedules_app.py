"""The application of chaos/schedules.py: schedules whose handler notes the times that it is told."""

from chaos.ledger import Ledger
from chaos.schedule_checker import BEATS
from treadle import Cron, Every, Job, Treadle

app = Treadle()
ledger = Ledger.of_environment()


@app.job
async def beat(job: Job, schedule: str) -> None:
    ledger.note(
        "beat",
        schedule=schedule,
        id=str(job.id),
        scheduled_for=job.scheduled_for,
        before=job.previously_scheduled_for,
        created=job.created_at,
    )


def times(expression: str, timezone: str) -> Cron | Every:
    if expression.startswith("every "):
        return Every(expression.removeprefix("every "), missed="all", missed_limit=1000)
    return Cron(expression, timezone=timezone, missed="all", missed_limit=1000)


for name, (written, _, zone) in BEATS.items():
    app.schedule(name, times(written, zone), beat, {"schedule": name})
