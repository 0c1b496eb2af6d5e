"""Workflows with one job for each element of a result."""

from typing import Any

import psycopg
import pytest

from tests.jobs.test_workflows import Shop
from treadle import InvalidArgument, InvalidPayload, JobFailed, Limit, MaxPending, Status, Treadle, Workflow


@pytest.fixture
def shop(app: Treadle) -> Shop:
    return Shop(app)


def listing(app: Treadle, found: Any) -> Any:
    @app.job
    async def numbers() -> list[int]:
        return found  # type: ignore[no-any-return]

    return numbers


def test_one_job_for_each_element(shop: Shop) -> None:
    numbers = listing(shop.app, [3, 1, 2])
    flow = Workflow()
    found = flow.add(numbers.call(), name="numbers")
    doubled = flow.map(shop.double.using(priority=150).call(), over=found, name="doubled")
    flow.returns(flow.add(shop.total.call(doubled.output)))
    handle = flow.enqueue()
    shop.run()
    assert handle.result(timeout=30) == 12
    assert shop.ran == ["double 3", "double 1", "double 2", "total [6, 2, 4]"]
    mapped = shop.app.workflow(handle.steps["doubled"].id)
    assert [(job.job_type, job.status) for job in mapped.jobs()] == [("double", "completed")] * 3
    assert {shop.app.handle(job.id).job().priority for job in mapped.jobs()} == {150}


def test_no_element(shop: Shop) -> None:
    flow = Workflow()
    found = flow.add(listing(shop.app, []).call())
    flow.returns(flow.add(shop.total.call(flow.map(shop.double.call(), over=found).output)))
    handle = flow.enqueue()
    shop.run()
    assert handle.result(timeout=30) == 0


def test_more_elements_than_are_added_at_once(shop: Shop) -> None:
    flow = Workflow()
    found = flow.add(listing(shop.app, list(range(2345))).call())
    flow.returns(flow.add(shop.total.call(flow.map(shop.double.call(), over=found).output)))
    handle = flow.enqueue()
    shop.run()
    assert handle.result(timeout=30) == 2344 * 2345


def test_a_result_that_is_no_list(app: Treadle, shop: Shop) -> None:
    @app.job
    async def anything() -> Any:
        return {"no": "list"}

    flow = Workflow()
    mapped = flow.map(shop.double.call(), over=flow.add(anything.call()), name="mapped")
    flow.add(shop.note.call("after"), after=mapped)
    handle = flow.enqueue()
    shop.run()
    with pytest.raises(JobFailed, match=r'map needs a list, but got {"no": "list"}'):
        handle.result(timeout=30)
    assert shop.ran == []


def test_an_element_that_fails(shop: Shop) -> None:
    flow = Workflow()
    found = flow.add(listing(shop.app, [1, 2]).call())
    flow.add(shop.total.call(flow.map(shop.fail_once.call(), over=found, name="mapped").output))
    handle = flow.enqueue()
    shop.run()
    with pytest.raises(JobFailed, match="broken"):
        handle.result(timeout=30)
    shop.broken = False
    assert handle.retry() == 1  # the workflow that is the fan-out
    shop.run()
    assert handle.status() == Status.COMPLETED
    assert shop.ran == ["total [1, 2]"]


def test_maps_that_are_refused(app: Treadle, shop: Shop) -> None:
    @app.job(limits=Limit(1, per="n"))
    async def limited(n: int) -> None: ...

    flow = Workflow()
    found = flow.add(listing(app, [1]).call())
    one = flow.add(shop.number.call(1))
    with pytest.raises(InvalidArgument, match="over must be a list"):
        flow.map(shop.double.call(), over=one)
    with pytest.raises(InvalidArgument, match="must be left out"):
        flow.map(shop.double.call(1), over=found)
    with pytest.raises(InvalidArgument, match="over must be a step"):
        flow.map(shop.double.call(), over=[1])
    flow.map(shop.note.call(), over=found)
    with pytest.raises(InvalidPayload, match="text: it gets the result of another job, which is int"):
        flow.enqueue()
    flow = Workflow()
    flow.map(limited.call(), over=flow.add(app.function("numbers").call()))
    with pytest.raises(InvalidArgument, match="a limit of limited needs its value now"):
        flow.enqueue()


def test_a_map_ignores_how_many_may_wait(app: Treadle, shop: Shop) -> None:
    @app.job(limits=MaxPending(2))
    async def take(n: int) -> int:
        return n

    shop.run()  # so that the limit is known
    flow = Workflow()
    found = flow.add(listing(app, list(range(20))).call())
    flow.returns(flow.map(take.call(), over=found))
    handle = flow.enqueue()
    shop.run()
    assert handle.result(timeout=30) == list(range(20))


def test_a_map_whose_jobs_cannot_be_added_fails(app: Treadle, shop: Shop, connection: psycopg.Connection[Any]) -> None:
    @app.job
    async def texts() -> list[str]:
        return ["short", "x" * 3000]

    connection.execute("select set_limit('one', 3, p_per => 'text', p_job_type => 'note')")
    flow = Workflow()
    flow.map(shop.note.call(), over=flow.add(texts.call(), name="texts"), name="notes")
    handle = flow.enqueue()
    shop.run()
    assert handle.steps["texts"].status() == Status.COMPLETED
    with pytest.raises(JobFailed, match="its jobs could not be added: value too long"):
        handle.result(timeout=30)


def test_a_map_that_has_not_begun_is_retried_with_its_workflow(shop: Shop) -> None:
    flow = Workflow()
    found = flow.add(listing(shop.app, [1, 2]).call())
    flow.returns(flow.map(shop.double.call(), over=found))
    handle = flow.enqueue()
    handle.cancel()
    assert handle.retry() == 2
    shop.run()
    assert handle.result(timeout=30) == [2, 4]
