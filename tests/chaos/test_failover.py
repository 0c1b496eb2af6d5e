"""The short form of `make failover`."""

from pathlib import Path

import pytest
from chaos.cluster import Cluster, ServerMissing
from chaos.failover import fail_over
from chaos.fake_clock import MISSING, FakeClock, library

from treadle import JobQueue, migrate


def test_no_job_is_lost_when_the_primary_dies_and_all_clients_recover() -> None:
    try:
        verdict = fail_over(seed=7, seconds=1.0, away=1.0, workers=2, producers=2, commands=False)
    except ServerMissing as reason:
        pytest.skip(str(reason))
    assert not verdict.problems, str(verdict)
    assert verdict.jobs > 50


@pytest.mark.skipif(library() is None, reason=MISSING)
@pytest.mark.parametrize("seconds", [-86_400, 86_400], ids=["a day behind", "a day ahead"])
def test_jobs_continue_in_order_on_a_standby_whose_clock_differs(tmp_path: Path, seconds: int) -> None:
    tmp_path.chmod(0o755)
    clock = FakeClock(tmp_path / "clock", FAKETIME_NO_CACHE="1")
    clock.set(seconds)
    try:
        cluster = Cluster(synchronous=True)
    except ServerMissing as reason:
        pytest.skip(str(reason))
    cluster.standby.environment |= clock.environment
    with cluster:
        migrate(cluster.primary.url)
        with JobQueue(cluster.primary.url) as queue:
            queue.enqueue("a", {"n": 0})
            queue.complete(*queue.claim(["a"]))
            before = [queue.enqueue("a", {"n": n}, key="k") for n in range(2)]
        cluster.primary.kill()
        cluster.standby.promote()
        with JobQueue(cluster.standby.url) as queue:
            after = queue.enqueue("a", {"n": 2}, key="k")
            order = []
            for _ in range(3):
                (job,) = queue.claim(["a"])
                order.append(job.id)
                queue.complete(job)
    assert order == [*before, after]
