"""Kills and stops workers, restarts the server, cancels jobs and changes limits while jobs run under limits, and checks
from a ledger outside of the database that no limit was exceeded at any moment.

    python -m chaos.limits [--jobs 50000] [--seed 1] [--failover]

With --failover, the server has a synchronous standby, which is promoted when the server is killed for the first time.
There are eight worker processes. chaos/limit_checker.py has the limits, and says exactly what is counted. At the end a
last round of jobs fills each limit: as many as it allows must run at once, otherwise a slot was lost.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg

from chaos.faults import LEASE, Faults, failing_over, report
from chaos.ledger import Record, read
from chaos.limit_checker import RULES, Verdict, check
from chaos.moves import MOVES, read_moves
from chaos.processes import WorkerProgram
from chaos.servers import serving
from chaos.waiting import until

BATCH = 200
STUCK_SECONDS = 240.0
LAST_SECONDS = 3.0  # for which a job of the last round runs
# How many of a hundred jobs are of which type.
SHARES = {"typed": 25, "tenanted": 27, "both": 12, "weighted": 6, "pull": 5, "push": 5, "fair": 10}
RATED = {"rated": 4, "tenant_rated": 4, "both_kinds": 2}
CHANGES = {"typed": (5, 35), "crm": (3, 8), "tenanted per tenant": (1, 6), "weighted": (6, 14)}


class Storm(Faults):
    """Workers under limits, and faults."""

    def __init__(self, url: str, folder: Path, seed: int, programs: int = 4, tenants: int = 200) -> None:
        with psycopg.connect(url) as connection:
            connection.execute(MOVES.format(only="").encode())
        self._tenants = [f"t{n}" for n in range(tenants)]
        super().__init__(url, folder, seed, "chaos.limits_app:app", programs)

    def enqueue(self, jobs: int, over: threading.Event) -> None:
        """In batches of one type, while workers run. A batch whose reply was lost is enqueued again."""
        rng, left = random.Random(self.rng.random()), jobs
        names, shares = zip(*(SHARES | RATED).items(), strict=True)
        while left > 0 and not over.is_set():
            count = min(left, rng.randint(1, BATCH))
            name = rng.choices(names, shares)[0]
            weight = rng.randint(2, 5) if name == "weighted" else 1
            # Some tenants have many jobs.
            payloads = [
                {
                    "tenant": self._tenants[int(len(self._tenants) * rng.random() ** 2)],
                    "seconds": rng.choice([0, 0, 0.01, 0.03]),
                    "weight": weight,
                }
                for _ in range(count)
            ]
            try:
                self._enqueue(name, payloads, weight, rng.choice([30, 100, 100, 150]))
                left -= count
            except psycopg.OperationalError:
                over.wait(0.1)

    def _enqueue(self, name: str, payloads: list[Record], weight: int, priority: int = 100) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(
                "select treadle.enqueue_with_options(%s, %s, %s)",
                [
                    name,
                    [json.dumps(each) for each in payloads],
                    json.dumps({"weight": weight if weight > 1 else None, "priority": priority, "max_attempts": 50}),
                ],
            )

    def interfere(self, over: threading.Event) -> None:
        """Cancel jobs, and change limits."""
        rng = random.Random(self.rng.random())
        while not over.wait(rng.uniform(0.05, 0.4)):
            with suppress(psycopg.OperationalError), psycopg.connect(self._url, autocommit=True) as connection:
                if rng.random() < 0.8:
                    self._cancel(connection, rng)
                else:
                    self._change(connection, rng)

    def _cancel(self, connection: psycopg.Connection[tuple[object, ...]], rng: random.Random) -> None:
        status = rng.choice(["running", "claimed", "claimed", "pending"])
        row = connection.execute("select id from treadle.jobs where status = %s limit 1", [status]).fetchone()
        if row:
            self.ledger.note("cancelling", id=str(row[0]))
            connection.execute("select treadle.cancel_job(%s)", row)
            self.counts["cancelled"] += 1

    def _change(self, connection: psycopg.Connection[tuple[object, ...]], rng: random.Random) -> None:
        name = rng.choice(list(CHANGES))
        key = rng.choice(self._tenants[:10]) if "per" in name else ""
        amount = None if rng.random() < 0.3 else rng.randint(*CHANGES[name])
        invoked = time.monotonic()
        try:
            if amount is None:
                connection.execute("select treadle.reset_limit(%s, %s)", [name, key or None])
            else:
                connection.execute("select treadle.set_limit(%s, %s, p_key => %s)", [name, amount, key or None])
        except psycopg.OperationalError:
            # Whether it was changed is not known: so it is changed until that is known.
            until(lambda: self._reset(name, key), lambda: "the limit is reset", 60)
            self.ledger.note("limit", name=name, key=key, amount=amount, invoked=invoked)
            amount = None
        self.ledger.note("limit", name=name, key=key, amount=amount, invoked=invoked)
        self.counts["limits changed"] += 1

    def _reset(self, name: str, key: str) -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("select treadle.reset_limit(%s, %s)", [name, key or None])
            return True
        return False

    def is_done(self) -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(self._url) as connection:
            return connection.execute(LEFT).fetchone() == (0,)
        return False

    def finish(self) -> None:
        """All workers continue, all jobs finish, and the last round fills each limit."""
        self.let_all_continue()
        until(self.is_done, self._unfinished, STUCK_SECONDS)
        for name in CHANGES:
            for key in self._tenants[:10] if "per" in name else [""]:
                invoked = time.monotonic()
                self._reset(name, key)
                self.ledger.note("limit", name=name, key=key, amount=None, invoked=invoked)
        for program in self._programs:
            until(partial(_has_both, program), lambda: "both processes run")
        self.wait(2.0)
        self._last_round()

    def _last_round(self) -> None:
        fillers = {rule.job_types[0]: rule for rule in RULES if not rule.per_second}
        expected: dict[tuple[str, str], int] = {}
        for name, rule in fillers.items():
            tenants = self._tenants[:10] if rule.per_tenant else ["one"]
            if name == "both":  # two of each of six tenants
                tenants = self._tenants[:6]
            for tenant in tenants:
                payload = {"tenant": tenant, "seconds": LAST_SECONDS, "weight": 1, "last": True}
                self._enqueue(name, [payload] * rule.amount, 1)
                expected[name, tenant] = rule.amount
        until(self.is_done, self._unfinished, 60)
        self.problems += last_round_problems(read(self.ledger.folder), expected)

    def _unfinished(self) -> str:
        with psycopg.connect(self._url) as connection:
            rows = connection.execute(
                "select job_type, partition, status, count(*) from treadle.jobs where finished_at is null "
                "group by 1, 2, 3 order by 4 desc limit 20"
            ).fetchall()
            dormant = connection.execute("select limit_name, count(*) from treadle.lanes group by 1").fetchall()
            return f"unfinished: {rows}; dormant: {dormant}; workers: {self.counts}"

    def verdict(self) -> Verdict:
        with psycopg.connect(self._url) as connection:
            moves = read_moves(connection)
            failed = connection.execute("select count(*) from treadle.jobs where status = 'failed'").fetchone()
        verdict = check(
            read(self.ledger.folder),
            [move._replace(at=self.monotonic(move.at)) for move in moves],
            LEASE,
        )
        if failed != (0,):
            verdict.problems.append(f"{failed} jobs failed")
        verdict.problems += self.log_problems()
        return verdict


def _has_both(program: WorkerProgram) -> bool:
    return len(program.worker_processes()) == 2


LEFT = "select count(*) from treadle.jobs where status in ('pending', 'claimed', 'running')"


def last_round_problems(records: list[Record], expected: dict[tuple[str, str], int]) -> list[str]:
    """Each limit was filled: as many as it allows ran at once."""
    now: Counter[tuple[str, str]] = Counter()
    most: Counter[tuple[str, str]] = Counter()
    runs: dict[tuple[str, int], tuple[str, str]] = {}
    for each in records:
        if each["what"] == "start" and each["last"]:
            runs[each["id"], each["lease"]] = this = each["type"], each["tenant"]
            now[this] += 1
            most[this] = max(most[this], now[this])
        elif each["what"] == "end" and (each["id"], each["lease"]) in runs:
            now[runs[each["id"], each["lease"]]] -= 1
    return [
        f"{name} {tenant}: only {most[name, tenant]} of {count} ran at once in the last round"
        for (name, tenant), count in expected.items()
        if most[name, tenant] != count
    ]


def storm(folder: Path, jobs: int, seed: int, failover: bool = False) -> tuple[Verdict, Counter[str], float]:
    with failing_over() if failover else serving() as server:
        trial = Storm(server.url, folder, seed)
        try:
            seconds = trial.storm(server, partial(trial.enqueue, jobs), trial.interfere, trial.is_done)
            trial.finish()
            trial.read_log(server)
            return trial.verdict(), trial.counts, seconds
        finally:
            trial.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m chaos.limits", description="Inject faults while jobs run under limits, and check the limits."
    )
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--failover", action="store_true", help="to a synchronous standby, at the first crash")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="treadle-limits-"))
    verdict, counts, seconds = storm(folder, options.jobs, options.seed, options.failover)
    faults = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(
        f"seed {options.seed}: {options.jobs} jobs in {seconds:.0f} s ({options.jobs / seconds:.0f} per second), "
        f"{faults}: {verdict}"
    )
    return report(folder, verdict.problems)


if __name__ == "__main__":
    sys.exit(main())
