"""What is wrong with the queue now, in one sentence each: the line at the top of the overview.

A cheap part of the examination by `treadle doctor`, with the same facts and rules, that may run every few seconds for
all open pages together. It answers within 2 s, also if a table is locked or the server does not answer.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlencode

from treadle.db.database import Database, DatabaseError
from treadle.db.queries import refusals
from treadle.db.queries.error_groups import count_muted
from treadle.db.queries.operations import find_pauses
from treadle.db.query import Query
from treadle.db.script import adrive, drive
from treadle.doctor import queries
from treadle.doctor.facts import DueLane, FailureRate, TableBlocker, Worker
from treadle.doctor.finding import Finding, Severity, severity_of
from treadle.doctor.limits import Limits
from treadle.doctor.rules.blocked import end_statement, roots_first
from treadle.doctor.rules.failures import LEAST_PAST, failure_severity, percent, without_muted
from treadle.doctor.rules.lanes import claims_by_hand, pauses_lane, serves, unserved_lanes
from treadle.doctor.rules.work import last_worker
from treadle.text.masking import masked
from treadle.words.changes import Pause
from treadle.words.commands import as_called
from treadle.words.errors import DatabaseUnreachable, TooSlow, TreadleError
from treadle.words.formatting import printable, span
from treadle.words.refusal import Refusal

# A read takes no longer, whatever happens.
SECONDS = 2.0
# One of its statements takes milliseconds. One that takes this long waits for a lock.
STATEMENT_SECONDS = 0.4
# Failures are counted by the minute, over a day: that is read less often.
RATES_SECONDS = 30.0
# How long jobs may be due without any worker, or without one for their type, in seconds.
NO_WORKER, UNSERVED = 5.0, 30.0
# How long a job may be due before that is worth a line, and before it is a warning.
LATE = (300.0, 3600.0)


class Verdict(NamedTuple):
    """One thing that is wrong now; or that nothing is."""

    severity: Severity
    sentence: str
    """One line, with what is affected and for how long. Secrets in it are masked."""
    finding: str
    """The name of the finding of `treadle doctor` that says more, or `database`; empty if all is well."""
    link: str = ""
    """The page of the dashboard that shows or mends it, as a path below the mount path: `/resume?queue=mail`."""
    action: str = ""
    """The text of that link: "Resume"."""
    remedy: str = ""
    """A command, or a statement, for those who cannot mend it on a page."""


ALL_WELL = Verdict(Severity.OK, "All is well.", "", "/health", "Details")
TOO_SLOW = Verdict(
    Severity.CRITICAL, "The database does not answer in time.", "database", "/health", "Details", "treadle doctor"
)
UNREACHABLE = Verdict(Severity.CRITICAL, "The database cannot be reached.", "database", "", "", "treadle doctor")


class Facts(NamedTuple):
    now: float
    """Seconds since 1970, by the server."""
    blockers: Sequence[TableBlocker] = ()
    workers: Sequence[Worker] = ()
    lanes: Sequence[DueLane] = ()
    pauses: Sequence[Pause] = ()
    rates: Sequence[FailureRate] = ()
    limits: Limits = Limits()
    refusal: Refusal | None = None
    """Why the server refuses what workers write."""


Reading: TypeAlias = Generator[Sequence[Query[Any]], Any, Facts]


class VerdictReader:
    """Reads what the verdict needs. One per program: it keeps for some seconds what changes slowly."""

    def __init__(self, database: Database, limits: Limits | None = None) -> None:
        self._database = database
        self._limits = limits or Limits()
        self._rates: Sequence[FailureRate] = ()
        self._rated_at = -RATES_SECONDS

    def read(self) -> list[Verdict]:
        """What is wrong, the most severe first; only ALL_WELL if nothing is. Never empty."""
        try:
            return judge(drive(self._reading(), lambda each: self._database.read_together(each, STATEMENT_SECONDS)))
        except (TreadleError, DatabaseError, OSError) as error:
            return [_failure(error)]

    async def aread(self) -> list[Verdict]:
        async def run(each: Sequence[Query[Any]]) -> Any:
            return await self._database.aread_together(each, STATEMENT_SECONDS)

        task = asyncio.create_task(adrive(self._reading(), run))
        # Not with asyncio.timeout: a query that is cancelled waits until the server confirms that.
        done, _ = await asyncio.wait({task}, timeout=SECONDS)
        if not done:
            task.cancel()
            task.add_done_callback(_ignore)
            return [TOO_SLOW]
        try:
            return judge(task.result())
        except (TreadleError, DatabaseError, OSError) as error:
            return [_failure(error)]

    def _reading(self) -> Reading:
        # First the locks, in which it does not wait for any.
        now, blockers, refusal = yield [queries.get_clock(), queries.find_table_blockers(), refusals.find()]
        limits = self._limits
        blockers = [each for each in blockers if max(each.seconds or 0, each.waited or 0) >= limits.blocked]
        if any(each.stops_reading for each in blockers):
            return Facts(now, blockers, limits=limits, refusal=refusal)
        # In a transaction of the caller's, the settings would outlive the queries.
        settings = [queries.use_indexes()] if self._database.owned else []
        *_, workers, lanes, pauses = yield [*settings, queries.find_workers(), queries.find_due_lanes(), find_pauses()]
        if time.monotonic() - self._rated_at >= RATES_SECONDS:
            rates, muted = yield [
                queries.find_failure_rates(limits),
                count_muted(limits.recent_failures),
            ]
            self._rates = without_muted(rates, muted)
            self._rated_at = time.monotonic()
        return Facts(now, blockers, workers, lanes, pauses, self._rates, limits, refusal)


def judge(facts: Facts) -> list[Verdict]:
    """The most severe first; among equals in the order of RULES."""
    found = [masked(each) for rule in RULES for each in rule(facts)]
    return sorted(found, key=lambda each: -each.severity.rank) or [ALL_WELL]


def with_findings(verdicts: Sequence[Verdict], findings: Iterable[Finding]) -> list[Verdict]:
    """Also what only the whole examination has found. Nothing is well then."""
    told = {each.finding for each in verdicts}
    found = [
        _verdict(each.level, f"{each.title.rstrip('.')}.", each.name, "/health", "Details", "treadle doctor")
        for each in findings
        if each.level.rank >= Severity.WARNING.rank and each.name not in told
    ]
    wrong = [each for each in verdicts if each != ALL_WELL]
    return sorted([*wrong, *found], key=lambda each: -each.severity.rank) or [ALL_WELL]


def _refused(facts: Facts) -> list[Verdict]:
    if facts.refusal is None:
        return []
    remedy = facts.refusal.remedy.partition("\n")[0]
    return [_verdict(Severity.CRITICAL, facts.refusal.sentence, "writable", "/health", "What to do", remedy)]


def _blocked(facts: Facts) -> list[Verdict]:
    for each in roots_first(facts.blockers):
        if each.whole_table or (each.waited or 0) >= facts.limits.blocked_rows:
            who = f"Prepared transaction {each.prepared}" if each.prepared else f"Session {each.pid}"
            about = ", ".join(filter(None, (each.user, each.application)))
            what = ("the table " if each.whole_table else "rows of ") + ", ".join(each.tables)
            sentence = f"{who}{f' ({about})' if about else ''} has locked {what} for {span(each.seconds or 0)}."
            severity = Severity.CRITICAL if each.whole_table else Severity.WARNING
            return [_verdict(severity, sentence, "blocked_tables", "/health", "Show the session", end_statement(each))]
    return []


def _unserved(facts: Facts) -> list[Verdict]:
    live = [each for each in facts.workers if each.live]
    start = "treadle worker module:app"
    after = UNSERVED if live else NO_WORKER
    waiting = unserved_lanes(live, [each for each in facts.lanes if each.due >= after], facts.pauses)
    if not waiting:
        if last := last_worker(facts.workers):
            sentence = f"No worker is running: the last one, {last.worker_id}, was last seen {span(last.seen)} ago."
            return [_verdict(Severity.CRITICAL, sentence, "no_workers", "/workers", "Workers", start)]
        return []
    oldest = max(waiting, key=lambda each: each.due)
    if not live:
        sentence = f"No worker is running, and jobs have been due for {span(oldest.due)}."
        return [_verdict(Severity.CRITICAL, sentence, "unserved_lanes", "/workers", "Workers", start)]
    more = len({each[:2] for each in waiting}) - 1
    others = f" and {more} more" if more else ""
    return [
        _verdict(
            Severity.NOTE if claims_by_hand(live) else Severity.WARNING,
            f"No worker serves {_place(oldest)}{others}: jobs have been due for {span(oldest.due)}.",
            "unserved_lanes",
            _jobs(oldest),
            "Show the jobs",
            start,
        )
    ]


def _stuck(facts: Facts) -> list[Verdict]:
    stuck = [(each.stuck, each) for each in facts.workers if each.live and each.stuck]
    if not stuck:
        return []
    state, worker = min(stuck, key=lambda each: each[0].since)
    more = len(stuck) - 1
    who = f"Worker {worker.worker_id} and {more} more are" if more else f"Worker {worker.worker_id} is"
    seconds = max(0.0, facts.now - state.since.timestamp())
    by = f", blocked by a job of type {state.job_type}" if state.job_type and state.kind == "blocked" else ""
    what = f"its event loop has not run for {span(seconds)}"
    if state.kind == "stopped":
        what = "its process was stopped"
    elif state.kind == "unbegun":
        what = f"it has not begun a job that it claimed {span(seconds)} ago, although it has room"
    sentence = f"{who} stuck: {what}{by}."
    severity = severity_of(seconds, *facts.limits.stuck)
    return [_verdict(severity, sentence, "stuck_workers", "/workers", "Workers", "treadle doctor")]


def _stopped_children(facts: Facts) -> list[Verdict]:
    found = [(child, each) for each in facts.workers if each.live for child in each.stopped_children]
    if not found:
        return []
    child, worker = min(found, key=lambda each: each[0].since)
    more = f" and {len(found) - 1} more were" if len(found) > 1 else " was"
    sentence = f"Child process {child.process} of worker {worker.worker_id}{more} stopped."
    seconds = max(0.0, facts.now - child.since.timestamp())
    if child.starting:
        sentence = f"A child process of worker {worker.worker_id} has been starting for {span(seconds)}."
    severity = severity_of(seconds, *facts.limits.stuck)
    return [_verdict(severity, sentence, "stopped_children", "/workers", "Workers", "treadle doctor")]


def _failing(facts: Facts) -> list[Verdict]:
    found = []
    for each in sorted(facts.rates, key=lambda each: -each.share):
        severity = failure_severity(each)
        if severity is not Severity.OK:
            now = f"{each.share:.0%} of {each.attempts:,} attempts"
            sentence = (
                f"{each.job_type} fails more often than before: {now}, before that {percent(each.past_share)}."
                if severity is Severity.WARNING and each.past_attempts >= LEAST_PAST
                else f"{each.job_type} fails in {now}."
            )
            link = f"/jobs?{urlencode({'status': 'failed', 'type': each.job_type})}"
            found.append(_verdict(severity, sentence, "failure_rates", link, "Show the jobs"))
    return found


def _paused(facts: Facts) -> list[Verdict]:
    found = []
    for each in facts.pauses:
        stopped = [lane for lane in facts.lanes if pauses_lane(each, lane)]
        due = max((lane.due for lane in stopped), default=0.0)
        what = each.job_type or "every type"
        where = f" in queue {each.queue}" if each.queue else ""
        ago = span(max(0.0, facts.now - each.paused_at.timestamp()))
        by = f" by {each.paused_by}" if each.paused_by else ""
        why = f" ({each.reason})" if each.reason else ""
        waits = f"; jobs have been due for {span(due)}" if stopped else ""
        given = {name: value for name, value in (("job_type", each.job_type), ("queue", each.queue)) if value}
        severity = Severity.WARNING if due >= facts.limits.paused[0] else Severity.NOTE
        sentence = f"{'Everything' if not given else what + where} has been paused for {ago}{by}{why}{waits}."
        link = f"/resume?{urlencode(given)}" if given else "/resume"
        found.append(_verdict(severity, sentence, "paused_lanes", link, "Resume"))
    return found


def _late(facts: Facts) -> list[Verdict]:
    live = [each for each in facts.workers if each.live]
    late = [
        each
        for each in facts.lanes
        if each.due >= LATE[0]
        and any(serves(worker, each) for worker in live)
        and not any(pauses_lane(pause, each) for pause in facts.pauses)
    ]
    if not late:
        return []
    oldest = max(late, key=lambda each: each.due)
    return [
        _verdict(
            Severity.WARNING if oldest.due >= LATE[1] else Severity.NOTE,
            f"Jobs wait for long: the oldest of {_place(oldest)} has been due for {span(oldest.due)}.",
            "unclaimed_jobs",
            _jobs(oldest),
            "Show the jobs",
        )
    ]


# Each returns what it finds.
RULES: tuple[Callable[[Facts], list[Verdict]], ...] = (
    _refused,
    _blocked,
    _unserved,
    _stuck,
    _stopped_children,
    _failing,
    _paused,
    _late,
)


def _verdict(
    severity: Severity, sentence: str, finding: str, link: str = "", action: str = "", remedy: str = ""
) -> Verdict:
    # Names are stored by anyone who may enqueue.
    return Verdict(severity, printable(sentence), finding, link, action, as_called(remedy))


def _place(lane: DueLane) -> str:
    return lane.job_type if lane.queue == "default" else f"{lane.job_type} in queue {lane.queue}"


def _jobs(lane: DueLane) -> str:
    return f"/jobs?{urlencode({'status': 'pending', 'type': lane.job_type, 'queue': lane.queue})}"


def _failure(error: Exception) -> Verdict:
    if isinstance(error, TooSlow):
        return TOO_SLOW
    if isinstance(error, DatabaseUnreachable) or not isinstance(error, TreadleError):
        return UNREACHABLE
    return _verdict(Severity.CRITICAL, f"The queue cannot be read: {error}", "database", "", "", "treadle doctor")


def _ignore(task: asyncio.Task[Facts]) -> None:
    with suppress(asyncio.CancelledError):
        task.exception()
