"""An import as a workflow and a batch: one job for each part that is found, and a report when all have ended.

Install: pip install "treadle[embedded]"
"""

from treadle import Job, Treadle, Workflow

app = Treadle()


@app.job
def find_parts(folder: str) -> list[str]:
    return [f"{folder}/{name}.csv" for name in ("a", "b", "c")]


@app.job
def load(path: str, table: str) -> int:
    return len(path)


@app.job
def summarize(rows: list[int]) -> int:
    return sum(rows)


# How many jobs there are is known when the first one has ended.
flow = Workflow("nightly import")
found = flow.add(find_parts.call("books"), name="find")
loaded = flow.map(load.call(table="books"), over=found, name="load")
flow.returns(flow.add(summarize.call(loaded.output), name="summarize"))
nightly = flow.enqueue()


@app.job
def check(job: Job, row: int) -> None:
    if row == 3:  # jobs of a batch may add others
        check.using(workflow=job).enqueue(row=33)


@app.job
def report(what: str) -> None:
    print(what)


with app.batch("check 7", on_success=report.call("all rows are checked")) as batch:
    batch.enqueue_many(check, ({"row": row} for row in range(10)))

app.run_worker(drain=True, concurrency=1)
print(nightly.status(), nightly.result(), [job.name for job in nightly.jobs()])
print(batch.status(), batch.counts())
