"""Kills worker processes at random points and checks that every effect happened exactly once.

    python -m chaos.kills --kills 200

Most kills hit one child process. From time to time the whole process tree of a worker is killed, as in a power cut, and
a new worker is started.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import psycopg
from psycopg import Connection

from chaos.kill_app import STEPS, TABLES
from chaos.processes import WorkerProgram
from chaos.waiting import until
from treadle import JobQueue, migrate
from treadle.db.embedded import embedded_url, leave

OPTIONS = ("--lease", "1s", "--crash-limit", "10000", "--children", "3")
ACCOUNTS, BALANCE = 5, 1000


class Verdict(NamedTuple):
    kills: int
    """Kills of a process while it was running a job."""
    power_cuts: int
    problems: list[str]


class Killer:
    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self._url = url
        self._folder = folder
        self._chance = random.Random(seed)
        self.connection: Connection[Any] = psycopg.connect(url, autocommit=True)
        self.connection.execute(TABLES.encode())
        self.power_cuts = 0
        self._worker = self._start()
        self._queue = JobQueue(url)

    def steps_and_debits(self, kills: int, power_cuts: int) -> Verdict:
        """Run jobs of ten steps, and debits, until this many kills and power cuts have happened."""
        self.connection.execute(
            "insert into public.accounts select n, %s from generate_series(1, %s) as n", [BALANCE, ACCOUNTS]
        )
        debits = steps = 0
        while self._crashes() < kills or self.power_cuts < power_cuts:
            if self._unfinished() < 6:
                for _ in range(3):
                    self._queue.enqueue("ten_steps")
                    account, amount = self._chance.randint(1, ACCOUNTS), self._chance.randint(1, 9)
                    self._queue.enqueue("debit", {"account": account, "amount": amount})
                debits, steps = debits + 3, steps + 3
            time.sleep(self._chance.uniform(0, 0.4))
            if self.power_cuts < power_cuts and self._crashes() >= kills * (self.power_cuts + 1) / (power_cuts + 1):
                self._cut_power()
            else:
                self._kill_a_child()
        self._finish()
        return Verdict(self._crashes(), self.power_cuts, [*self._check_jobs(debits, steps), *self._check_effects()])

    def one_import(self, rows: int, seconds: float, every: float) -> tuple[float, int]:
        """Run an import that is killed every `every` seconds. Return rows processed per row imported, and the kills."""
        count_file = self._folder / "rows-processed"
        job_id = self._queue.enqueue("import_rows", {"rows": rows, "seconds": seconds, "count_file": str(count_file)})
        saved = None
        while not (job := self._queue.get(job_id)).status.finished:
            if job.checkpoint == saved:  # give a process that was just started the time to begin
                time.sleep(0.02)
                continue
            time.sleep(every)
            saved = self._queue.get(job_id).checkpoint
            self._kill_a_child()
        (imported,) = self.connection.execute("select count(distinct n) from public.rows").fetchone() or (0,)
        if (self._queue.get(job_id).result, imported) != (rows, rows):
            raise AssertionError(f"{imported} of {rows} rows were imported")
        return count_file.stat().st_size / rows, self._crashes()

    def close(self) -> None:
        self._worker.kill_all()
        self._queue.close()
        self.connection.close()

    def _start(self) -> WorkerProgram:
        worker = WorkerProgram(
            self._url, self._folder / f"worker-{self.power_cuts}.log", *OPTIONS, app="chaos.kill_app:app"
        )
        worker.started()
        return worker

    def _kill_a_child(self) -> None:
        children = []
        for each in self._worker.tree()[1:]:
            with suppress(psutil.NoSuchProcess):
                if "spawn_main" in " ".join(each.cmdline()):
                    children.append(each)
        if children:
            with suppress(psutil.NoSuchProcess):
                self._chance.choice(children).send_signal(signal.SIGKILL)

    def _cut_power(self) -> None:
        self._worker.kill_all()
        self.power_cuts += 1
        self._worker = self._start()

    def _crashes(self) -> int:
        (crashes,) = self.connection.execute("select coalesce(sum(crashes), 0) from treadle.jobs").fetchone() or (0,)
        return int(crashes)

    def _unfinished(self) -> int:
        left = "select count(*) from treadle.jobs where status in ('pending', 'claimed', 'running')"
        (number,) = self.connection.execute(left).fetchone() or (0,)
        return int(number)

    def _finish(self) -> None:
        until(lambda: self._unfinished() == 0, lambda: self._worker.log.read_text()[-3000:], 120)

    def _check_jobs(self, debits: int, steps: int) -> list[str]:
        found = self.connection.execute(
            "select job_type, status, result, count(*) from treadle.jobs group by 1, 2, 3 order by 1"
        ).fetchall()
        wanted = [("debit", "completed", None, debits), ("ten_steps", "completed", sum(range(STEPS)), steps)]
        return [] if found == wanted else [f"expected the jobs {wanted}, got {found}"]

    def _check_effects(self) -> list[str]:
        problems = []
        wrong = self.connection.execute(
            """select job.id, array_agg(effect.step order by effect.step)
            from treadle.jobs as job left join public.effects as effect on effect.job_id = job.id
            where job.job_type = 'ten_steps'
            group by job.id
            having array_agg(effect.step order by effect.step) is distinct from %s::int[]""",
            [list(range(STEPS))],
        ).fetchall()
        problems += [f"job {job_id} executed the steps {steps}" for job_id, steps in wrong]
        twice = self.connection.execute(
            """select job.id, count(booking.job_id)
            from treadle.jobs as job left join public.bookings as booking on booking.job_id = job.id
            where job.job_type = 'debit'
            group by job.id
            having count(booking.job_id) <> 1"""
        ).fetchall()
        problems += [f"job {job_id} has {number} bookings" for job_id, number in twice]
        sums = self.connection.execute(
            """select account.id, account.balance, coalesce(sum(booking.amount), 0)
            from public.accounts as account left join public.bookings as booking on booking.account = account.id
            group by account.id"""
        ).fetchall()
        problems += [
            f"account {n} has a balance of {left} after debits of {out}"
            for n, left, out in sums
            if left + out != BALANCE
        ]
        return problems


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Kill workers at random points and check that every effect happened exactly once."
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="treadle-kills-"))
    folder.chmod(0o711)
    killer = None
    try:
        url = embedded_url(folder / "server", settings={"fsync": "off"}, quiet=True)
        migrate(url)
        killer = Killer(url, folder, options.seed)
        verdict = killer.steps_and_debits(options.kills, options.kills // 20)
        print(
            f"seed {options.seed}: {verdict.kills} kills of running jobs, {verdict.power_cuts} kills of a whole worker"
        )
        print("\n".join(verdict.problems) or "every effect happened exactly once")
        killer.connection.execute("delete from treadle.jobs")
        more, kills = killer.one_import(100_000, 0.0002, every=2.0)
        print(f"an import of 100,000 rows, killed {kills} times: {more:.3f} times the work of an uninterrupted one")
    finally:
        if killer is not None:
            killer.close()
        leave(folder / "server")
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if verdict.problems or more >= 1.3 else 0


if __name__ == "__main__":
    sys.exit(main())
