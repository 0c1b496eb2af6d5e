"""The verdict: what the ledgers say against what the tables say, after the calm. A pure function."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from chaos.ledger import Record

FINAL = ("completed", "failed", "cancelled")
# After a process that was stopped goes on, it needs a moment to notice what it has missed.
NOTICE_SECONDS = 5.0


class Row(NamedTuple):
    """A job, as the table has it in the end."""

    id: str
    token: str
    job_type: str
    status: str
    lease: int
    attempts: int
    max_attempts: int
    crashes: int
    result_lease: int | None
    """The lease under which the result was made, as its handler knew it."""


class Tables(NamedTuple):
    jobs: Sequence[Row]
    errors: Sequence[tuple[str, int]] = ()
    """Job and lease of each failed attempt that is kept."""
    orders: frozenset[str] = frozenset()
    """Tokens of the rows that were written in one transaction with their jobs."""
    effects: Sequence[tuple[str, int]] = ()
    """Job and lease of what was written in one transaction with the job's end."""


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
class Books:
    """The ledgers, sorted by what they are about."""

    calls: list[tuple[str, ...]] = field(default_factory=list)
    """Tokens that were enqueued together: all of them or none."""
    invoked: set[str] = field(default_factory=set)
    unique: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    returned_ids: set[str] = field(default_factory=set)
    undone: set[str] = field(default_factory=set)
    cancelling: set[str] = field(default_factory=set)
    starts: list[Record] = field(default_factory=list)
    ends: dict[tuple[str, int], str] = field(default_factory=dict)
    accepted: list[Record] = field(default_factory=list)
    stops: list[tuple[int, float, float]] = field(default_factory=list)
    """Process, from when, until when."""
    counts: Counter[str] = field(default_factory=Counter)


def check(records: Iterable[Record], tables: Tables, crash_limit: int) -> Verdict:
    books = _read(records)
    rows = {row.id: row for row in tables.jobs}
    found = [
        *_enqueues(books, tables),
        *_ends(books, rows, crash_limit),
        *_outcomes(books, rows, tables),
        *_overlaps(books),
        *_caps(books, rows, crash_limit),
        *_transactions(tables, rows),
    ]
    counts = books.counts + Counter(row.status for row in tables.jobs)
    counts["jobs"] = len(rows)
    counts["runs"] = len(books.starts)
    return Verdict(found, counts)


def _read(records: Iterable[Record]) -> Books:
    books = Books()
    stopped: dict[int, float] = {}
    for record in records:
        what = record["what"]
        if what == "fault":
            books.counts[record["did"]] += 1
            for process in record.get("pids", ()) if record["did"] in ("stopped", "continued") else ():
                if record["did"] == "stopped":
                    stopped[process] = record["at"]
                elif process in stopped:
                    books.stops.append((process, stopped.pop(process), record["at"]))
            continue
        tokens = record.get("tokens", ())
        if what == "invoked":
            books.calls.append(tuple(tokens))
            books.invoked.update(tokens)
            if record.get("unique"):
                books.unique.update(tokens)
        elif what == "returned":
            books.returned.update(tokens)
            books.returned_ids.update(record["ids"])
        elif what == "undone":
            books.undone.update(tokens)
        elif what == "unknown":
            books.calls.append(tuple(tokens))
        elif what == "cancelling":
            books.cancelling.add(record["id"])
        elif what == "start":
            books.starts.append(record)
        elif what == "end":
            books.ends[record["id"], record["lease"]] = record["how"]
        elif what == "accepted":
            books.accepted.append(record)
        elif what == "refused":
            books.counts["outcomes refused"] += 1
    books.stops += [(process, since, float("inf")) for process, since in stopped.items()]
    unknown = books.invoked - books.returned - books.undone
    books.counts += Counter(
        {"enqueued": len(books.returned), "rolled back": len(books.undone), "unknown": len(unknown)}
    )
    return books


def _enqueues(books: Books, tables: Tables) -> Iterator[Violation]:
    ids = {row.id for row in tables.jobs}
    tokens = Counter(row.token for row in tables.jobs)
    for job_id in sorted(books.returned_ids - ids):
        yield Violation("lost", f"job {job_id}: its enqueue returned, and it is not there")
    for token in sorted(books.returned - books.unique - tokens.keys()):
        yield Violation("lost", f"token {token}: its enqueue returned, and no job has it")
    for token, number in tokens.items():
        if token not in books.invoked:
            yield Violation("phantom", f"token {token}: a job that nobody enqueued")
        if token in books.undone:
            yield Violation("rolled back", f"token {token}: its enqueue was rolled back, and it is there")
        if number > 1:
            yield Violation("phantom", f"token {token}: enqueued once, and there {number} times")
    for start in books.starts:
        if start["token"] in books.undone:
            yield Violation("rolled back", f"job {start['id']}: run, but its enqueue was rolled back")
        elif start["token"] not in books.invoked or start["id"] not in ids:
            yield Violation("phantom", f"job {start['id']}: run, but nobody enqueued it")
    for call in books.calls:
        there = [token for token in call if token in tokens]
        if there and len(there) < len(call) and not books.undone.intersection(call):
            yield Violation("torn", f"of {len(call)} jobs enqueued together {len(there)} are there: {call[0]} …")


def _ends(books: Books, rows: dict[str, Row], crash_limit: int) -> Iterator[Violation]:
    """Each job has ended, and for a reason that the ledgers know."""
    raised = Counter(job_id for (job_id, _), how in books.ends.items() if how == "raised")
    gave_up = {job_id for (job_id, _), how in books.ends.items() if how == "cancelled"}
    started = {(start["id"], start["lease"]) for start in books.starts}
    for row in rows.values():
        claim = (row.id, row.lease)
        if row.status not in FINAL:
            yield Violation("lost", f"job {row.id} ({row.job_type}) never ended: it is {row.status}, lease {row.lease}")
        elif row.status == "completed":
            if row.result_lease != row.lease:
                text = f"job {row.id}: the outcome of lease {row.result_lease} was accepted under lease {row.lease}"
                yield Violation("stale", text)
            if claim not in started:
                yield Violation("lost", f"job {row.id}: completed under lease {row.lease}, but not run under it")
            elif row.job_type != "pay" and books.ends.get(claim) != "returned":
                how = books.ends.get(claim, "without an end")
                yield Violation("lost", f"job {row.id}: completed, but its handler ended otherwise ({how})")
        elif row.status == "failed":
            if raised[row.id] < row.max_attempts and row.crashes < crash_limit:
                tried = f"{raised[row.id]} of {row.max_attempts} attempts, {row.crashes} of {crash_limit} crashes"
                yield Violation("lost", f"job {row.id}: failed before its time: {tried}")
        elif row.id not in books.cancelling | gave_up:
            yield Violation("lost", f"job {row.id}: cancelled, and nobody asked for it")


def _outcomes(books: Books, rows: dict[str, Row], tables: Tables) -> Iterator[Violation]:
    """Each claim has one outcome at most, each job one that is final, and that is the last claim's."""
    by_claim: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    finals: defaultdict[str, list[str]] = defaultdict(list)
    for record in books.accepted:
        job_id, lease, outcome = record["id"], record["lease"], record["outcome"]
        if outcome in FINAL:
            finals[job_id].append(f"{outcome} under lease {lease}")
        if lease is None:  # a version that does not tell
            continue
        by_claim[job_id, lease].append(outcome)
        row = rows.get(job_id)
        if row is None or row.status not in FINAL:
            continue
        if (outcome in FINAL) and (row.lease, row.status) != (lease, outcome):
            text = f"job {job_id}: {outcome} was accepted under lease {lease}, and it is {row.status} under {row.lease}"
            yield Violation("stale", text)
        elif outcome not in FINAL and row.lease == lease and row.status != "cancelled":
            yield Violation("twice", f"job {job_id}: {outcome} under lease {lease}, and then {row.status} under it")
    for (job_id, lease), outcomes in by_claim.items():
        if len(outcomes) > 1:
            yield Violation("twice", f"job {job_id}, lease {lease}: accepted were {', '.join(outcomes)}")
    for job_id, ends in finals.items():
        if len(ends) > 1:
            yield Violation("twice", f"job {job_id} ended more than once: {', '.join(ends)}")
    for (job_id, lease), number in Counter(tables.errors).items():
        row = rows.get(job_id)
        if number > 1:
            yield Violation("twice", f"job {job_id}, lease {lease}: {number} failures are kept")
        if row and row.status == "completed" and row.lease == lease:
            yield Violation("twice", f"job {job_id}, lease {lease}: failed, and then completed")


def _overlaps(books: Books) -> Iterator[Violation]:
    for (job_id, lease), number in Counter((start["id"], start["lease"]) for start in books.starts).items():
        if number > 1:
            yield Violation("overlap", f"job {job_id}: run {number} times under lease {lease}")
    for start in books.starts:
        for other in start["beside"]:
            if not _was_stopped(books, other.get("pid"), start["at"]):
                seat, lease = other["seat"], other.get("lease")
                text = f"{seat}: run under lease {start['lease']} by process {start['pid']}, while lease {lease} of "
                yield Violation("overlap", f"{text}job {other.get('id')} still ran in process {other.get('pid')}")


def _was_stopped(books: Books, process: int | None, at: float) -> bool:
    return any(process == each and since <= at <= until + NOTICE_SECONDS for each, since, until in books.stops)


def _caps(books: Books, rows: dict[str, Row], crash_limit: int) -> Iterator[Violation]:
    failures = Counter(record["id"] for record in books.accepted if record["outcome"] in ("retried", "failed"))
    claims: Counter[str] = Counter()
    for start in books.starts:
        claims[start["id"]] = max(claims[start["id"]], start["lease"])
    for row in rows.values():
        if max(row.attempts, failures[row.id] - row.crashes) > row.max_attempts:
            tried = f"{row.attempts} attempts in the table, {failures[row.id]} failures in the ledger"
            yield Violation("caps", f"job {row.id}: {tried}, at most {row.max_attempts}")
        if row.crashes > crash_limit:
            yield Violation("caps", f"job {row.id}: {row.crashes} crashes, at most {crash_limit}")
        if claims[row.id] > row.lease:
            yield Violation("stale", f"job {row.id}: run under lease {claims[row.id]}, and its last is {row.lease}")


def _transactions(tables: Tables, rows: dict[str, Row]) -> Iterator[Violation]:
    """What was committed together is there together."""
    ordered = {row.token for row in tables.jobs if row.token.startswith("order-")}
    for token in sorted(ordered ^ tables.orders):
        which = "its job" if token in ordered else "its order"
        yield Violation("torn", f"token {token}: of an order and its job only {which} is there")
    effects = Counter(job_id for job_id, _ in tables.effects)
    leases = dict(tables.effects)
    for row in rows.values():
        wanted = int(row.job_type == "pay" and row.status == "completed")
        if effects[row.id] != wanted:
            yield Violation("effects", f"job {row.id} is {row.status}: its effect is there {effects[row.id]} times")
        elif wanted and leases[row.id] != row.lease:
            yield Violation("effects", f"job {row.id}: the effect is of lease {leases[row.id]}, the end of {row.lease}")
