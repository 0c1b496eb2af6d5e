"""Whether a run kept Treadle's guarantees: chaos/judge.py says so of the ledgers with the rows of the jobs, and this
adds what only Treadle promises. A pure function.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chaos.judge import History, Record, Violation, judge, read_history


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


@dataclass
class Verdict:
    violations: list[Violation]
    counts: Counter[str]

    @property
    def holds(self) -> bool:
        return not self.violations


def row_fields(tables: Tables, crash_limit: int) -> list[Record]:
    """The rows as the judge reads them."""
    return [{**row._asdict(), "excused": row.blame >= crash_limit} for row in tables.jobs]


def check(records: Iterable[Record], tables: Tables, crash_limit: int) -> Verdict:
    records = [*records, *({"what": "row", "at": 0.0, **fields} for fields in row_fields(tables, crash_limit))]
    history = read_history(records)
    rows = {row.id: row for row in tables.jobs}
    found = [
        *judge(records),
        *_attempts(history, rows, crash_limit),
        *_failures(tables, rows),
        *_transactions(tables, rows),
        *(Violation("session", record["text"]) for record in records if record["what"] == "leaked"),
    ]
    unknown = history.invoked.keys() - history.returned.keys() - history.rolled_back
    counts = history.faults + Counter(row.status for row in tables.jobs)
    counts += Counter(
        {
            "jobs": len(rows),
            "runs": len(history.starts),
            "enqueued": len(history.returned),
            "rolled back": len(history.rolled_back),
            "unknown": len(unknown),
            "outcomes refused": sum(record["what"] == "refused" for record in records),
        }
    )
    return Verdict(found, counts)


def _attempts(history: History, rows: dict[str, Row], crash_limit: int) -> Iterator[Violation]:
    failures = Counter(record["id"] for record in history.accepted if record["outcome"] in ("retried", "failed"))
    starts = Counter(start["id"] for start in history.starts)
    for row in rows.values():
        if max(row.attempts, failures[row.id] - row.crashes) > row.max_attempts and row.id not in history.moving:
            tried = f"{row.attempts} attempts in the table, {failures[row.id]} failures in the ledger"
            yield Violation("limits", f"job {row.id}: {tried}, but max_attempts is {row.max_attempts}")
        if row.blame > crash_limit:
            yield Violation("limits", f"job {row.id}: {row.blame} crashes, but the limit is {crash_limit}")
        if row.losses > starts[row.id]:
            text = f"job {row.id}: lost with its worker {row.losses} times, but it started {starts[row.id]} times"
            yield Violation("blamed", text)
        is_blamed = row.crashes or row.losses or row.id in history.moving
        ended = row.status in ("completed", "failed") and not is_blamed
        if ended and 0 < starts[row.id] < row.attempts <= row.max_attempts:
            text = f"job {row.id}: {row.status} after {row.attempts} attempts, of which {starts[row.id]} started"
            yield Violation("blamed", text)
        if row.status == "completed" and row.result_lease != row.lease:
            text = f"job {row.id}: result of lease number {row.result_lease} accepted under {row.lease}"
            yield Violation("stale", text)


def _failures(tables: Tables, rows: dict[str, Row]) -> Iterator[Violation]:
    """Each attempt has failed once at most, and none that completed."""
    for (job_id, lease), number in Counter(tables.errors).items():
        row = rows.get(job_id)
        if number > 1:
            yield Violation("duplicate", f"job {job_id}, lease number {lease}: {number} failures are stored")
        if row and row.status == "completed" and row.lease == lease:
            yield Violation("duplicate", f"job {job_id}, lease number {lease}: failed and then completed")


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
