"""Kills the primary under load, promotes its standby, and measures what was lost and how long recovery took.

    python -m chaos.failover [--seed 7] [--rounds 5] [--how kill] [--asynchronous] [--seconds 6] [--json file]

Clients use one URL that names both servers. Checked with a synchronous standby:

    no acknowledged job is lost   every job whose enqueue returned is in the table and completes
    no job finishes twice         one accepted outcome per job, and no two runs of a job at the same time
    recovery within 15 seconds    of the promotion, for every worker, producer, waiting client and command

An asynchronous standby may lack the last transactions before the kill; the losses are counted and are not errors.
--how: kill (SIGKILL), freeze (SIGSTOP, and killed before the promotion), read-only (keeps running, refuses writes).
"""

import argparse
import itertools
import json
import logging
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.cluster import Cluster
from chaos.failover_load import Load
from treadle import migrate
from treadle.words.clock import now

LIMIT_SECONDS = 15.0
RATE = 15.0  # enqueues per second of each producer
FAILURES = ("kill", "freeze", "read-only")
Entry = dict[str, Any]


@dataclass
class Verdict:
    seed: int
    how: str
    synchronous: bool
    away: float
    """Seconds between the failure and the promotion."""
    jobs: int = 0
    unknown: int = 0
    lost: int = 0
    undone: int = 0
    """Jobs whose first accepted outcome was lost."""
    again: int = 0
    """Runs that were not the first of their job."""
    stopped: int = 0
    """Runs that were stopped because the worker could not renew its lease."""
    seconds: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kind = "synchronous" if self.synchronous else "asynchronous"
        times = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in self.seconds.items())
        counts = f"{self.jobs} jobs acknowledged, {self.unknown} unknown, {self.lost} lost"
        lines = [
            f"seed {self.seed}, {kind} standby, {self.how}, promoted {self.away:.1f} s later:",
            f"  {counts}, {self.undone} outcomes lost, {self.again} run again ({self.stopped} stopped without a lease)",
            f"  after the promotion: {times}",
        ]
        return "\n".join(lines + [f"  PROBLEM: {problem}" for problem in self.problems])


class Ledger:
    """The records that clients and handlers wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._entries: dict[str, list[Entry]] = defaultdict(list)

    def of(self, *what: str) -> list[Entry]:
        if self.path.exists():
            with self.path.open() as lines:
                lines.seek(self._read)
                for line in iter(lines.readline, ""):
                    entry = json.loads(line)
                    self._entries[entry["what"]].append(entry)
                self._read = lines.tell()
        return sorted((each for name in what for each in self._entries[name]), key=lambda each: each["at"])


def fail_over(
    seed: int,
    synchronous: bool = True,
    how: str = "kill",
    seconds: float = 6.0,
    away: float | None = None,
    lag: float = 0.0,
    workers: int = 3,
    producers: int = 4,
    commands: bool = True,
) -> Verdict:
    rng = random.Random(seed)
    verdict = Verdict(seed, how, synchronous, rng.uniform(0.5, 8) if away is None else away)
    with tempfile.TemporaryDirectory(prefix="treadle-failover-") as name, Cluster(synchronous) as cluster:
        ledger = Ledger(Path(name, "ledger"))
        os.environ["TREADLE_FAILOVER_LEDGER"] = str(ledger.path)
        migrate(cluster.url)
        load = Load(cluster.url, Path(name), seed, RATE)
        try:
            load.start(workers, producers)
            if not _wait_until(lambda: len(ledger.of("worker")) == workers and len(ledger.of("accepted")) > 50, 120):
                raise RuntimeError("the workers did not start within 120 s")
            time.sleep(rng.uniform(0.3, 1) * seconds)
            if lag:
                cluster.primary.fall_behind()
                time.sleep(lag)
            stopped = now()
            {"kill": cluster.primary.kill, "freeze": cluster.primary.freeze}.get(how, cluster.primary.refuse_writes)()
            time.sleep(verdict.away)
            if how == "freeze":
                cluster.primary.kill()  # whoever promotes the standby must ensure this
            cluster.standby.promote()
            promoted = now()
            if commands:
                code, took, output = load.command("stats")
                verdict.seconds["treadle stats"] = took
                if code:
                    verdict.problems.append(f"treadle stats exited with {code}: {output[-300:]}")
            _wait_until(lambda: len(_recovered(ledger, promoted)) >= workers + producers + 1, 45)
            time.sleep(max(0.0, promoted + seconds - now()))
            load.stop_producing()
            _wait_until(lambda: _all_done(cluster), 60)
            verdict.seconds["all done"] = now() - promoted
            clients = {"worker": workers, "sync": producers // 2, "async": producers - producers // 2, "waiting": 1}
            _check(verdict, ledger, cluster, promoted, clients)
            verdict.seconds["without completions"] = verdict.seconds["first completion"] + promoted - stopped
            if verdict.problems:
                for log in sorted(Path(name).glob("worker-*.log")):
                    print(f"--- {log.name}\n{log.read_text()[-3000:]}", file=sys.stderr)
        finally:
            load.close()
    return verdict


def _check(verdict: Verdict, ledger: Ledger, cluster: Cluster, promoted: float, clients: dict[str, int]) -> None:
    with cluster.standby.connect() as connection:
        rows = connection.execute("select id, data, status, lease, result, last_error from treadle.jobs").fetchall()
    known = {str(row[0]): row for row in rows}
    wrong = verdict.problems.append
    enqueued = {each["id"] for each in ledger.of("enqueued")}
    accepted = ledger.of("accepted")
    verdict.jobs, verdict.unknown = len(enqueued), len(ledger.of("unknown"))
    lost = enqueued - known.keys()
    verdict.lost = len(lost)
    twice = {job_id for job_id, count in Counter(each["id"] for each in accepted).items() if count > 1}
    verdict.undone = len(twice)  # the first outcome was accepted by the old primary and not replicated
    if verdict.synchronous:
        if lost:
            wrong(f"{len(lost)} acknowledged jobs are lost, for example {min(lost)}")
        if twice:
            wrong(f"two outcomes were accepted for {len(twice)} jobs, for example {min(twice)}")
    requested = {each["n"] for each in ledger.of("requested")}
    seen: set[int] = set()
    for job_id, data, status, lease, result, error in rows:
        if data["n"] not in requested or data["n"] in seen:
            wrong(f"{job_id} was never enqueued, or exists twice: {data}")
        seen.add(data["n"])
        if status != "completed" or result != lease:
            wrong(f"{job_id} is {status} under lease number {lease} with result {result}: {error}")
    verdict.stopped = len(ledger.of("stopped"))
    verdict.again = _overlaps(ledger.of("start", "end", "stopped"), wrong)
    recovered = _recovered(ledger, promoted)
    for kind, wanted in clients.items():
        times = [at - promoted for who, at in recovered.items() if who.startswith(kind)]
        verdict.seconds[kind] = max(times, default=0.0)
        if len(times) < wanted:
            wrong(f"{len(times)} of {wanted} {kind} clients recovered")
        elif max(times) > LIMIT_SECONDS:
            wrong(f"a {kind} client took {max(times):.1f} s to recover, more than {LIMIT_SECONDS:g}")
    verdict.seconds["first completion"] = min(
        (e["at"] - promoted for e in accepted if e["at"] > promoted), default=99.0
    )


def _overlaps(entries: Iterable[Entry], wrong: Callable[[str], object]) -> int:
    """Return the number of runs that were not the first of their job, and report runs that overlapped."""
    runs: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for each in entries:
        runs[each["id"]][each["lease"]][each["what"]] = each["at"]
    again = 0
    for job_id, by_lease in runs.items():
        in_order = [run for _, run in sorted(by_lease.items())]
        again += len(in_order) - 1
        for first, second in itertools.pairwise(in_order):
            ended = first.get("end", first.get("stopped"))
            if ended is None or ended > second["start"]:
                wrong(f"two runs of {job_id} overlap: {dict(by_lease)}")
    return again


def _recovered(ledger: Ledger, promoted: float) -> dict[str, float]:
    """Return the time of each client's first success after the promotion."""
    found: dict[str, float] = {}
    for each in ledger.of("accepted", "enqueued", "result"):
        if each["at"] > promoted:
            who = f"worker {each['worker']}" if each["what"] == "accepted" else each["client"]
            if who != "waiting" or each["what"] == "result":
                found.setdefault(who, each["at"])
    return found


def _all_done(cluster: Cluster) -> bool:
    with cluster.standby.connect() as connection:
        rows = connection.execute(
            "select count(*) from treadle.jobs where status in ('pending', 'claimed', 'running')"
        ).fetchone()
    return rows == (0,)


def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Fail over to a standby under load and check what was lost.")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--how", choices=FAILURES, default="kill")
    parser.add_argument(
        "--away", type=float, help="seconds between the failure and the promotion; default: random, 0.5 to 8"
    )
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--lag", type=float, default=0.0, help="replication lag of the asynchronous standby in seconds")
    parser.add_argument(
        "--seconds", type=float, default=6.0, help="duration of the load before the failure, and after the promotion"
    )
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    if options.lag and not options.asynchronous:
        parser.error("--lag requires --asynchronous: a synchronous standby does not lag behind")
    verdicts = []
    for round_number in range(options.rounds):
        verdict = fail_over(
            options.seed + round_number,
            not options.asynchronous,
            options.how,
            options.seconds,
            options.away,
            options.lag,
        )
        print(verdict, flush=True)
        verdicts.append(verdict)
    if options.json:
        options.json.write_text(json.dumps([vars(each) for each in verdicts], indent=1) + "\n")
    wrong = sum(len(each.problems) for each in verdicts)
    print(f"problems: {wrong}" if wrong else "no guarantee was violated")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
