"""Kills and stops workers and restarts the server while random workflows run, and checks that each step ended as its
plan says, that nothing ran before what it waits for, and that nothing waits for ever.

    python -m chaos.workflows [--graphs 2000] [--seed 1] [--failover]

With --failover, the server has a synchronous standby, which is promoted when the server is killed for the first time.
There are eight worker processes. chaos/workflow_plans.py has the plans, and says how each step must end.
"""

import argparse
import itertools
import os
import random
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from chaos.faults import Faults, failing_over, report
from chaos.ledger import FOLDER, Record, read
from chaos.servers import serving
from chaos.waiting import until
from chaos.workflow_plans import CANCELLED, COMPLETED, FAILED, SKIPPED, Plan, random_plan, signals
from treadle import DatabaseUnreachable

STUCK_SECONDS = 240.0
LEFT = "select count(*) from treadle.jobs where finished_at is null"
MEMBERS = """
    select job.id, edge.job_id, edge.step, job.job_type, treadle.outcome_of(job.status, job.flags),
        extract(epoch from job.completed_at)::float8
    from treadle.dependencies as edge
    join treadle.jobs as job on job.id = edge.after_id
    where edge.needs = 'member'"""
CALLBACKS = """
    select data ->> 'workflow', data ->> 'when', treadle.outcome_of(status, flags)
    from treadle.jobs where job_type = 'callback'"""


class Job(NamedTuple):
    id: UUID
    workflow: UUID
    step: str | None
    job_type: str
    outcome: str
    completed_at: float | None


class Storm(Faults):
    """Workers that run random workflows, and faults."""

    def __init__(self, url: str, folder: Path, seed: int, programs: int = 4, most: int = 200) -> None:
        super().__init__(url, folder, seed, "chaos.workflows_app:app", programs)
        self.plans: dict[str, Plan] = {}
        self._most = most
        self._signals: list[tuple[str, str]] = []
        os.environ[FOLDER] = str(self.ledger.folder)

    def enqueue(self, graphs: int, over: threading.Event) -> None:
        """One after the other, while workers run. If the reply was lost, it is looked for."""
        from chaos import workflows_app  # it needs the ledger

        rng = random.Random(self.rng.random())
        for number in range(graphs):
            plan = random_plan(rng, f"graph {number}", self._most)
            while not over.is_set():
                try:
                    with psycopg.connect(self._url) as connection:
                        if not self._exists(connection, plan.name):
                            workflows_app.build(plan).enqueue(connection=connection)
                    break
                except (psycopg.OperationalError, DatabaseUnreachable):
                    over.wait(0.1)
            self.plans[plan.name] = plan
            self._signals += [(plan.name, node.name) for node in signals(plan)]

    def send_signals(self, over: threading.Event) -> None:
        """Some before their steps wait for them. Each until it is known to be taken, or too late."""
        rng = random.Random(self.rng.random())
        while not over.wait(0.02) or self._signals:
            if not self._signals or rng.random() < 0.3:
                continue
            name, step = self._signals.pop(rng.randrange(len(self._signals)))
            try:
                with psycopg.connect(self._url, autocommit=True) as connection:
                    row = connection.execute(
                        "select treadle.send_signal(id, %s) from treadle.jobs "
                        "where job_type = 'workflow' and data ->> 'name' = %s",
                        [f"go {step}", name],
                    ).fetchone()
                    self.counts[f"signals {row[0] if row else 'lost'}"] += 1
            except psycopg.OperationalError:
                self._signals.append((name, step))

    def is_done(self) -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(self._url) as connection:
            return not self._signals and connection.execute(LEFT).fetchone() == (0,)
        return False

    def finish(self) -> None:
        self.let_all_continue()
        until(self.is_done, self._unfinished, STUCK_SECONDS)

    def verdict(self) -> list[str]:
        with psycopg.connect(self._url) as connection:

            def rows(question: str) -> list[Any]:
                return connection.execute(question).fetchall()

            checker = Checker(
                self.plans,
                dict(rows("select id, data ->> 'name' from treadle.jobs where job_type = 'workflow'")),
                [Job(*row) for row in rows(MEMBERS)],
                dict(rows("select id, treadle.outcome_of(status, flags) from treadle.jobs")),
                read(self.ledger.folder),
            )
            undone = dict(rows("select id, data ->> 'node' from treadle.jobs where job_type = 'undo'"))
            problems = checker.problems(Counter(rows(CALLBACKS)), undone)
            if left := rows("select * from treadle.dependency_checks"):
                problems.append(f"undecided: {left}")
        return problems + self.log_problems()

    def _exists(self, connection: psycopg.Connection[Any], name: str) -> bool:
        found = connection.execute(
            "select from treadle.jobs where job_type = 'workflow' and data ->> 'name' = %s limit 1", [name]
        )
        return found.fetchone() is not None

    def _unfinished(self) -> str:
        with psycopg.connect(self._url) as connection:
            rows = connection.execute(
                "select id, job_type, status, holds, flags from treadle.jobs where finished_at is null limit 20"
            ).fetchall()
            return f"unfinished: {rows}; signals: {self._signals[:5]}; {self.counts}"


class Checker:
    """Compares what happened with the plans."""

    def __init__(
        self,
        plans: dict[str, Plan],
        names: dict[UUID, str],
        jobs: list[Job],
        statuses: dict[UUID, str],
        records: list[Record],
    ) -> None:
        self._plans = plans
        self._names = names
        self._statuses = statuses
        self._members: dict[UUID, list[Job]] = defaultdict(list)
        for job in jobs:
            self._members[job.workflow].append(job)
        self._starts: dict[str, float] = {}
        self._ends: dict[str, float] = {}  # the first with which it could have completed
        for each in records:
            if each["what"] == "start":
                self._starts.setdefault(each["id"], each["at"])
            elif each["what"] == "end" and each["ok"]:
                self._ends.setdefault(each["id"], each["at"])

    def problems(self, callbacks: Counter[tuple[str, str, str]], undone: dict[UUID, str]) -> list[str]:
        found = []
        ids = {name: job_id for job_id, name in self._names.items() if name in self._plans}
        by_node = {name: job_id for job_id, name in undone.items()}
        if len(by_node) != len(undone):
            found.append("a step was undone twice")
        for name, plan in self._plans.items():
            if name not in ids:
                found.append(f"{name} does not exist")
                continue
            found += self._whole(plan, ids[name])
            whole = plan.whole()
            wanted = {
                "on_complete": COMPLETED,
                "on_success": COMPLETED if whole == COMPLETED else CANCELLED,
                "on_failure": COMPLETED if whole == FAILED else SKIPPED,
            }
            for when, outcome in wanted.items():
                if callbacks[name, when, outcome] != 1:
                    found.append(f"{name}: {when} is not {outcome}, once: {callbacks}"[:500])
            found += self._undone(plan, ids[name], by_node)
        return found

    def _whole(self, plan: Plan, workflow: UUID, outer: str | None = None) -> list[str]:
        steps = {job.step: job for job in self._members[workflow] if job.step}
        outcomes = plan.outcomes([outer] if outer else [])
        found = [
            f"{plan.name} {name} is {steps[name].outcome}, not {outcome}"
            for name, outcome in outcomes.items()
            if steps[name].outcome != outcome
        ]
        if self._statuses[workflow] != plan.whole() and outer is None:
            found.append(f"{plan.name} is {self._statuses[workflow]}, not {plan.whole()}")
        for node in plan.nodes:
            job = steps[node.name]
            first = self._first_start(job)
            for name, needs in node.edges:
                last = self._last_end(steps[name])
                if needs == COMPLETED and first is not None and last is not None and first < last:
                    found.append(f"{plan.name} {node.name} began before {name} had completed")
            if node.kind == "map" and job.outcome in (COMPLETED, FAILED) and node.fates:
                members = len(self._members[job.id])
                if members != len(node.fates):
                    found.append(f"{plan.name} {node.name} has {members} jobs, not {len(node.fates)}")
        return found

    def _undone(self, plan: Plan, workflow: UUID, by_node: dict[str, UUID]) -> list[str]:
        """Those that have completed, if the workflow failed, in the reverse order of completion."""
        steps = {job.step: job for job in self._members[workflow] if job.step}
        fails = plan.whole() == FAILED
        done = sorted(
            (node for node in plan.nodes if node.undo and fails and steps[node.name].outcome == COMPLETED),
            key=lambda node: (steps[node.name].completed_at or 0, steps[node.name].id),
            reverse=True,
        )
        wanted = [f"{plan.name} {node.name}" for node in done]
        existing = [f"{plan.name} {node.name}" for node in plan.nodes if f"{plan.name} {node.name}" in by_node]
        if set(wanted) != set(existing):
            return [f"undone: {existing}, not {wanted}"]
        found = [f"{name} was not undone" for name in wanted if self._statuses[by_node[name]] != COMPLETED]
        for one, other in itertools.pairwise(wanted):
            if self._starts.get(str(by_node[other]), 0) < self._ends.get(str(by_node[one]), 0):
                found.append(f"{other} was undone before {one}")
        return found

    def _first_start(self, job: Job) -> float | None:
        if job.job_type == "workflow":
            starts = [start for each in self._members[job.id] if (start := self._first_start(each)) is not None]
            return min(starts, default=None)
        return self._starts.get(str(job.id))

    def _last_end(self, job: Job) -> float | None:
        if job.job_type == "workflow":
            ends = [end for each in self._members[job.id] if (end := self._last_end(each)) is not None]
            return max(ends, default=None)
        return self._ends.get(str(job.id))


def storm(folder: Path, graphs: int, seed: int, failover: bool = False) -> tuple[list[str], Counter[str], float]:
    with failing_over() if failover else serving() as server:
        trial = Storm(server.url, folder, seed)
        try:
            seconds = trial.storm(server, partial(trial.enqueue, graphs), trial.send_signals, trial.is_done)
            trial.finish()
            trial.read_log(server)
            return trial.verdict(), trial.counts, seconds
        finally:
            trial.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m chaos.workflows", description="Inject faults while workflows run, and check how they end."
    )
    parser.add_argument("--graphs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--failover", action="store_true", help="to a synchronous standby, at the first crash")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="treadle-workflows-"))
    problems, counts, seconds = storm(folder, options.graphs, options.seed, options.failover)
    faults = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    verdict = "all ended as planned" if not problems else f"{len(problems)} problems"
    print(f"seed {options.seed}: {options.graphs} workflows in {seconds:.0f} s, {faults}: {verdict}")
    return report(folder, problems)


if __name__ == "__main__":
    sys.exit(main())
