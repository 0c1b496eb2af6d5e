"""Compares the ledgers with the tables after a run and reports violated guarantees. A pure function."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from chaos.ledger import Record

FINISHED = ("completed", "failed", "cancelled")
# A process that was stopped (SIGSTOP) and continues needs this long to notice that it lost its lease.
NOTICE_SECONDS = 5.0


class Row(NamedTuple):
    """A row of the jobs table after the run."""

    id: str
    token: str
    job_type: str
    status: str
    lease: int
    attempts: int
    max_attempts: int
    crashes: int
    result_lease: int | None
    """The lease number that the handler returned in its result."""
    losses: int = 0

    @property
    def blame(self) -> int:
        """What counts towards the crash limit: crashes, and all losses but the first."""
        return self.crashes + max(0, self.losses - 1)


class Tables(NamedTuple):
    jobs: Sequence[Row]
    errors: Sequence[tuple[str, int]] = ()
    """Job and lease number of each stored failure."""
    orders: frozenset[str] = frozenset()
    """Tokens of the orders, each written in one transaction with its job."""
    effects: Sequence[tuple[str, int]] = ()
    """Job and lease number of each effect, written in one transaction with the completion of its job."""


class Violation(NamedTuple):
    kind: str
    text: str


@dataclass
class Verdict:
    violations: list[Violation]
    counts: Counter[str]

    @property
    def holds(self) -> bool:
        return not self.violations


@dataclass
class History:
    """The records of all ledgers, grouped by kind."""

    calls: list[tuple[str, ...]] = field(default_factory=list)
    """Tokens of each call: all of its jobs must exist, or none."""
    invoked: set[str] = field(default_factory=set)
    unique: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    returned_ids: set[str] = field(default_factory=set)
    rolled_back: set[str] = field(default_factory=set)
    cancelling: set[str] = field(default_factory=set)
    starts: list[Record] = field(default_factory=list)
    ends: dict[tuple[str, int], str] = field(default_factory=dict)
    accepted: list[Record] = field(default_factory=list)
    after: dict[str, list[tuple[str, bool]]] = field(default_factory=dict)
    """For a token, the jobs that its job waits for, and whether they may fail."""
    ended: dict[tuple[str, int], float] = field(default_factory=dict)
    """When each run ended."""
    stops: list[tuple[int, float, float]] = field(default_factory=list)
    """Process id, and the times at which it was stopped and continued."""
    counts: Counter[str] = field(default_factory=Counter)


def check(records: Iterable[Record], tables: Tables, crash_limit: int) -> Verdict:
    history = _read(records)
    rows = {row.id: row for row in tables.jobs}
    found = [
        *_enqueues(history, tables),
        *_ends(history, rows, crash_limit),
        *_outcomes(history, rows, tables),
        *_overlaps(history),
        *_waits(history, rows),
        *_limits(history, rows, crash_limit),
        *_transactions(tables, rows),
    ]
    counts = history.counts + Counter(row.status for row in tables.jobs)
    counts["jobs"] = len(rows)
    counts["runs"] = len(history.starts)
    return Verdict(found, counts)


def _read(records: Iterable[Record]) -> History:
    history = History()
    stopped: dict[int, float] = {}
    for record in records:
        what = record["what"]
        if what == "fault":
            history.counts[record["did"]] += 1
            for process in record.get("pids", ()) if record["did"] in ("stopped", "continued") else ():
                if record["did"] == "stopped":
                    stopped[process] = record["at"]
                elif process in stopped:
                    history.stops.append((process, stopped.pop(process), record["at"]))
            continue
        tokens = record.get("tokens", ())
        if what == "invoked":
            history.calls.append(tuple(tokens))
            history.invoked.update(tokens)
            if record.get("unique"):
                history.unique.update(tokens)
            if record.get("after"):
                after = [(str(job_id), bool(ok)) for job_id, ok in record["after"]]
                history.after |= dict.fromkeys(tokens, after)
        elif what == "returned":
            history.returned.update(tokens)
            history.returned_ids.update(record["ids"])
        elif what == "rolled_back":
            history.rolled_back.update(tokens)
        elif what == "unknown":
            history.calls.append(tuple(tokens))
        elif what == "cancelling":
            history.cancelling.add(record["id"])
        elif what == "start":
            history.starts.append(record)
        elif what == "end":
            history.ends[record["id"], record["lease"]] = record["how"]
            history.ended[record["id"], record["lease"]] = record["at"]
        elif what == "accepted":
            history.accepted.append(record)
        elif what == "refused":
            history.counts["outcomes refused"] += 1
    history.stops += [(process, since, float("inf")) for process, since in stopped.items()]
    unknown = history.invoked - history.returned - history.rolled_back
    history.counts += Counter(
        {"enqueued": len(history.returned), "rolled back": len(history.rolled_back), "unknown": len(unknown)}
    )
    return history


def _enqueues(history: History, tables: Tables) -> Iterator[Violation]:
    ids = {row.id for row in tables.jobs}
    tokens = Counter(row.token for row in tables.jobs)
    for job_id in sorted(history.returned_ids - ids):
        yield Violation("lost", f"job {job_id}: its enqueue returned, but it is not in the table")
    for token in sorted(history.returned - history.unique - tokens.keys()):
        yield Violation("lost", f"token {token}: its enqueue returned, but no job has this token")
    for token, number in tokens.items():
        if token not in history.invoked:
            yield Violation("phantom", f"token {token}: a job that was never enqueued")
        if token in history.rolled_back:
            yield Violation("rolled back", f"token {token}: its enqueue was rolled back, but the job exists")
        if number > 1:
            yield Violation("phantom", f"token {token}: enqueued once, but {number} jobs have it")
    for start in history.starts:
        if start["token"] in history.rolled_back:
            yield Violation("rolled back", f"job {start['id']} ran, but its enqueue was rolled back")
        elif start["token"] not in history.invoked or start["id"] not in ids:
            yield Violation("phantom", f"job {start['id']} ran, but was never enqueued")
    for call in history.calls:
        found = [token for token in call if token in tokens]
        if found and len(found) < len(call) and not history.rolled_back.intersection(call):
            yield Violation("not atomic", f"{len(found)} of {len(call)} jobs of one call exist: {call[0]} …")


def _ends(history: History, rows: dict[str, Row], crash_limit: int) -> Iterator[Violation]:
    """Each job is finished, and the ledgers explain its status."""
    raised = Counter(job_id for (job_id, _), how in history.ends.items() if how == "raised")
    gave_up = {job_id for (job_id, _), how in history.ends.items() if how == "cancelled"}
    started = {(start["id"], start["lease"]) for start in history.starts}
    for row in rows.values():
        claim = (row.id, row.lease)
        if row.status not in FINISHED:
            yield Violation(
                "lost", f"job {row.id} ({row.job_type}) never finished: it is {row.status}, lease number {row.lease}"
            )
        elif row.status == "completed":
            if row.result_lease != row.lease:
                text = f"job {row.id}: result of lease number {row.result_lease} accepted under {row.lease}"
                yield Violation("stale", text)
            if claim not in started:
                yield Violation(
                    "lost", f"job {row.id}: completed under lease number {row.lease}, but did not run under it"
                )
            elif row.job_type != "pay" and history.ends.get(claim) != "returned":
                how = history.ends.get(claim, "no end recorded")
                yield Violation("lost", f"job {row.id}: completed, but its handler did not return ({how})")
        elif row.status == "failed":
            if raised[row.id] < row.max_attempts and row.blame < crash_limit:
                tried = f"{raised[row.id]} of {row.max_attempts} attempts, {row.blame} of {crash_limit} crashes"
                yield Violation("lost", f"job {row.id}: failed too early: {tried}")
        elif row.id not in history.cancelling | gave_up and not _is_stopped(history, row, rows):
            yield Violation("lost", f"job {row.id}: cancelled, but nothing cancelled it")


def _is_stopped(history: History, row: Row, rows: dict[str, Row]) -> bool:
    """Whether a job that it waits for did not complete."""
    return any(not ok and rows[each].status != "completed" for each, ok in history.after.get(row.token, ()))


def _waits(history: History, rows: dict[str, Row]) -> Iterator[Violation]:
    """No job starts before those that it waits for have ended."""
    for start in history.starts:
        for each, ok in history.after.get(start["token"], ()):
            parent = rows[each]
            if not ok and parent.status != "completed":
                yield Violation("too early", f"job {start['id']} ran, but job {each} did not complete")
            # The handler of pay commits its completion itself, before it ends.
            ended = 0.0 if parent.job_type == "pay" else history.ended.get((each, parent.lease), 0.0)
            if ended > start["at"]:
                yield Violation("too early", f"job {start['id']} started before job {each} had ended")


def _outcomes(history: History, rows: dict[str, Row], tables: Tables) -> Iterator[Violation]:
    """Each claim has at most one outcome; each job has one final outcome, and it belongs to the last claim."""
    by_claim: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    finals: defaultdict[str, list[str]] = defaultdict(list)
    for record in history.accepted:
        job_id, lease, outcome = record["id"], record["lease"], record["outcome"]
        if outcome in FINISHED:
            finals[job_id].append(f"{outcome} under lease number {lease}")
        by_claim[job_id, lease].append(outcome)
        row = rows.get(job_id)
        if row is None or row.status not in FINISHED:
            continue
        if (outcome in FINISHED) and (row.lease, row.status) != (lease, outcome):
            text = f"{outcome} accepted under lease number {lease}, but the table has {row.status} under {row.lease}"
            yield Violation("stale", f"job {job_id}: {text}")
        elif outcome not in FINISHED and row.lease == lease and row.status != "cancelled":
            text = f"{outcome} and then {row.status}, both under lease number {lease}"
            yield Violation("duplicate", f"job {job_id}: {text}")
    for (job_id, lease), outcomes in by_claim.items():
        if len(outcomes) > 1:
            yield Violation(
                "duplicate", f"job {job_id}, lease number {lease}: several accepted outcomes: {', '.join(outcomes)}"
            )
    for job_id, ends in finals.items():
        if len(ends) > 1:
            yield Violation("duplicate", f"job {job_id} finished more than once: {', '.join(ends)}")
    for (job_id, lease), number in Counter(tables.errors).items():
        row = rows.get(job_id)
        if number > 1:
            yield Violation("duplicate", f"job {job_id}, lease number {lease}: {number} failures are stored")
        if row and row.status == "completed" and row.lease == lease:
            yield Violation("duplicate", f"job {job_id}, lease number {lease}: failed and then completed")


def _overlaps(history: History) -> Iterator[Violation]:
    for (job_id, lease), number in Counter((start["id"], start["lease"]) for start in history.starts).items():
        if number > 1:
            yield Violation("overlap", f"job {job_id} ran {number} times under lease number {lease}")
    for start in history.starts:
        for other in start["others"]:
            if not _was_stopped(history, other.get("pid"), start["at"]):
                lock, lease = other["lock"], other.get("lease")
                text = f"{lock}: a run under lease number {start['lease']} started in process {start['pid']} while job "
                still = f"{other.get('id')} under {lease} was still running in process {other.get('pid')}"
                yield Violation("overlap", text + still)


def _was_stopped(history: History, process: int | None, at: float) -> bool:
    return any(process == each and since <= at <= until + NOTICE_SECONDS for each, since, until in history.stops)


def _limits(history: History, rows: dict[str, Row], crash_limit: int) -> Iterator[Violation]:
    failures = Counter(record["id"] for record in history.accepted if record["outcome"] in ("retried", "failed"))
    claims: Counter[str] = Counter()
    starts = Counter(start["id"] for start in history.starts)
    for start in history.starts:
        claims[start["id"]] = max(claims[start["id"]], start["lease"])
    for row in rows.values():
        if max(row.attempts, failures[row.id] - row.crashes) > row.max_attempts:
            tried = f"{row.attempts} attempts in the table, {failures[row.id]} failures in the ledger"
            yield Violation("limits", f"job {row.id}: {tried}, but max_attempts is {row.max_attempts}")
        if row.blame > crash_limit:
            yield Violation("limits", f"job {row.id}: {row.blame} crashes, but the limit is {crash_limit}")
        if row.losses > starts[row.id]:
            text = f"job {row.id}: lost with its worker {row.losses} times, but it started {starts[row.id]} times"
            yield Violation("blamed", text)
        if claims[row.id] > row.lease:
            yield Violation(
                "stale", f"job {row.id} ran under lease number {claims[row.id]}, but its last is {row.lease}"
            )


def _transactions(tables: Tables, rows: dict[str, Row]) -> Iterator[Violation]:
    """Rows that were committed in one transaction exist together."""
    ordered = {row.token for row in tables.jobs if row.token.startswith("order-")}
    for token in sorted(ordered ^ tables.orders):
        which = "its job" if token in ordered else "its order"
        yield Violation("not atomic", f"token {token}: of an order and its job, only {which} exists")
    effects = Counter(job_id for job_id, _ in tables.effects)
    leases = dict(tables.effects)
    for row in rows.values():
        wanted = int(row.job_type == "pay" and row.status == "completed")
        if effects[row.id] != wanted:
            yield Violation("effects", f"job {row.id} is {row.status}, but has {effects[row.id]} effects")
        elif wanted and leases[row.id] != row.lease:
            yield Violation("effects", f"job {row.id}: effect of lease number {leases[row.id]}, outcome of {row.lease}")
