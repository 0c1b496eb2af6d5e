"""Every peer measured in one run: python -m benchmarks.peers [--quick] [--only NAMES] [--measures NAMES] [--resume]"""

import argparse
import contextlib
import datetime
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.peers import install, report, servers
from benchmarks.peers.bench import Bench
from benchmarks.peers.machine import machine
from benchmarks.peers.measures import MEASURES, Measure
from benchmarks.peers.peer import Failed, Peer
from benchmarks.peers.results import Results

ROOT = Path(__file__).parents[2]
TRIAL = Path(__file__).parent / ".trial"


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers and workers are stopped, too
    options = _options()
    output: Path = options.output or (TRIAL if options.quick else ROOT / "docs")
    results = Results(output / "benchmarks.json", options.resume)
    rounds = options.rounds or (1 if options.quick else 3)
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(servers.postgres())
        redis, why = None, ""
        try:
            redis = stack.enter_context(servers.redis())
        except servers.ServerMissing as missing:
            why = str(missing)
        bench = Bench(postgres, redis, seconds=2.5, most=3_000 if options.quick else 50_000, quick=options.quick)
        results.all |= {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "machine": machine(),
            "postgresql": {"version": postgres.version(), "settings": {"max_connections": servers.CONNECTIONS}},
            "redis": {"version": redis.version(), "settings": {"appendonly": "yes"}} if redis else {"missing": why},
            "quick": options.quick,
        }
        peers = [
            peer for name in options.only if (peer := _install(name, results, bool(redis), why, options.processes))
        ]
        rates = {peer.name: rate for peer in peers if (rate := _calibrate(bench, peer, results))}
        peers = [peer for peer in peers if peer.name in rates]
        for measure in options.measures:
            for nth in range(rounds if measure.rounds else 1):
                # Each round begins with another one: whoever comes first finds the machine cooler.
                turn = nth % max(1, len(peers))
                # More at a time would want more connections than the server has.
                with ThreadPoolExecutor(4 if measure.together else 1) as threads:
                    for peer in peers[turn:] + peers[:turn]:
                        threads.submit(_measure, bench, peer, measure, nth, rates[peer.name], results)
    report.write(output)
    print(f"wrote {output / 'benchmarks.md'}")


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
    except (install.CannotInstall, Failed, OSError) as error:
        found["failed"] = str(error)
    print(f"{name}: cannot be measured: {found['failed']}", flush=True)
    results.save()
    return None


def _calibrate(bench: Bench, peer: Peer, results: Results) -> float:
    found = results.peer(peer.name)
    try:
        # Once a run: the sizes of all rounds follow from it, also those of a run that goes on.
        found["calibrated"] = found.get("calibrated") or bench.calibrate(peer)
        print(f"{peer.name} {peer.about['version']}: about {found['calibrated']:,.0f} jobs/s", flush=True)
    except (Failed, TimeoutError) as error:
        found["failed"] = str(error)
        print(f"{peer.name}: failed: {error}", flush=True)
    results.save()
    return float(found.get("calibrated") or 0)


def _measure(bench: Bench, peer: Peer, measure: Measure, nth: int, rate: float, results: Results) -> None:
    found = results.measure(peer.name, measure.name)
    if measure.postgres and peer.store != "postgresql":
        found["left_out"] = "only for those on PostgreSQL"
    elif measure.history and not peer.about["history"]:
        found["left_out"] = "it keeps no finished jobs"
    elif len(found["rounds"]) <= nth:
        began = time.monotonic()
        found.pop("failed", None)
        try:
            found["rounds"].append(measure.measure(bench, peer, rate))
            said = "done"
        except Exception as error:  # whatever it is, it is this peer's, and the run goes on
            said = found["failed"] = f"{error}" if isinstance(error, Failed | TimeoutError) else repr(error)
        print(f"{measure.name} {nth + 1}: {peer.name}: {said} ({time.monotonic() - began:.1f} s)", flush=True)
    results.save()


def _options() -> argparse.Namespace:
    every = install.names()
    parser = argparse.ArgumentParser(description="Measure Treadle and its peers in one run.")
    parser.add_argument("--only", help="peers, with commas: " + ", ".join(every))
    parser.add_argument("--measures", help="with commas: " + ", ".join(measure.name for measure in MEASURES))
    parser.add_argument("--rounds", type=int, help="3, or 1 with --quick")
    parser.add_argument("--processes", type=int, help="of workers for all, to see what is best; as each adapter says")
    parser.add_argument("--quick", action="store_true", help="a trial in minutes, into benchmarks/peers/.trial")
    parser.add_argument("--resume", action="store_true", help="go on with the run whose figures are there")
    parser.add_argument("--output", type=Path, help="where benchmarks.md and benchmarks.json go; docs/")
    options = parser.parse_args()
    options.only = _chosen(parser, options.only, every)
    chosen = _chosen(parser, options.measures, [measure.name for measure in MEASURES])
    options.measures = [measure for measure in MEASURES if measure.name in chosen]
    return options


def _chosen(parser: argparse.ArgumentParser, text: str | None, every: list[str]) -> list[str]:
    chosen = every if text is None else [word.strip() for word in text.split(",") if word.strip()]
    for unknown in set(chosen) - set(every):
        parser.error(f"{unknown!r} is unknown; there are {', '.join(every)}")
    return chosen


if __name__ == "__main__":
    main()
