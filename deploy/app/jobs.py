"""The application that the image runs. Replace it with your own."""

from treadle import Job, Treadle

app = Treadle()


@app.job
async def greet(job: Job, name: str) -> str:
    job.progress(50, stage="greeting")
    return f"hello {name}"
