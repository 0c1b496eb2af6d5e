"""Type checking of the API: mypy reports wrong calls and accepts correct ones.

A comment on a line of the sample states the expected report: `# expect-error: codes`, `# expect-type: type`, or none.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

HEAD = """
import functools
from typing import Any, TypedDict

import psycopg

from treadle import Backoff, Connections, Cron, Debounce, Every, Fairness, Handle, Job, JobQueue, Limit, MaxPending
from treadle import JobDefaults, JobGroup, JobOptions, Once, Priority, Rate, Retries, Store, Throttle, Treadle
from treadle import Workflow, chain, group

app = Treadle(defaults=JobDefaults(retry=Retries(1), timeout="10m", queue="web"))
"""

SAMPLE = """
# Functions

@app.job
def plain(user_id: int, name: str = "") -> str:
    return name

@app.job
async def awaited(user_id: int) -> list[int]:
    return [user_id]

@app.job
def first(job: Job, user_id: int) -> float:
    return 1.0

@app.job(name="first", priority=Priority.BACKFILL, queue="mail", retry=Retries(4), timeout=("5m", 600))
async def awaited_first(job: Job, user_id: int) -> bytes:
    return b""

@app.job(retry=Retries(on=OSError, give_up_on=(KeyError, ValueError), backoff=Backoff(first="2s", factor=3)))
def optional(user_id: int, job: Job | None = None) -> bool:
    return True

@app.job(process=True, memory_limit="512MB", aliases=["before"])
async def awaited_optional(user_id: int, *, job: Job | None = None) -> None: ...

@app.job()
def open_ended(user_id: int, **options: int) -> dict[str, int]:
    return options

# Options that several functions share

COMMON: JobOptions = {"queue": "mail", "retry": Retries(1)}
class Some(TypedDict):
    queue: str
    retry: Retries

SOME: Some = {"queue": "mail", "retry": Retries(1)}
ANYTHING: dict[str, Any] = {"queue": "mail"}
mail = app.job(queue="mail", timeout="5m")
slow = functools.partial(app.job, queue="slow")

@app.job(**COMMON)
def shared(user_id: int) -> str:
    return ""

@app.job(**ANYTHING)
def open_options(user_id: int) -> str:
    return ""

@app.job(**SOME, priority=7)
def some_shared(user_id: int) -> str:
    return ""

@slow(priority=7)
def slowly(user_id: int) -> str:
    return ""

@mail
def mailed(job: Job, user_id: int) -> str:
    return ""

reveal_type(shared.enqueue(7))  # expect-type: treadle.jobs.handle.Handle[str]
reveal_type(open_options.enqueue(7))  # expect-type: treadle.jobs.handle.Handle[str]
reveal_type(some_shared.enqueue(7))  # expect-type: treadle.jobs.handle.Handle[str]
reveal_type(mailed.enqueue(7).result())  # expect-type: str
reveal_type(slowly.enqueue(7).result())  # expect-type: str
slowly.enqueue("7")  # expect-error: arg-type
reveal_type(mailed.handle("id").result())  # expect-type: str
shared.enqueue("7")  # expect-error: arg-type
mailed.enqueue("7")  # expect-error: arg-type
JobGroup(defaults=JobDefaults(queue=7))  # expect-error: arg-type
wrong: JobOptions = {"retry": 3}  # expect-error: typeddict-item
app.job(retry=3)  # expect-error: call-overload

# Enqueueing what fits

plain.enqueue(7)
plain.enqueue(7, "x")
plain.enqueue(user_id=7, name="x")
awaited.enqueue(user_id=7)
first.enqueue(user_id=7)
first.enqueue(7)
awaited_first.enqueue(7)
optional.enqueue(7)
awaited_optional.enqueue(user_id=7)
open_ended.enqueue(7, a=1, b=2)
plain.using(priority=1).using(delay="10m").enqueue(7)
plain.enqueue_many({"user_id": n} for n in range(3))

# And what does not

plain.enqueue("7")  # expect-error: arg-type
plain.enqueue(user_id="7")  # expect-error: arg-type
plain.enqueue()  # expect-error: call-arg
plain.enqueue(7, colour="red")  # expect-error: call-arg
plain.enqueue(7, "x", "y")  # expect-error: call-arg
plain.using(priority=1).enqueue("7")  # expect-error: arg-type
plain.using(priority=1).enqueue()  # expect-error: call-arg
plain.using(priority=1).enqueue(7, colour="red")  # expect-error: call-arg
plain.using(priority=1).using(delay=1).enqueue("7")  # expect-error: arg-type
awaited.enqueue("7")  # expect-error: arg-type
first.enqueue("7")  # expect-error: arg-type
first.enqueue()  # expect-error: call-arg
first.enqueue(7, colour="red")  # expect-error: call-arg
awaited_first.enqueue("7")  # expect-error: arg-type
awaited_first.using(queue="mail").enqueue()  # expect-error: call-arg
optional.enqueue("7")  # expect-error: arg-type
optional.enqueue()  # expect-error: call-arg
optional.enqueue(7, colour="red")  # expect-error: call-arg
awaited_optional.enqueue(user_id="7")  # expect-error: arg-type
open_ended.enqueue(7, a="x")  # expect-error: arg-type
plain.enqueue_many([7])  # expect-error: list-item

async def enqueue() -> None:
    await plain.aenqueue(7, name="x")
    await first.aenqueue(7)
    await optional.using(key="k").aenqueue(7)
    await awaited.aenqueue_many([{"user_id": 7}])
    await plain.aenqueue("7")  # expect-error: arg-type
    await plain.aenqueue()  # expect-error: call-arg
    await plain.aenqueue(7, colour="red")  # expect-error: call-arg
    await first.aenqueue("7")  # expect-error: arg-type
    await awaited_first.using(key="k").aenqueue("7")  # expect-error: arg-type
    await awaited_first.using(key="k").aenqueue()  # expect-error: call-arg
    plain.aenqueue(7)  # expect-error: unused-coroutine

# Results

reveal_type(plain.enqueue(7))  # expect-type: treadle.jobs.handle.Handle[str]
reveal_type(plain.enqueue(7).result())  # expect-type: str
reveal_type(awaited.enqueue(7).result(timeout="1m"))  # expect-type: list[int]
reveal_type(first.enqueue(7).result(timeout=60))  # expect-type: float
reveal_type(awaited_first.enqueue(7).result())  # expect-type: bytes
reveal_type(optional.using(priority=3).enqueue(7).result())  # expect-type: bool
reveal_type(awaited_optional.enqueue(7))  # expect-type: treadle.jobs.handle.Handle[None]
reveal_type(open_ended.enqueue(7, a=1).result())  # expect-type: dict[str, int]
reveal_type(first.enqueue_many([{}])[0].result())  # expect-type: float

async def results() -> None:
    reveal_type(await plain.enqueue(7).aresult())  # expect-type: str
    reveal_type(await (await awaited.aenqueue(7)).aresult("1m"))  # expect-type: list[int]
    reveal_type(await (await first.using(delay=1).aenqueue(7)).aresult())  # expect-type: float
    reveal_type((await awaited.aenqueue_many([{}]))[0])  # expect-type: treadle.jobs.handle.Handle[list[int]]

# Shapes

reveal_type(chain(plain.call(7)).enqueue().result())  # expect-type: str
reveal_type(chain(plain.call(7), awaited.call(), first.call(7)).enqueue().result())  # expect-type: float
reveal_type(group(plain.call(7), plain.call(8)).enqueue().result())  # expect-type: list[str]
reveal_type(group(plain.call(7), first.call(7)).enqueue().result())  # expect-type: list[str | float]
reveal_type(group(*(plain.call(n) for n in range(9))).enqueue().result())  # expect-type: list[str]
reveal_type(group(first.call(7), group(plain.call(7))).enqueue().result())  # expect-type: list[float | list[str]]
reveal_type(group(plain.call(7), plain.call(8)).then(first.call()).enqueue().result())  # expect-type: float
reveal_type(chain(plain.call(7), group(awaited.call(7))).enqueue().result())  # expect-type: list[list[int]]

flow = Workflow("any")
reveal_type(flow.enqueue().result())  # expect-type: Any
reveal_type(flow.add(plain.call(7)).output)  # expect-type: str
reveal_type(flow.add(group(plain.call(7))).output)  # expect-type: list[str]
typed = Workflow[str]("typed")
typed.returns(typed.add(plain.call(7)))
typed.returns(typed.add(first.call(7)))  # expect-error: arg-type
reveal_type(typed.enqueue().result())  # expect-type: str
reveal_type(flow.add(typed))  # expect-type: treadle.jobs.workflows.steps.Step[str]
chain(plain)  # expect-error: call-overload
group(plain.call(7), 8)  # expect-error: call-overload

async def shapes() -> None:
    reveal_type(await (await chain(plain.call(7), first.call(7)).aenqueue()).aresult())  # expect-type: float

def send(handle: Handle[int]) -> None: ...
send(plain.enqueue(7))  # expect-error: arg-type

# The function itself

reveal_type(plain(7, "x"))  # expect-type: str
reveal_type(optional(7))  # expect-type: bool
plain("7")  # expect-error: arg-type
plain()  # expect-error: call-arg

def call(job: Job) -> None:
    reveal_type(first(job, 7))  # expect-type: float
    optional(7, job)
    first(job, "7")  # expect-error: arg-type
    first(7)  # expect-error: call-arg, arg-type

async def acall(job: Job) -> None:
    reveal_type(await awaited(7))  # expect-type: list[int]
    reveal_type(await awaited_first(job, 7))  # expect-type: bytes
    await awaited("7")  # expect-error: arg-type
    await plain(7)  # expect-error: misc

# Options

def use(connection: psycopg.Connection[Any], aconnection: psycopg.AsyncConnection[Any]) -> None:
    plain.using(connection=connection).enqueue(7)
    awaited.using(connection=aconnection, key="k", queue="mail", retry=Retries(1), unique=Once("user_id")).enqueue(7)
plain.using(colour="red")  # expect-error: call-arg
plain.using(priority="high")  # expect-error: arg-type
plain.using(delay=[])  # expect-error: arg-type
plain.using(key=7)  # expect-error: arg-type
plain.using(priority=1).using(colour="red")  # expect-error: call-arg
app.job(colour="red")  # expect-error: call-overload
app.job(priority="high")  # expect-error: call-overload
app.job(retry=3)  # expect-error: call-overload
app.job(unique=True)  # expect-error: call-overload
app.job(schedule=Every("90s"), limits=[Limit(3, per="tenant"), Rate(10, "1s"), MaxPending(100)], unique=None)
app.job(schedule="@hourly")  # expect-error: call-overload
app.schedule("nightly", Cron("0 3 * * *", timezone="Europe/Oslo"), awaited, {"user_id": 7}, queue="mail")
app.schedule("nightly", Cron("0 3 * * *"), awaited, timezone="Europe/Oslo")  # expect-error: call-arg
Cron("0 3 * * *", timezon="Europe/Oslo")  # expect-error: call-arg
Once("user", per="1h").arguments
Once(7)  # expect-error: arg-type
Debounce("30s", "user", at_most="5m")
Throttle(1, "5m", "user", on_conflict="replace")  # expect-error: arg-type
Retries(5, on="OSError")  # expect-error: arg-type
Treadle(pool_size=3)  # expect-error: call-arg
Treadle(connections=Connections(pool_size=3), fairness=Fairness(aging="1h"), store=Store(limit="1GB"))
JobQueue(pool_size=3)  # expect-error: call-arg
app.complete  # expect-error: attr-defined
app.job(7)  # expect-error: call-overload
app.worker(colour="red")  # expect-error: call-arg
"""


def test_wrong_calls_are_type_errors_and_correct_ones_have_the_right_types(tmp_path: Path) -> None:
    assert reports(HEAD + SAMPLE, tmp_path) == expected(HEAD + SAMPLE)


def reports(sample: str, folder: Path) -> dict[str, set[str]]:
    """The reports of mypy by line: error codes and revealed types. The cache of the repository makes it faster."""
    path = folder / "sample.py"
    path.write_text(sample)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
    assert done.returncode in (0, 1), done.stderr or done.stdout
    lines = _numbered(sample)
    found: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        report = re.fullmatch(r'.*sample\.py:(\d+): (?:error: .*\[([\w-]+)\]|note: Revealed type is "(.*)")', line)
        if report:
            found.setdefault(lines[int(report[1]) - 1][0], set()).add(report[2] or report[3])
        else:
            assert ": note: " in line, line
    return found


def expected(sample: str) -> dict[str, set[str]]:
    marks = {source: mark.partition(": ") for source, mark in _numbered(sample) if mark}
    return {source: set(what.split(", ")) if kind == "error" else {what} for source, (kind, _, what) in marks.items()}


def _numbered(sample: str) -> list[tuple[str, str]]:
    """The lines with their expectations, numbered so that a failure shows where to look."""
    parts = [line.partition("  # expect-") for line in sample.splitlines()]
    return [(f"{nth}: {source}", mark) for nth, (source, _, mark) in enumerate(parts, 1)]
