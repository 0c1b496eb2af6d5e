"""Kills the primary under load, promotes its standby, and looks whether anything was lost and how long it took.

    python -m chaos.failover [--seed 7] [--rounds 5] [--how kill] [--asynchronous] [--seconds 6] [--json file]

Clients have one URL with both servers in it. What is asked, with a synchronous standby:

    nothing acknowledged is lost    every enqueue that returned is there, and is done in the end
    nothing is finished twice       one accepted outcome a job, and no two runs of a job at once
    work goes on within 15 seconds  of the promotion, for every worker, producer, waiting program and command

With an asynchronous one the last moments before the kill may be missing; how much is counted, and is no fault.
How: kill (SIGKILL), freeze (there, but silent, and killed before the promotion), read-only (goes on, takes no writes).
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

WITHIN = 15.0
RATE = 15.0  # enqueues a second, of each of four producers
HOWS = ("kill", "freeze", "read-only")
Entry = dict[str, Any]


@dataclass
class Verdict:
    seed: int
    how: str
    synchronous: bool
    away: float
    """Seconds between the kill and the promotion."""
    jobs: int = 0
    unknown: int = 0
    lost: int = 0
    undone: int = 0
    again: int = 0
    stopped: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kind = "synchronous" if self.synchronous else "asynchronous"
        times = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in self.seconds.items())
        counts = f"{self.jobs} jobs acknowledged, {self.unknown} unknown, {self.lost} lost"
        lines = [
            f"seed {self.seed}, {kind} standby, {self.how}, promoted {self.away:.1f} s later:",
            f"  {counts}, {self.undone} outcomes undone, {self.again} run again ({self.stopped} for want of a lease)",
            f"  after the promotion: {times}",
        ]
        return "\n".join(lines + [f"  WRONG: {problem}" for problem in self.problems])


class Ledger:
    """What clients and handlers wrote down."""

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
    chance = random.Random(seed)
    verdict = Verdict(seed, how, synchronous, chance.uniform(0.5, 8) if away is None else away)
    with tempfile.TemporaryDirectory(prefix="treadle-failover-") as name, Cluster(synchronous) as cluster:
        ledger = Ledger(Path(name, "ledger"))
        os.environ["TREADLE_FAILOVER_LEDGER"] = str(ledger.path)
        migrate(cluster.url)
        load = Load(cluster.url, Path(name), seed, RATE)
        try:
            load.start(workers, producers)
            if not _until(lambda: len(ledger.of("worker")) == workers and len(ledger.of("accepted")) > 50, 120):
                raise RuntimeError("the workers did not start")
            time.sleep(chance.uniform(0.3, 1) * seconds)
            if lag:
                cluster.primary.fall_behind()
                time.sleep(lag)
            stopped = now()
            {"kill": cluster.primary.kill, "freeze": cluster.primary.freeze}.get(how, cluster.primary.refuse_writes)()
            time.sleep(verdict.away)
            if how == "freeze":
                cluster.primary.kill()  # as whoever promotes another has to see to
            cluster.standby.promote()
            promoted = now()
            if commands:
                code, took, said = load.command("stats")
                verdict.seconds["treadle stats"] = took
                if code:
                    verdict.problems.append(f"treadle stats ended with {code}: {said[-300:]}")
            _until(lambda: len(_followers(ledger, promoted)) >= workers + producers + 1, 45)
            time.sleep(max(0.0, promoted + seconds - now()))
            load.stop_producing()
            _until(lambda: _all_done(cluster), 60)
            verdict.seconds["all done"] = now() - promoted
            clients = {"worker": workers, "sync": producers // 2, "async": producers - producers // 2, "waiting": 1}
            _judge(verdict, ledger, cluster, promoted, clients)
            verdict.seconds["without completions"] = verdict.seconds["first completion"] + promoted - stopped
            if verdict.problems:
                for log in sorted(Path(name).glob("worker-*.log")):
                    print(f"--- {log.name}\n{log.read_text()[-3000:]}", file=sys.stderr)
        finally:
            load.close()
    return verdict


def _judge(verdict: Verdict, ledger: Ledger, cluster: Cluster, promoted: float, clients: dict[str, int]) -> None:
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
    verdict.undone = len(twice)  # the first of them, by a server that did not tell the other
    if verdict.synchronous:
        if lost:
            wrong(f"{len(lost)} acknowledged jobs are lost, such as {min(lost)}")
        if twice:
            wrong(f"two outcomes of {len(twice)} jobs were accepted, such as {min(twice)}")
    asked = {each["n"] for each in ledger.of("asked")}
    seen: set[int] = set()
    for job_id, data, status, lease, result, error in rows:
        if data["n"] not in asked or data["n"] in seen:
            wrong(f"{job_id} was never asked for, or is there twice: {data}")
        seen.add(data["n"])
        if status != "completed" or result != lease:
            wrong(f"{job_id} is {status} under lease {lease} with result {result}: {error}")
    verdict.stopped = len(ledger.of("stopped"))
    verdict.again = _overlaps(ledger.of("start", "end", "stopped"), wrong)
    followers = _followers(ledger, promoted)
    for kind, wanted in clients.items():
        times = [at - promoted for who, at in followers.items() if who.startswith(kind)]
        verdict.seconds[kind] = max(times, default=0.0)
        if len(times) < wanted:
            wrong(f"of {wanted} {kind} clients {len(times)} followed")
        elif max(times) > WITHIN:
            wrong(f"a {kind} client took {max(times):.1f} s to follow, more than {WITHIN:g}")
    verdict.seconds["first completion"] = min(
        (e["at"] - promoted for e in accepted if e["at"] > promoted), default=99.0
    )


def _overlaps(entries: Iterable[Entry], wrong: Callable[[str], object]) -> int:
    """How many runs were not the first of their job; says where two were at once."""
    runs: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for each in entries:
        runs[each["id"]][each["lease"]][each["what"]] = each["at"]
    again = 0
    for job_id, by_lease in runs.items():
        in_order = [run for _, run in sorted(by_lease.items())]
        again += len(in_order) - 1
        for first, second in itertools.pairwise(in_order):
            over = first.get("end", first.get("stopped"))
            if over is None or over > second["start"]:
                wrong(f"two runs of {job_id} at once: {dict(by_lease)}")
    return again


def _followers(ledger: Ledger, promoted: float) -> dict[str, float]:
    """When each client had its first success after the promotion."""
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


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="A failover under load.")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--how", choices=HOWS, default="kill")
    parser.add_argument(
        "--away", type=float, help="seconds between kill and promotion; by chance, up to 8, if left out"
    )
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--lag", type=float, default=0.0, help="seconds that an asynchronous standby is behind")
    parser.add_argument("--seconds", type=float, default=6.0, help="of load before the kill, and after the promotion")
    parser.add_argument("--json", type=Path, help="where the figures are written to")
    asked = parser.parse_args()
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    if asked.lag and not asked.asynchronous:
        parser.error("a synchronous standby is never behind: --lag needs --asynchronous")
    verdicts = []
    for round_number in range(asked.rounds):
        verdict = fail_over(
            asked.seed + round_number, not asked.asynchronous, asked.how, asked.seconds, asked.away, asked.lag
        )
        print(verdict, flush=True)
        verdicts.append(verdict)
    if asked.json:
        asked.json.write_text(json.dumps([vars(each) for each in verdicts], indent=1) + "\n")
    wrong = sum(len(each.problems) for each in verdicts)
    print(f"{wrong} things were wrong" if wrong else "no promise was broken")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
