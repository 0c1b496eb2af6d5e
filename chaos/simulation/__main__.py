"""Simulations until so many steps are done, or one fails: make simulate [SEED=7] [STEPS=100000]"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.simulation.database import SimulatedDatabase
from chaos.simulation.plan import plan
from chaos.simulation.run import Run, simulate
from chaos.simulation.shrink import shrunk, written
from treadle.db.embedded import embedded_url, leave

# Autovacuum would change plans in the middle. With asynchronous commits, index entries are removed at any time.
SETTINGS = {"fsync": "off", "autovacuum": "off", "synchronous_commit": "on", "max_connections": "200"}


@contextmanager
def simulated_database() -> Iterator[SimulatedDatabase]:
    with tempfile.TemporaryDirectory(prefix="treadle-simulation-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        database = SimulatedDatabase(embedded_url(folder / "server", SETTINGS, quiet=True), folder)
        try:
            yield database
        finally:
            database.leave()
            leave(folder / "server")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="the seed of the first simulation; the next ones count up")
    parser.add_argument("--steps", type=int, default=100_000, help="statements and timers in all; default: 100000")
    parser.add_argument("--episodes", type=int, help="so many simulations instead")
    parser.add_argument("--trace", action="store_true", help="print what happened")
    parser.add_argument("--no-shrink", action="store_true", help="a plan that fails is not shortened")
    options = parser.parse_args()
    if sys.flags.hash_randomization:
        parser.error("set PYTHONHASHSEED=0: the order of a set of names must be the same in every process")
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    steps, episodes, began, used = 0, 0, time.perf_counter(), time.process_time()
    with simulated_database() as database:
        while episodes < options.episodes if options.episodes else steps < options.steps:
            run = simulate(database, plan(seed + episodes))
            steps, episodes = steps + run.steps, episodes + 1
            if options.trace:
                print(*run.trace, sep="\n")
            if run.problems:
                _report(database, run, shorten=not options.no_shrink)
                return 1
    seconds = time.perf_counter() - began
    print(
        f"seeds {seed} to {seed + episodes - 1}: {episodes} simulations, {steps:,} steps in {seconds:.0f} s, "
        f"{60 * steps / seconds:,.0f} a minute; {time.process_time() - used:.0f} s of processor time here; no problem"
    )
    return 0


def _report(database: SimulatedDatabase, run: Run, shorten: bool) -> None:
    print(f"seed {run.plan.seed} fails after {run.steps:,} steps:", *run.problems, sep="\n    ", flush=True)
    if shorten:
        short = shrunk(run.plan, lambda each: bool(simulate(database, each).problems))
        print(f"{len(short.choices)} of {len(run.plan.choices)} choices are enough:")
        print(written(short), *simulate(database, short).problems, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
