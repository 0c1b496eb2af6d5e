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
from chaos.storms import MIXED, STORMS

SHOWN = ("enqueued", "unknown", "rolled back", "runs", "completed", "failed", "cancelled", "outcomes refused")


def main() -> int:
    asked = _arguments()
    # Whatever ends it, what it has started ends with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked.list:
        for name, storm in STORMS.items():
            lacks = storm().missing()
            print(f"{name:14} {storm.about}" + (f"; left out here: {lacks}" if lacks else ""))
        print(f"{'mixed':14} at once: {', '.join(MIXED)}")
        return 0
    seed = asked.seed if asked.seed is not None else random.randrange(10**6)
    print(f"seed {seed}")
    rounds = [asked.storm] if asked.storm else [[name] for name in (*STORMS, "mixed")]
    folder = Path(tempfile.mkdtemp(prefix="treadle-chaos-"))
    folder.chmod(0o711)
    good = True
    try:
        for names in rounds:
            good &= _round(names, 60 * asked.minutes / len(rounds), seed, folder)
    except KeyboardInterrupt:
        print(f"seed {seed}: interrupted; the ledgers are in {folder}")
        return 130
    print(f"seed {seed}: " + ("no promise was broken" if good else "BROKEN") + f"; the ledgers are in {folder}")
    return 0 if good else 1


def _round(names: list[str], seconds: float, seed: int, folder: Path) -> bool:
    chosen = [STORMS[each]() for name in names for each in (MIXED if name == "mixed" else (name,))]
    lacking = [f"{storm.name} is left out: {lacks}" for storm in chosen if (lacks := storm.missing())]
    for each in lacking:
        print(each)
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
    # Who was stopped and went on is for the checker.
    unshown = (*SHOWN, "jobs", "pending", "claimed", "running", "stopped", "continued")
    faults = {name: number for name, number in counts.items() if name not in unshown}
    told = ", ".join(f"{counts[name]} {name}" for name in SHOWN)
    done = ", ".join(f"{number} {name}" for name, number in sorted(faults.items())) or "none"
    print(f"{title:14} {'ok' if verdict.holds else 'BROKEN'}, {seconds:.0f} s: {told}; faults: {done}", flush=True)
    for kind, text in verdict.violations[:20]:
        print(f"    {kind}: {text}")
    if len(verdict.violations) > 20:
        print(f"    and {len(verdict.violations) - 20} more")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description="Faults, and whether a promise was broken.")
    parser.add_argument("--seed", type=int, help="the same seed does the same things; the machine decides when")
    parser.add_argument("--minutes", type=float, default=10, help="of storm, in all (10)")
    parser.add_argument("--storm", nargs="+", choices=[*STORMS, "mixed"], metavar="NAME", help="only these, at once")
    parser.add_argument("--list", action="store_true", help="which storms there are")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
