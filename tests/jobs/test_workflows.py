"""Workflows: chain(), group() and Workflow, as an application uses them."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.support.workers import drain
from treadle import (
    InvalidArgument,
    InvalidJob,
    InvalidPayload,
    JobCancelled,
    JobFailed,
    JobNotFound,
    Once,
    Retries,
    Status,
    Stored,
    StoredNotFound,
    Treadle,
    Workflow,
    chain,
    group,
    ok_to_fail,
)


class Shop:
    """Job functions; `ran` has the order in which they ran."""

    def __init__(self, app: Treadle) -> None:
        self.app = app
        self.ran: list[str] = []
        self.broken = True

        @app.job
        async def number(n: int) -> int:
            self.ran.append(f"number {n}")
            return n

        @app.job
        async def double(n: int) -> int:
            self.ran.append(f"double {n}")
            return 2 * n

        @app.job
        async def total(numbers: list[int], extra: int = 0) -> int:
            self.ran.append(f"total {numbers}")
            return sum(numbers) + extra

        @app.job(retry=Retries(0))
        async def fail_once(n: int = 0) -> int:
            if self.broken:
                raise ValueError("broken")
            return n

        @app.job
        async def note(text: str) -> None:
            self.ran.append(text)

        @app.job
        async def nothing() -> None:
            self.ran.append("nothing")

        self.number, self.double, self.total = number, double, total
        self.fail_once, self.note, self.nothing = fail_once, note, nothing

    def run(self) -> None:
        drain(self.app, concurrency=1)


@pytest.fixture
def shop(app: Treadle) -> Shop:
    return Shop(app)


def test_a_chain_hands_on_results(shop: Shop) -> None:
    handle = chain(shop.number.call(3), shop.double.call(), shop.double.call()).enqueue()
    assert handle.why().name == "waiting_for_jobs"
    assert handle.why().also == ()  # no worker runs a workflow, so it does not matter which are alive
    shop.run()
    assert handle.result(timeout=30) == 12
    assert shop.ran == ["number 3", "double 3", "double 6"]
    assert handle.status() == Status.COMPLETED
    assert [each.status for each in handle.jobs()] == ["completed"] * 3


def test_a_chain_of_jobs_without_arguments(shop: Shop) -> None:
    handle = chain(shop.number.call(1), shop.nothing.call(), shop.note.call(text="given")).enqueue("three")
    shop.run()
    assert handle.result(timeout=30) is None
    assert shop.ran == ["number 1", "nothing", "given"]
    assert handle.job().data["name"] == "three"


def test_a_group_returns_a_list(shop: Shop) -> None:
    handle = group(*(shop.number.call(n) for n in range(4))).enqueue()
    shop.run()
    assert handle.result(timeout=30) == [0, 1, 2, 3]


def test_a_group_with_a_callback(shop: Shop) -> None:
    handle = (
        group(shop.number.call(1), chain(shop.number.call(2), shop.double.call()))
        .then(shop.total.call(extra=10))
        .enqueue()
    )
    shop.run()
    assert handle.result(timeout=30) == 15
    assert shop.ran[-1] == "total [1, 4]"


def test_shapes_in_a_chain(shop: Shop) -> None:
    handle = chain(
        shop.number.call(1), group(shop.double.call(), shop.double.call()), shop.total.call(), shop.double.call()
    ).enqueue()
    shop.run()
    assert handle.result(timeout=30) == 8


def test_a_workflow_of_any_shape(shop: Shop) -> None:
    flow = Workflow("order 7")
    one = flow.add(shop.number.call(1), name="one")
    two = flow.add(shop.number.call(2))
    both = flow.add(shop.total.call([one.output, two.output]), name="both")
    flow.add(shop.note.using(priority=150).call("at last"), after=[both, "three"])
    flow.add(shop.number.call(3), name="three", after=one)
    flow.returns(both)
    handle = flow.enqueue()
    shop.run()
    assert handle.result(timeout=30) == 3
    assert handle.steps["both"].result(timeout=30) == 3
    assert shop.ran[-1] == "at last"
    assert {each.name for each in handle.jobs()} == {"one", "both", "three", None}


def test_a_workflow_can_be_enqueued_again(shop: Shop) -> None:
    flow = Workflow()
    one = flow.add(shop.number.call(1))
    flow.returns(flow.add(shop.double.call(one.output), after=one))
    handles = [flow.enqueue(), flow.enqueue()]
    shop.run()
    assert [handle.result(timeout=30) for handle in handles] == [2, 2]


def test_a_failure_stops_the_rest_and_a_retry_makes_it_go_on(shop: Shop) -> None:
    handle = chain(shop.number.call(1), shop.fail_once.call(), shop.double.call()).enqueue()
    shop.run()
    with pytest.raises(JobFailed, match=r"\(fail_once\) failed: ValueError: broken"):
        handle.result(timeout=30)
    assert [each.status for each in handle.jobs()] == ["completed", "failed", "cancelled"]
    shop.broken = False
    assert handle.retry() == 1
    assert handle.status() == Status.PENDING
    shop.run()
    assert handle.result(timeout=30) == 2


def test_a_step_that_may_fail(shop: Shop) -> None:
    flow = Workflow()
    broken = flow.add(shop.fail_once.call(), name="broken")
    flow.add(shop.note.call("anyway"), after=ok_to_fail(broken))
    flow.add(shop.note.call("by name"), after=[ok_to_fail("broken")])
    handle = flow.enqueue()
    shop.run()
    assert sorted(shop.ran) == ["anyway", "by name"]
    assert handle.status() == Status.FAILED


def test_a_workflow_is_cancelled_as_a_whole(shop: Shop) -> None:
    handle = chain(shop.number.call(1), group(shop.double.call(), shop.double.call())).enqueue()
    handle.cancel("not needed")
    assert [each.status for each in handle.jobs()] == ["cancelled"] * 3
    with pytest.raises(JobCancelled, match="not needed"):
        handle.result(timeout=30)
    assert handle.retry() == 3
    shop.run()
    assert handle.result(timeout=30) == [2, 2]


def test_operators_cancel_and_retry_a_workflow_like_a_job(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    handle = chain(shop.number.call(1), shop.double.call()).enqueue()
    connection.execute("select operate('cancel', %s)", [[handle.id]])
    assert [each.status for each in handle.jobs()] == ["cancelled"] * 2
    connection.execute("select operate('retry', %s)", [[handle.id]])
    shop.run()
    assert handle.result(timeout=30) == 2


def test_a_job_after_a_workflow(shop: Shop) -> None:
    handle = chain(shop.number.call(1), shop.double.call()).enqueue()
    shop.note.using(after=handle).enqueue("after it")
    shop.run()
    assert shop.ran == ["number 1", "double 1", "after it"]


def test_a_workflow_in_the_transaction_of_the_caller(shop: Shop, url: str) -> None:
    with psycopg.connect(url) as connection:
        handle = chain(shop.number.call(1), shop.double.call()).enqueue(connection=connection)
        connection.rollback()
    with pytest.raises(JobNotFound):
        handle.job()
    with psycopg.connect(url) as connection:
        handle = chain(shop.number.call(1), shop.double.call()).enqueue(connection=connection)
    shop.run()
    assert handle.result(timeout=30) == 2


def test_async(shop: Shop) -> None:
    async def use() -> None:
        handle = await chain(shop.number.call(1), shop.double.call()).aenqueue()
        assert len(await handle.ajobs()) == 2
        await handle.acancel()
        assert await handle.aretry() == 2
        await shop.app.aclose()

    asyncio.run(use())


def test_many_steps_are_one_statement_for_each_kind(shop: Shop) -> None:
    handle = group(*(shop.number.call(n) for n in range(2000))).then(shop.total.call()).enqueue()
    assert len(handle.jobs()) == 2001


def test_steps_take_and_return_stored_values(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    app = shop.app

    @app.job
    async def copy(value: Stored) -> Stored:
        return value

    stored = app.store(b"content", name="a.txt")
    handle = chain(copy.call(stored), copy.call()).enqueue()
    shop.run()
    assert handle.result(timeout=30).name == "a.txt"
    uses = connection.execute("select job_id from stored_uses").fetchall()
    assert {job_id for (job_id,) in uses} == {handle.id, *(each.id for each in handle.jobs())}
    missing = replace(stored, id=uuid4())
    with pytest.raises(StoredNotFound):
        chain(copy.call(missing)).enqueue()


def test_circles_are_refused_with_their_path(shop: Shop) -> None:
    flow = Workflow("order 7")
    flow.add(shop.nothing.call(), name="a", after="c")
    flow.add(shop.nothing.call(), name="b", after="a")
    flow.add(shop.nothing.call(), name="c", after="b")
    with pytest.raises(InvalidArgument, match="steps of order 7 wait for each other: a after c after b after a"):
        flow.enqueue()


def test_unknown_names_are_refused(shop: Shop) -> None:
    flow = Workflow("order 7")
    flow.add(shop.nothing.call(), name="a", after="other")
    with pytest.raises(InvalidArgument, match=r"step a of order 7> waits for 'other'.*there are: a"):
        flow.enqueue()


def test_what_does_not_fit_is_refused(shop: Shop) -> None:
    with pytest.raises(InvalidPayload, match=r"text: it gets the result of another job, which is int"):
        chain(shop.number.call(1), shop.note.call()).enqueue()
    flow = Workflow()
    flow.add(shop.nothing.call(), name="a")
    with pytest.raises(InvalidArgument, match="two steps called 'a'"):
        flow.add(shop.nothing.call(), name="a")
    with pytest.raises(InvalidArgument, match="no steps"):
        Workflow().enqueue()
    with pytest.raises(InvalidArgument, match="a step must be a call"):
        Workflow().add(shop.nothing)  # type: ignore[arg-type]
    other = Workflow()
    other.add(shop.double.call(Workflow().add(shop.number.call(1)).output))
    with pytest.raises(InvalidArgument, match="another workflow"):
        other.enqueue()
    with pytest.raises(InvalidArgument, match="not enqueued yet"):
        shop.double.enqueue(Workflow().add(shop.number.call(1)).output)
    with pytest.raises(InvalidArgument, match="cannot be unique"):
        chain(shop.number.using(unique=Once()).call(1)).enqueue()
    with pytest.raises(InvalidArgument, match="at least one"):
        chain()
    with pytest.raises(InvalidArgument, match="consists of calls"):
        group(shop.number)  # type: ignore[call-overload]


def test_a_job_that_does_not_exist_is_refused(shop: Shop) -> None:
    flow = Workflow()
    flow.add(shop.nothing.call(), after="01a1ea9b-5ba5-79ab-ab8f-1883790b8373")
    with pytest.raises(JobNotFound):
        flow.enqueue()
    assert sum(shop.app.queue.counts().values()) == 0


@pytest.mark.parametrize("name", ["workflow", "signal"])
def test_types_of_treadles_own_jobs_are_refused(app: Treadle, name: str) -> None:
    with pytest.raises(InvalidJob, match="Treadle's own jobs"):
        app.job(name=name)(lambda: None)
    with pytest.raises(InvalidJob, match="Treadle's own jobs"):
        app.job(name="other", aliases=[name])(lambda: None)
