"""Compares this tree with another commit, in interleaved rounds on one server.

python -m benchmarks.against_commit REVISION [--rounds 7] [--jobs 20000]

Each version has its own database, created by its own migrations. The order within a round alternates, and the result is
the median of the ratios of the rounds, so that a machine that slows down during the run favours neither side. What many
lanes cost in one version is measured by benchmarks.lanes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from treadle.db.embedded import embedded_url, leave

ROOT = Path(__file__).parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against_commit", description=__doc__.splitlines()[0])
    parser.add_argument("revision", help="the commit to compare with, such as HEAD~1 or v0.1.0")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="treadle-against-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        archive = subprocess.run(
            ["git", "archive", options.revision, "src"], cwd=ROOT, check=True, capture_output=True
        ).stdout
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has no such argument
            tar.extractall(folder / "before")  # noqa: S202
        url = embedded_url(folder / "server", settings={"max_connections": "200"}, quiet=True)
        try:
            compare({"before": folder / "before" / "src", "now": ROOT / "src"}, url, options.rounds, options.jobs)
        finally:
            leave(folder / "server")


def compare(sources: dict[str, Path], url: str, rounds: int, jobs: int) -> None:
    urls = {}
    with psycopg.connect(url, autocommit=True) as connection:
        for name in sources:
            connection.execute(f"create database bench_{name}")
            urls[name] = make_conninfo(url, dbname=f"bench_{name}")
    figures: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
    for number in range(rounds + 1):
        for name in sorted(sources, reverse=number % 2 == 1):
            figures[name].append(one_round(sources[name], urls[name], jobs))
        print(f"round {number}" + ("  (warm-up, not counted)" if number == 0 else ""), flush=True)
    before, now = figures["before"][1:], figures["now"][1:]
    print(f"\n{'per second':36}{'before':>10}{'now':>10}{'ratio':>8}   ratio of each round")
    for what in now[0]:
        ratios = [new[what] / old[what] for new, old in zip(now, before, strict=True)]
        old_rate, new_rate = (statistics.median(each[what] for each in side) for side in (before, now))
        each = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{what:36}{old_rate:10,.0f}{new_rate:10,.0f}{statistics.median(ratios):8.3f}   {each}")


def one_round(source: Path, url: str, jobs: int) -> dict[str, float]:
    environment = os.environ | {"PYTHONPATH": str(source), "TREADLE_DATABASE_URL": url}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.one_round", str(jobs)],
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
