"""The short form of `make failover`."""

from contextlib import suppress
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from chaos.cluster import Cluster, ServerMissing
from chaos.failover import fail_over
from chaos.fake_clock import MISSING, FakeClock, library
from chaos.waiting import until

from treadle import JobNotFound, JobQueue, JobRow, migrate


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


def test_a_claim_that_an_asynchronous_standby_lacks_does_not_give_its_number_to_the_next() -> None:
    try:
        cluster = Cluster(synchronous=False)
    except ServerMissing as reason:
        pytest.skip(str(reason))
    with cluster:
        migrate(cluster.primary.url)
        with JobQueue(cluster.primary.url) as queue:
            job_id = queue.enqueue("a")
            until(lambda: queue.get(job_id) == _on_standby(cluster, job_id), lambda: "the standby has the job")
            cluster.primary.fall_behind()
            (lost,) = queue.claim(["a"])
        cluster.primary.kill()
        cluster.standby.promote()
        with JobQueue(cluster.standby.url) as queue:
            (job,) = queue.claim(["a"])
            assert (job.id, job.attempts) == (lost.id, lost.attempts), "the claim was lost"
            assert job.lease > lost.lease


def _on_standby(cluster: Cluster, job_id: UUID) -> JobRow | None:
    with cluster.standby.connect() as connection, suppress(psycopg.errors.UndefinedTable, JobNotFound):
        return JobQueue(connection).get(job_id)
    return None
