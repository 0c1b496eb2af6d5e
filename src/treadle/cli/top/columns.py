"""The tables of treadle top and their columns. Text from the database is made printable."""

from datetime import datetime
from typing import NamedTuple

from rich.text import Text

from treadle.cli.top.table import Column, TableSpec
from treadle.text.stuck import summarize_stopped, summarize_stuck
from treadle.watching.bars import bar
from treadle.words.formatting import count, countdown, estimated, printable, rate, short_id, span
from treadle.words.overview import Backlog, WorkerRow
from treadle.words.snapshot import JobSnapshot

BAR, LONG_BAR = 10, 24


class LaneNow(NamedTuple):
    """A lane, and when it was read, by the clock of the database."""

    lane: Backlog
    at: datetime
    at_limit: bool = False
    """Jobs of its type wait for a limit."""

    @property
    def waited(self) -> float:
        """Seconds for which the oldest job has waited; negative if no job is due yet."""
        lane = self.lane
        if lane.due_since:
            return max(0.0, (self.at - lane.due_since).total_seconds())
        return (self.at - lane.due_next).total_seconds() if lane.due_next else 0.0


class WorkerNow(NamedTuple):
    worker: WorkerRow
    at: datetime


def _oldest(now: LaneNow, _: int) -> str:
    if now.lane.due_since:
        return span(now.waited) if now.waited >= 1 else "now"
    return f"in {countdown(-now.waited)}" if now.lane.due_next else ""


def _warning(now: LaneNow, _: int) -> Text:
    if now.lane.paused:
        return Text("paused", style="yellow")
    if now.lane.depth and not now.lane.served:
        return Text("no worker", style="red")
    return Text("at limit" if now.lane.depth and now.at_limit else "", style="yellow")


LANES = TableSpec[LaneNow](
    name="types",
    columns=[
        Column("type", lambda now, _: printable(now.lane.job_type), 2, grows=True, order=lambda now: now.lane.job_type),
        Column("queue", lambda now, _: printable(now.lane.queue), 1, grows=True),
        Column("priority", lambda now, _: str(now.lane.priority), 9, right=True, order=lambda now: -now.lane.priority),
        Column(
            "waiting",
            lambda now, _: estimated(count(now.lane.depth), now.lane.exact, now.lane.counted_at),
            9,
            right=True,
            order=lambda now: -now.lane.depth,
        ),
        Column("oldest", _oldest, 10, right=True, order=lambda now: -now.waited),
        Column("", _warning, 9),
    ],
    key=lambda now: (now.lane.job_type, now.lane.queue, -now.lane.priority),
    sort_by="waiting",
    keeps_order=True,
    empty="No jobs are waiting.",
    dimmed=lambda now: not now.lane.depth,
)


def _types(now: WorkerNow, _: int) -> str | Text:
    if now.worker.state == "stuck" and now.worker.stuck:
        return Text(summarize_stuck(now.worker.stuck), style="red")
    if now.worker.alive and now.worker.stopped_children:
        return Text(summarize_stopped(now.worker.stopped_children), style="red")
    if now.worker.state == "silent":
        return Text(now.worker.state_text, style="red")
    types = now.worker.job_types
    return "manual claims" if types is None else printable(", ".join(sorted(types)))


def _busy(now: WorkerNow, _: int) -> str:
    return f"{now.worker.running}" + ("" if now.worker.slots is None else f"/{now.worker.slots}")


def _last_seen(now: WorkerNow, _: int) -> Text | str:
    seconds = max(0.0, (now.at - now.worker.seen_at).total_seconds())
    if now.worker.state == "stuck" and now.worker.stuck:
        return Text(f"stuck {span(max(0.0, (now.at - now.worker.stuck.since).total_seconds()))}", style="red")
    if now.worker.state == "lost":
        return Text(f"lost {span(seconds)}", style="red")
    if now.worker.state == "asleep":
        return f"asleep {span(seconds)}"
    text = f"{seconds:.0f}s" if seconds < 60 else span(seconds)
    return text if now.worker.alive else Text(text, style="red")


WORKERS = TableSpec[WorkerNow](
    name="workers",
    columns=[
        Column(
            "worker",
            lambda now, _: printable(now.worker.worker_id),
            2,
            grows=True,
            order=lambda now: (now.worker.state != "stuck", not now.worker.alive),
        ),
        Column("host", lambda now, _: printable(now.worker.host or ""), 1, grows=True, min_table_width=76),
        Column("types", _types, 2, grows=True),
        Column("busy", _busy, 8, right=True, order=lambda now: -now.worker.running),
        Column("last seen", _last_seen, 13, right=True, order=lambda now: now.worker.seen_at),
    ],
    key=lambda now: now.worker.worker_id,
    sort_by="worker",
    empty="No workers are running. Start one with: treadle worker",
    dimmed=lambda now: not now.worker.alive,
)


def _bar(job: JobSnapshot, width: int) -> Text:
    percent = job.progress.percent
    return bar(percent, max(1, width - 5), "blue").append(f" {percent:3}%")


def _done(job: JobSnapshot, _: int) -> str:
    done, total = job.progress.done, job.progress.total
    return "" if done is None else count(done) + ("" if total is None else f"/{count(total)}")


_TYPE = Column[JobSnapshot](
    "type", lambda job, _: printable(job.job_type), 3, grows=True, order=lambda job: job.job_type
)
_ID = Column[JobSnapshot]("", lambda job, _: short_id(job.id), 8)

JOBS = TableSpec[JobSnapshot](
    name="running",
    columns=[
        _TYPE,
        _ID,
        Column("progress", _bar, BAR + 5, order=lambda job: -job.progress.percent),
        Column("stage", lambda job, _: printable(job.progress.stage or ""), 3, grows=True),
        Column("done", _done, 13, right=True, min_table_width=110),
        Column(
            "rate",
            lambda job, _: rate(job.progress.rate) if job.progress.rate else "",
            7,
            right=True,
            min_table_width=66,
        ),
        Column(
            "left",
            lambda job, _: countdown(job.progress.left) if job.progress.left else "",
            7,
            right=True,
            order=lambda job: job.progress.left or float("inf"),
        ),
        Column("worker", lambda job, _: printable(job.worker_id or ""), 3, grows=True, min_table_width=100),
        Column(
            "time", lambda job, _: span(job.seconds or 0), 7, right=True, order=lambda job: job.started_at or job.at
        ),
    ],
    key=lambda job: job.id,
    sort_by="time",
    empty="No jobs are running.",
)


def _ago(job: JobSnapshot, _: int) -> str:
    return span((job.at - (job.finished_at or job.at)).total_seconds())


FAILED = TableSpec[JobSnapshot](
    name="failed",
    columns=[
        _TYPE,
        _ID,
        Column("error", lambda job, _: printable(job.error or ""), 8, grows=True),
        Column("attempts", lambda job, _: f"{job.attempts}/{job.max_attempts}", 8, right=True),
        Column("ago", _ago, 8, right=True, order=lambda job: job.at - (job.finished_at or job.at)),
    ],
    key=lambda job: job.id,
    sort_by="ago",
    empty="No jobs failed in the last hour.",
)
