"""The short form of `make failover`."""

import pytest
from chaos.cluster import ServerMissing
from chaos.failover import fail_over


def test_no_job_is_lost_when_the_primary_dies_and_all_clients_recover() -> None:
    try:
        verdict = fail_over(seed=7, seconds=1.0, away=1.0, workers=2, producers=2, commands=False)
    except ServerMissing as reason:
        pytest.skip(str(reason))
    assert not verdict.problems, str(verdict)
    assert verdict.jobs > 50
