"""Explores all models, with every guard and without each of them, and replays schedules on a server: make proof"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from chaos.proof import keys, lanes, leases
from chaos.proof.explore import Model, explore
from chaos.proof.keys import Keys
from chaos.proof.lanes import Lanes
from chaos.proof.leases import Leases
from chaos.proof.replay import KINDS, perform, possible, schedules
from treadle import migrate
from treadle.db.embedded import embedded_url, leave

# What is explored with every guard. The first ones take seconds, the last ones minutes.
ALL: tuple[Model[Any], ...] = (
    Lanes(("enqueue", "tick", "tick")),
    Lanes(("old enqueue", "tick", "tick", "tick")),
    Lanes(("release", "tick", "tick", "tick")),
    Lanes(("release", "claim", "tick", "tick")),
    Lanes(("enqueue", "tick", "late tick")),
    Lanes(("release", "tick", "late tick", "tick"), crashes=False),
    Lanes(("enqueue", "release", "claim", "tick", "tick"), rests=False, crashes=False),
    Leases(),
    Keys(("enqueue", "enqueue", "claim", "claim", "cancel")),
)
# Without this guard, this model has a violation.
WITHOUT: tuple[Model[Any], ...] = (
    Lanes(("old enqueue", "tick", "tick", "tick"), lanes.ID_BEFORE_CLOCK, rests=False, crashes=False),
    Lanes(("enqueue", "tick", "late tick"), lanes.SNAPSHOT_BEFORE_ID, crashes=False),
    Lanes(("release", "tick"), lanes.PLACED_AT_FLOOR, crashes=False),
    Lanes(("release", "tick", "tick", "tick"), lanes.ENDED_SEARCHED, rests=False, crashes=False),
    Lanes(("release", "tick", "late tick", "tick"), lanes.RUNNING_NOT_SEEN, rests=False, crashes=False),
    Lanes(("release", "tick", "late tick", "tick"), lanes.AFTER_SNAPSHOT_NOT_SEEN, rests=False, crashes=False),
    Lanes(("release", "tick", "tick"), lanes.IDLE_EXAMINED, crashes=False),
    Lanes(("release", "tick", "tick"), lanes.DORMANT_KEPT, crashes=False),
    Lanes(("release", "tick", "tick", "tick"), lanes.LISTED_AGAIN, crashes=False),
    *(Leases(guard) for guard in leases.GUARDS),
    *(Keys(("enqueue", "enqueue", "claim", "claim", "cancel"), guard) for guard in keys.GUARDS),
)


def replayed(url: str, seed: int, number: int) -> Iterator[str]:
    """The schedules after which the server did what the model does not."""
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        transactions = [psycopg.connect(url) for _ in KINDS]
        for nth, schedule in enumerate(schedules(seed, number)):
            outcome, expected = perform(connection, transactions, schedule, f"proof-{seed}-{nth}"), possible(schedule)
            if outcome not in expected:
                steps = "; ".join(f"{KINDS[step.nth]} {step.nth} {step.end or 'statement'}" for step in schedule)
                yield f"{outcome} instead of {expected} after {steps}"
        for transaction in transactions:
            transaction.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m chaos.proof", description=__doc__)
    parser.add_argument("--schedules", type=int, default=500, help="how many are replayed on a server; default: 500")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failures = 0
    for model in (*ALL, *WITHOUT):
        begin = time.monotonic()
        found = explore(model)
        expected = (found.violation is None) == (model.without is None)
        failures += not expected
        removed = f" without: {model.without}" if model.without else ""
        print(
            f"{'ok' if expected else 'WRONG':6}{found.states:>10,} states {time.monotonic() - begin:6.1f} s  "
            f"{model.about}: {found.violation or 'no violation'}{removed}",
            flush=True,
        )
        if not expected:
            print(*(f"        {step}" for step in found.trace), sep="\n")
    with tempfile.TemporaryDirectory(prefix="treadle-proof-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        url = embedded_url(folder / "server", {"fsync": "off"}, quiet=True)
        try:
            wrong = list(replayed(url, options.seed, options.schedules))
        finally:
            leave(folder / "server")
    print(f"{options.schedules - len(wrong)} of {options.schedules} schedules on a server match the model")
    print(*wrong, sep="\n")
    sys.exit(1 if failures or wrong else 0)


if __name__ == "__main__":
    main()
