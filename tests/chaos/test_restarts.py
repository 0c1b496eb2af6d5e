"""The short form of `python -m chaos.restarts`: the jobs of killed workers run again within 1.5 leases."""

from pathlib import Path

import pytest
from chaos.restarts import Times, Trials

pytestmark = pytest.mark.own_database

LEASE = 2.5


@pytest.mark.long
def test_the_jobs_of_killed_workers_run_again_soon(own_url: str, tmp_path: Path) -> None:
    trials = Trials(own_url, tmp_path, lease=LEASE, seed=7, survivors=1)
    try:
        times = trials.run(2, at_once=2)
    finally:
        trials.close()
    assert len(times.seconds) == 2
    assert max(times.seconds) < 1.5 * LEASE + 10.0, "with ten seconds for a busy machine"


def test_quantiles_are_times_that_were_measured() -> None:
    times = Times([float(n) for n in range(100, 0, -1)])
    assert (times.quantile(0.5), times.quantile(0.99), times.quantile(1.0)) == (50.0, 99.0, 100.0)
