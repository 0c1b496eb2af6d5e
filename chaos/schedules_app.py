"""The application of chaos/schedules.py: schedules whose handler notes the times that it is told."""

from chaos.ledger import Ledger
from chaos.schedule_checker import BEATS
from treadle import Job, Treadle

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


for name, (expression, _, timezone) in BEATS.items():
    app.schedule(name, expression, beat, {"schedule": name}, timezone=timezone, missed="all", missed_limit=1000)
