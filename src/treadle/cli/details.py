"""Draws the details of a job, for treadle show."""

import json
import re
from datetime import datetime

from rich.console import Console
from rich.text import Text

from treadle.cli.graph import show_graph
from treadle.cli.output import COLOURS, counted, heading, status_text, write
from treadle.operations.details import JobDetails
from treadle.watching.states import describe_state
from treadle.words.formatting import facts, pace, printable, printable_lines, span
from treadle.words.graph import WORKFLOW, Graph
from treadle.words.payload import Json
from treadle.words.record import RecordedEvent
from treadle.words.snapshot import Progress
from treadle.words.status import Status

# Colours of transitions.
_TRANSITIONS = {"retried": "red"} | {status.value: colour for status, colour in COLOURS.items()}
# Of the name of a class: shop.errors. or shop.tasks.import_rows.<locals>.
_QUALIFIER = re.compile(r"(?:(?:\w+|<locals>)\.)+")
_LEVELS = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}


def show_details(console: Console, details: JobDetails, *, graph: Graph | None = None, full: bool = False) -> None:
    """In sections. Empty sections are omitted. `graph` is that of a workflow."""
    job = details.job
    write(console, Text.assemble((printable(job.job_type), "bold"), "  ").append_text(status_text(job.status)))
    _facts(console, details)
    if graph is not None:
        show_graph(console, graph, full=full)
    heading(console, "timeline")
    _left_out(console, details.earlier_events, "event")
    for event in details.events:
        _cut(console, _event(event, job.created_at), full)
    if details.errors:
        heading(console, "failed attempts")
        for error in details.errors:
            ran = (
                ""
                if error.started_at is None
                else f" after {span((error.failed_at - error.started_at).total_seconds())}"
            )
            by = f" on {printable(error.worker_id)}" if error.worker_id else ""
            write(console, f"  attempt {error.attempt}, {_when(error.failed_at, details.at)}{ran}{by}")
            before, message = split_error(error.traceback, error.error)
            _block(console, before, "dim")
            _block(console, message, "red")
    if details.logs:
        heading(console, "log")
        _left_out(console, details.earlier_logs, "line")
        for line in details.logs:
            prefix = Text.assemble(
                f"  {_after(line.at, job.created_at)}  ",
                (f"{line.level:<8}", _LEVELS.get(line.level, "")),
                (f"{printable(line.logger)}: ", "dim"),
            )
            first, *rest = printable_lines(line.message) or [""]
            _cut(console, prefix.append(first), full)
            for more in rest:
                _cut(console, Text(f"{' ' * 21}{more}"), full)
    if details.steps:
        heading(console, "steps")
        for step in details.steps:
            _cut(
                console,
                Text(f"  {printable(step.name)}  {printable(json.dumps(step.result, ensure_ascii=False))}"),
                full,
            )
    if not details.payloads:
        heading(console, "payload and result")
        console.print(Text("  This database role may not read them: treadle_operator may."))
    for name, value in (
        ("headers", job.headers),
        ("checkpoint", job.checkpoint),
        ("payload", job.data),
        ("result", job.result),
    ):
        if value is not None:
            heading(console, name)
            _json(console, value)
    if details.audit:
        heading(console, "changes by operators")
        for audited in details.audit:
            because = f": {printable(audited.reason)}" if audited.reason else ""
            done = f"{printable(audited.action)} by {printable(audited.actor)}{because}"
            _cut(console, Text(f"  {_after(audited.at, job.created_at)}  {done}  {facts(audited.details)}"), full)


def split_error(traceback: str | None, error: str) -> tuple[str, str]:
    """The traceback without the error that it ends with, and the error, with the module of the exception if the
    traceback names it: the error begins with the class alone."""
    text = (traceback or "").rstrip()
    if not error or not text.endswith(error):
        return text, error
    before = text.removesuffix(error)
    start = before.rfind("\n") + 1
    if _QUALIFIER.fullmatch(before, start):
        return before[:start], before[start:] + error
    return before, error


def _facts(console: Console, details: JobDetails) -> None:
    job, now = details.job, details.at
    lines: list[tuple[str, str]] = [
        ("id", str(job.id)),
        ("queue", f"{printable(job.queue)}, priority {job.priority}"),
        (
            "attempts",
            f"{job.attempts} of {job.max_attempts}"
            + (f", {counted(job.crashes, 'crash', 'crashes')}" if job.crashes else ""),
        ),
        ("enqueued", _when(job.created_at, now)),
    ]
    if job.key is not None:
        lines.insert(
            2, ("key", printable(job.key) + (", blocked by an earlier job with this key" if job.holds & 1 else ""))
        )
    if job.status == Status.PENDING and job.holds & 2:
        lines.insert(2, ("waits", f"for other jobs: treadle why {job.id}"))
    if job.unique_key is not None:
        lines.insert(2, ("unique", printable(job.unique_key)))
    if job.status == Status.PENDING and job.run_at != job.created_at:
        lines.append(("due", _when(job.run_at, now)))
    if job.status == Status.PENDING and job.expires_at is not None:
        lines.append(("expires", _when(job.expires_at, now)))
    if job.started_at is not None:
        lines.append(("started", _when(job.started_at, now)))
    if job.finished_at is not None:
        took = f", ran for {span(details.snapshot.seconds)}" if details.snapshot.seconds is not None else ""
        lines.append(("finished", _when(job.finished_at, now) + took))
    if job.worker_id is not None:
        lines.append(("worker", printable(job.worker_id)))
    progress = Progress(job.progress, job.current_stage, **(job.pace or {}))
    if job.progress or job.current_stage:
        stage = [printable(progress.stage)] if progress.stage else []
        lines.append(("progress", ", ".join([f"{progress.percent}%", *stage, *pace(progress)])))
    if job.status not in (Status.RUNNING, Status.COMPLETED):
        state = describe_state(details.snapshot)
        lines.append(("state", printable(job.last_error or "") if job.job_type == WORKFLOW else state))
    if job.job_type == WORKFLOW:  # no worker runs it
        hidden = {"attempts", "due"} if job.last_error else {"attempts", "due", "state"}
        name = job.data.get("name", "") if isinstance(job.data, dict) else ""
        lines = [("name", printable(str(name))), *(line for line in lines if line[0] not in hidden)]
    for name, value in lines:
        write(console, Text.assemble((f"  {name:<9} ", "dim"), value))


def _event(event: RecordedEvent, since: datetime) -> Text:
    data = dict(event.data)
    published = event.number is not None
    line = Text.assemble(
        f"  {_after(event.at, since)}  ",
        (printable(event.name), "" if published else _TRANSITIONS.get(event.name, "cyan")),
    )
    if not published and (error := data.pop("error", None)) is not None:
        line.append(f": {printable(str(error))}")
    if not published and event.attempt and event.name != "enqueued":
        line.append(f"  attempt {event.attempt}", style="dim")
    return line.append(f"  {facts(data)}", style="dim") if data else line


def _after(moment: datetime, since: datetime) -> str:
    """How long after the job was enqueued."""
    seconds = (moment - since).total_seconds()
    return f"{'+' if seconds >= 0 else '-'}{span(abs(seconds))}".rjust(9)


def _when(moment: datetime, now: datetime) -> str:
    """2030-01-31 08:00:00 (3m 20s ago)."""
    passed = (now - moment).total_seconds()
    relative = f"{span(passed)} ago" if passed >= 0 else f"in {span(-passed)}"
    try:
        local = f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
    except OverflowError:  # the largest datetime cannot be converted to another time zone
        local = str(moment)
    return f"{local} ({relative})"


def _block(console: Console, text: str, style: str) -> None:
    for line in printable_lines(text.rstrip()) if text else ():
        write(console, Text(f"    {line}", style=style))


def _json(console: Console, value: Json) -> None:
    for line in json.dumps(value, ensure_ascii=False, indent=2).split("\n"):
        # JSON strings contain no line breaks. Other control characters are escaped, or replaced by a space here.
        for each in printable_lines(line):
            write(console, f"  {each}")


def _left_out(console: Console, number: int, noun: str) -> None:
    if number:
        write(console, Text(f"  … {counted(number, f'earlier {noun}')}; --full shows all", style="dim"))


def _cut(console: Console, line: Text, full: bool) -> None:
    if console.is_terminal and not full:
        line.truncate(console.width, overflow="ellipsis")
    write(console, line)
