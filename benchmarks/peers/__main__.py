"""Measures Treadle and other job queues in one run.

python -m benchmarks.peers [--quick] [--only NAMES] [--scenario NAMES] [--resume]
"""

import argparse
import contextlib
import datetime
import signal
import sys
import time
import traceback
from functools import partial
from pathlib import Path

from benchmarks.peers import install, report, servers
from benchmarks.peers.bench import Bench
from benchmarks.peers.machine import machine
from benchmarks.peers.measures import MEASURES, Measure
from benchmarks.peers.peer import Failed, LeftOut, Peer
from benchmarks.peers.results import Results

ROOT = Path(__file__).parents[2]
TRIAL = Path(__file__).parent / ".trial"
TRIAL_SECONDS = 6.0  # of rest, and of the window, of an idle worker
CALIBRATION = 180.0  # seconds; includes creating the queue's tables
LATE = "the run was out of time"


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers and workers are stopped as well
    options = _options()
    began = time.monotonic()
    end = began + options.minutes * 60
    output: Path = options.output or (TRIAL if options.quick else ROOT / "docs")
    results = Results(output / "benchmarks.json", options.resume)
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(servers.postgres())
        redis, why = None, ""
        try:
            redis = stack.enter_context(servers.redis())
        except servers.ServerMissing as missing:
            why = str(missing)
        bench = Bench(
            *(postgres, redis),
            seconds=2.0,
            most=3_000 if options.quick else 50_000,
            quick=options.quick,
            settle=options.settle,
            window=options.window,
        )
        results.all |= {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "postgresql": {"version": postgres.version(), "settings": {"max_connections": servers.CONNECTIONS}},
            "redis": {"version": redis.version(), "settings": {"appendonly": "yes"}} if redis else {"missing": why},
            "quick": options.quick,
        }
        peers = [
            peer for name in options.only if (peer := _install(name, results, bool(redis), why, options.processes))
        ]
        results.all["machine"] = machine()  # after the installation, which selects the Python and Node versions
        rates = {peer.name: rate for peer in peers if (rate := _calibrate(bench, peer, results))}
        peers = [peer for peer in peers if peer.name in rates]
        for measure in options.measures:
            for nth in range(min(measure.rounds, options.rounds or (1 if options.quick else measure.rounds))):
                # Each round starts with another queue, because the first one finds the machine cooler.
                turn = nth % max(1, len(peers))
                calls = [
                    partial(_measure, bench, peer, measure, nth, rates[peer.name], results, end)
                    for peer in peers[turn:] + peers[:turn]
                ]
                if measure.together > 1:
                    bench.together(calls, measure.together)
                else:
                    for call in calls:
                        call()
        before = results.all.get("minutes", 0.0)  # of a run that is resumed
        results.all["minutes"] = round(before + (time.monotonic() - began) / 60, 1)
        results.save()
    report.write(output)
    print(f"wrote {output / 'benchmarks.md'}; it took {(time.monotonic() - began) / 60:.1f} minutes")


def _install(name: str, results: Results, redis: bool, why: str, processes: int | None) -> Peer | None:
    found = results.peer(name)
    found.pop("failed", None)
    try:
        peer = Peer(name, install.environment(name))
        peer.about = found["about"] = peer.ask({}, "about")
        peer.about["processes"] = processes or peer.processes
        if peer.store == "postgresql" or redis:
            return peer
        found["failed"] = why
    except Exception as error:  # any error counts as a failure of this queue, and the run continues
        found["failed"] = _sentence(error)
    print(f"{name}: cannot be measured: {found['failed']}", flush=True)
    results.save()
    return None


def _calibrate(bench: Bench, peer: Peer, results: Results) -> float:
    found = results.peer(peer.name)
    for outcome in ("failed, retrying", "failed"):  # every measure of this queue depends on the calibration
        began = time.monotonic()
        try:
            # Once per run, even if it is resumed: the number of jobs of every round depends on it.
            with peer.limited(CALIBRATION):
                found["calibrated"] = found.get("calibrated") or bench.calibrate(peer)
            took = f"({time.monotonic() - began:.1f} s)"
            print(f"{peer.name} {peer.about['version']}: about {found['calibrated']:,.0f} jobs/s {took}", flush=True)
            found.pop("failed", None)
            break
        except Exception as error:
            found["failed"] = _sentence(error)
            print(f"{peer.name}: {outcome}: {found['failed']}", flush=True)
    results.save()
    return float(found.get("calibrated") or 0)


def _sentence(error: Exception) -> str:
    if isinstance(error, Failed | TimeoutError | install.CannotInstall):
        return str(error)
    traceback.print_exception(error)  # an error of the harness itself
    return repr(error)


def _measure(bench: Bench, peer: Peer, measure: Measure, nth: int, rate: float, results: Results, end: float) -> None:
    found = results.measure(peer.name, measure.name)
    if measure.postgres and peer.store != "postgresql":
        results.note(found, not_for="only for queues on PostgreSQL")
    elif measure.history and not peer.about["history"]:
        results.note(found, not_for="it keeps no finished jobs")
    elif len(found["rounds"]) <= nth and time.monotonic() > end and not measure.outside:
        results.note(found, left_out=LATE)
    elif len(found["rounds"]) <= nth:
        began = time.monotonic()
        try:
            with peer.limited(measure.limit):
                one = measure.measure(bench, peer, rate)
            results.add(found, one, nth)
            outcome = "done"
        except LeftOut as error:
            outcome = f"left out: {error}"
            results.note(found, left_out=str(error))
        except Exception as error:  # any error counts as a failure of this queue, and the run continues
            outcome = f"failed: {(why := _sentence(error))}"
            results.note(found, failed=why)
        print(f"{measure.name} {nth + 1}: {peer.name}: {outcome} ({time.monotonic() - began:.1f} s)", flush=True)
    results.save()


def _options() -> argparse.Namespace:
    every = install.names()
    parser = argparse.ArgumentParser(description="Measure Treadle and other job queues in one run.")
    parser.add_argument("--only", help="queues to measure, separated by commas: " + ", ".join(every))
    parser.add_argument(
        "--scenario",
        "--measures",
        dest="measures",
        metavar="NAMES",
        help="measurements, separated by commas: " + ", ".join(measure.name for measure in MEASURES),
    )
    parser.add_argument(
        "--rounds",
        type=int,
        help="maximum number of rounds; default: 1 to 3, depending on the measurement; 1 with --quick",
    )
    parser.add_argument(
        "--minutes", type=float, default=57, help="only trickle, idle and growing start after this time; default: 57"
    )
    parser.add_argument(
        "--processes", type=int, help="worker processes for every queue; default: the best number, from its adapter"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a trial of a few minutes, written to benchmarks/peers/.trial"
    )
    parser.add_argument(
        "--settle", type=float, help="idle: seconds without work before the window; default: 90, or 6 with --quick"
    )
    parser.add_argument("--window", type=float, help="idle: seconds of the window; default: 300, or 6 with --quick")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run")
    parser.add_argument("--output", type=Path, help="folder for benchmarks.md and benchmarks.json; default: docs")
    options = parser.parse_args()
    options.settle = options.settle or (TRIAL_SECONDS if options.quick else Bench.settle)
    options.window = options.window or (TRIAL_SECONDS if options.quick else Bench.window)
    options.only = _chosen(parser, options.only, every)
    chosen = _chosen(parser, options.measures, [measure.name for measure in MEASURES])
    options.measures = [measure for measure in MEASURES if measure.name in chosen]
    return options


def _chosen(parser: argparse.ArgumentParser, text: str | None, every: list[str]) -> list[str]:
    chosen = every if text is None else [word.strip() for word in text.split(",") if word.strip()]
    for unknown in set(chosen) - set(every):
        parser.error(f"unknown: {unknown!r}; choose from {', '.join(every)}")
    return chosen


if __name__ == "__main__":
    main()
