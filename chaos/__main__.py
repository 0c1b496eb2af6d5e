"""python -m chaos [--seed N] [--minutes M] [--storm NAME …] [--list]"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from chaos.checker import Verdict
from chaos.run import run
from chaos.storms import MIXTURES, STORMS

SHOWN = ("enqueued", "unknown", "rolled back", "runs", "completed", "failed", "cancelled", "outcomes refused")


def main() -> int:
    options = _arguments()
    # Both signals raise KeyboardInterrupt, so that every process that was started is stopped too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if options.list:
        for name, storm in STORMS.items():
            missing = storm().missing()
            print(f"{name:14} {storm.about}" + (f"; skipped on this machine: {missing}" if missing else ""))
        for name, together in MIXTURES.items():
            print(f"{name:14} these at the same time: {', '.join(together)}")
        return 0
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    print(f"seed {seed}")
    rounds = [options.storm] if options.storm else [[name] for name in (*STORMS, *MIXTURES)]
    folder = Path(tempfile.mkdtemp(prefix="treadle-chaos-"))
    folder.chmod(0o711)
    good = True
    try:
        for names in rounds:
            good &= _round(names, 60 * options.minutes / len(rounds), seed, folder)
    except KeyboardInterrupt:
        print(f"seed {seed}: interrupted; the ledgers are in {folder}")
        return 130
    result = "no guarantee was violated" if good else "VIOLATED"
    print(f"seed {seed}: {result}; the ledgers are in {folder}")
    return 0 if good else 1


def _round(names: list[str], seconds: float, seed: int, folder: Path) -> bool:
    chosen = [STORMS[each]() for name in names for each in MIXTURES.get(name, [name])]
    for storm in chosen:
        if missing := storm.missing():
            print(f"{storm.name} is skipped: {missing}")
    chosen = [storm for storm in chosen if not storm.missing()]
    if not chosen:
        return True
    began, title = time.monotonic(), " + ".join(names)
    place = folder / "-".join(names)
    verdict = run(chosen, seconds, seed, place)
    shutil.rmtree(place / "server", ignore_errors=True)
    _show(title, verdict, time.monotonic() - began)
    return verdict.holds


def _show(title: str, verdict: Verdict, seconds: float) -> None:
    counts = verdict.counts
    # "killed", "stopped" and "continued" are records for the checker, not faults to report.
    hidden = (*SHOWN, "jobs", "pending", "claimed", "running", "killed", "stopped", "continued")
    faults = {name: number for name, number in counts.items() if name not in hidden}
    totals = ", ".join(f"{counts[name]} {name}" for name in SHOWN)
    injected = ", ".join(f"{number} {name}" for name, number in sorted(faults.items())) or "none"
    result = "ok" if verdict.holds else "VIOLATED"
    print(f"{title:14} {result}, {seconds:.0f} s: {totals}; faults: {injected}", flush=True)
    for kind, text in verdict.violations[:20]:
        print(f"    {kind}: {text}")
    if len(verdict.violations) > 20:
        print(f"    and {len(verdict.violations) - 20} more")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m chaos", description="Inject faults under load and check the guarantees."
    )
    parser.add_argument(
        "--seed", type=int, help="repeats the same random choices; their timing still depends on the machine"
    )
    parser.add_argument("--minutes", type=float, default=10, help="duration of all storms together, default 10")
    parser.add_argument(
        "--storm",
        nargs="+",
        choices=[*STORMS, *MIXTURES],
        metavar="NAME",
        help="run only these storms, all at the same time",
    )
    parser.add_argument("--list", action="store_true", help="list the storms and exit")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
