"""Compares this tree with another commit, in interleaved rounds.

python -m benchmarks.against_commit REVISION [--scenario rates,trickle,idle] [--rounds 7] [--jobs 20000]

rates    how fast jobs are enqueued, claimed and drained (the default)
trickle  one job at a time, 100 a second: processor time per job of server, worker and producer, and pick-up latency
idle     processor time, statements and WAL of a worker without work; both versions at the same time

Each version has its own database, or, for trickle and idle, its own server, created by its own migrations. The order
within a round alternates, and the result is the median of the ratios of the rounds, so that a machine that slows down
during the run favours neither side. trickle and idle are those of benchmarks/peers. What many lanes cost in one version
is measured by benchmarks.lanes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from benchmarks.peers import install
from benchmarks.peers.bench import Bench
from benchmarks.peers.measures import MEASURES, Measure
from benchmarks.peers.peer import Peer
from benchmarks.peers.servers import Postgres
from benchmarks.peers.summary import FIGURES
from treadle.db.embedded import embedded_url, leave

ROOT = Path(__file__).parent.parent
ROUNDS = {"rates": 7, "trickle": 5, "idle": 1}
QUICK = 6.0  # seconds of rest, and of the window, of an idle worker

Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against_commit", description=__doc__.splitlines()[0])
    parser.add_argument("revision", help="the commit to compare with, such as HEAD~1 or v0.1.0")
    parser.add_argument("--scenario", default="rates", help=f"measurements, separated by commas: {', '.join(ROUNDS)}")
    parser.add_argument("--rounds", type=int, help="default: 7 for rates, 5 for trickle, 1 for idle")
    parser.add_argument("--jobs", type=int, default=20_000, help="of rates")
    parser.add_argument("--settle", type=float, default=Bench.settle, help="idle: seconds of rest before the window")
    parser.add_argument("--window", type=float, default=Bench.window, help="idle: seconds of the window")
    parser.add_argument("--quick", action="store_true", help="a trial of trickle and idle")
    options = parser.parse_args()
    scenarios = options.scenario.split(",")
    if unknown := set(scenarios) - set(ROUNDS):
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(ROUNDS)}")
    settle, window = (QUICK, QUICK) if options.quick else (options.settle, options.window)
    bench = Bench(Postgres(0), None, seconds=2.0, most=0, quick=options.quick, settle=settle, window=window)
    with tempfile.TemporaryDirectory(prefix="treadle-against-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        sources = {"before": before(folder, options.revision), "now": ROOT / "src"}
        for scenario in scenarios:
            rounds = options.rounds or ROUNDS[scenario]
            if scenario == "rates":
                with databases(folder / "server", list(sources)) as urls:
                    measure_rates = partial(rates, sources, urls, options.jobs)
                    for version in sources:  # to warm up, not counted
                        measure_rates(version)
                    compare(rounds, measure_rates, unit="per second")
            else:
                (measure,) = [each for each in MEASURES if each.name == scenario]
                peers = {name: peer(source) for name, source in sources.items()}
                run = partial(bench.together, number=2) if measure.together > 1 else in_turn
                compare(rounds, partial(measured, bench, measure, peers), run)


def before(folder: Path, revision: str) -> Path:
    """Extract the sources of the commit."""
    archive = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has no such argument
        tar.extractall(folder / "before")  # noqa: S202
    return folder / "before" / "src"


def in_turn(calls: list[Callable[[], Figures]]) -> list[Figures]:
    return [call() for call in calls]


def compare(
    rounds: int,
    measure: Callable[[str], Figures],
    run: Callable[[list[Callable[[], Figures]]], list[Figures]] = in_turn,
    unit: str = "",
) -> None:
    found: list[dict[str, Figures]] = []
    for number in range(rounds):
        names = sorted(("before", "now"), reverse=number % 2 == 0)
        found.append(dict(zip(names, run([partial(measure, name) for name in names]), strict=True)))
        print(f"round {number + 1}", flush=True)
    print(f"\n{unit:44}{'before':>12}{'now':>12}{'ratio':>8}   ratio of each round")
    for what in found[0]["now"]:
        sides = [statistics.median(each[name][what] for each in found) for name in ("before", "now")]
        ratios = [each["now"][what] / each["before"][what] for each in found if each["before"][what]]
        ratio = f"{statistics.median(ratios):.3f}" if ratios else "-"
        shown = "".join(f"{side:12,.0f}" if side >= 1_000 else f"{side:12.2f}" for side in sides)
        print(f"{what:44}{shown}{ratio:>8}   {' '.join(f'{each:.2f}' for each in ratios)}")
    print(flush=True)


@contextmanager
def databases(folder: Path, names: list[str]) -> Iterator[dict[str, str]]:
    url = embedded_url(folder, settings={"max_connections": "200"}, quiet=True)
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            for name in names:
                connection.execute(f"create database bench_{name}")
        yield {name: make_conninfo(url, dbname=f"bench_{name}") for name in names}
    finally:
        leave(folder)


def rates(sources: dict[str, Path], urls: dict[str, str], jobs: int, name: str) -> Figures:
    environment = os.environ | {"PYTHONPATH": str(sources[name]), "TREADLE_DATABASE_URL": urls[name]}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.one_round", str(jobs)],
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def peer(source: Path) -> Peer:
    """Treadle as benchmarks/peers measures it, with other sources. PYTHONPATH comes before what is installed."""
    found = Peer("treadle", ["env", f"PYTHONPATH={source}", *install.environment("treadle")])
    found.about = found.ask({}, "about")
    return found


def measured(bench: Bench, measure: Measure, peers: dict[str, Peer], name: str) -> Figures:
    with peers[name].limited(measure.limit):
        one = measure.measure(bench, peers[name], 0.0)
    return {figure.title: figure.read([one])[0] for figure in FIGURES if figure.measure == measure.name}


if __name__ == "__main__":
    main()
