"""Steps that wait for a signal."""

import asyncio
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from pydantic import BaseModel

from tests.jobs.test_workflows import Shop
from tests.support.workers import running_worker
from treadle import (
    InvalidArgument,
    JobFailed,
    Status,
    Treadle,
    UnknownSignal,
    Workflow,
    WorkflowHandle,
    ok_to_fail,
    wait_for_signal,
)
from treadle.worker import maintenance


class Approval(BaseModel):
    by: str


@pytest.fixture
def shop(app: Treadle) -> Shop:
    return Shop(app)


def approved(shop: Shop, timeout: str | None = None) -> WorkflowHandle:
    @shop.app.job
    async def publish(approval: Approval) -> str:
        return f"approved by {approval.by}"

    flow = Workflow("article 7")
    draft = flow.add(shop.number.call(7), name="draft")
    approval = flow.add(wait_for_signal("approved", Approval, timeout=timeout), name="approval", after=draft)
    flow.returns(flow.add(publish.call(approval.output), name="publish"))
    return flow.enqueue()


def test_a_signal_while_the_step_waits(shop: Shop) -> None:
    handle = approved(shop)
    shop.run()
    assert shop.ran == ["number 7"]
    reason = handle.steps["approval"].why()
    assert (reason.name, reason.data["signal"]) == ("waiting_for_signal", "approved")
    assert handle.signal("approved", by="ann")
    assert not handle.signal("approved", by="bob")
    shop.run()
    assert handle.result(timeout=30) == "approved by ann"
    assert not handle.signal("approved", by="bob")


def test_a_signal_before_the_step_begins_to_wait(shop: Shop) -> None:
    handle = approved(shop)
    assert handle.signal("approved", by="ann")
    assert not handle.signal("approved", by="bob")
    assert handle.steps["approval"].status() == Status.PENDING
    shop.run()
    assert handle.result(timeout=30) == "approved by ann"


def test_a_signal_that_does_not_come(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    handle = approved(shop, timeout="2d")
    shop.run()
    step = handle.steps["approval"]
    left = connection.execute("select expires_at - clock_timestamp() from jobs where id = %s", [step.id]).fetchone()
    assert left is not None
    assert 47 < left[0].total_seconds() / 3600 <= 48
    connection.execute("update jobs set expires_at = clock_timestamp() where id = %s", [step.id])
    assert not handle.signal("approved", by="ann")  # too late, though nobody has noticed before
    assert step.status() == Status.FAILED
    assert "the signal approved did not come before" in str(step.job().last_error)
    with pytest.raises(JobFailed, match="did not come"):
        handle.result(timeout=30)
    assert handle.steps["publish"].status() == Status.CANCELLED


def test_workers_notice_that_a_signal_did_not_come(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "EXPIRE_EVERY", 0.1)
    flow = Workflow()
    waited = flow.add(wait_for_signal("never", timeout=0.3))
    flow.add(shop.note.call("late"), after=ok_to_fail(waited))
    handle = flow.enqueue()

    async def scenario() -> None:
        async with running_worker(shop.app, concurrency=1):
            with pytest.raises(JobFailed):
                await handle.aresult(timeout=15)

    asyncio.run(scenario())
    assert shop.ran == ["late"]


def test_a_signal_for_a_nested_workflow_and_one_without_a_value(shop: Shop) -> None:
    inner = Workflow("inner")
    inner.add(wait_for_signal("go"), name="go")
    flow = Workflow("outer")
    nested = flow.add(inner)
    flow.add(shop.note.call("gone"), after=nested)
    handle = flow.enqueue()
    shop.run()
    assert shop.ran == []
    assert handle.signal("go")
    shop.run()
    assert handle.status() == Status.COMPLETED
    assert shop.ran == ["gone"]


def test_signals_from_sql(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    handle = approved(shop)
    shop.run()
    send = "select send_signal(%s, %s, %s::jsonb)"
    step = handle.steps["approval"]
    assert connection.execute(send, [handle.id, "other", None]).fetchone() == ("unknown",)
    assert connection.execute(send, [step.id, "approved", '{"by": "ann"}']).fetchone() == ("taken",)
    assert connection.execute(send, [step.id, "approved", '{"by": "bob"}']).fetchone() == ("too late",)
    shop.run()
    assert handle.result(timeout=30) == "approved by ann"


def test_a_workflow_that_was_cancelled_takes_no_signal(shop: Shop) -> None:
    handle = approved(shop)
    shop.run()
    handle.cancel("changed my mind")
    assert not handle.signal("approved", by="ann")
    assert handle.steps["approval"].status() == Status.CANCELLED


def test_a_step_that_is_retried_has_its_time_again(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    handle = approved(shop, timeout="2d")
    shop.run()
    step = handle.steps["approval"]
    connection.execute("update jobs set expires_at = clock_timestamp() where id = %s", [step.id])
    assert not handle.signal("approved", by="ann")
    assert handle.retry() == 1
    row = connection.execute("select expires_at > now() + interval '1 day' from jobs where id = %s", [step.id])
    assert row.fetchone() == (True,)
    assert handle.signal("approved", by="ann")
    shop.run()
    assert handle.result(timeout=30) == "approved by ann"


def test_what_is_refused(shop: Shop) -> None:
    handle = approved(shop)
    with pytest.raises(UnknownSignal, match=r"no step of workflow .* waits for the signal 'aproved'"):
        handle.signal("aproved")
    with pytest.raises(UnknownSignal):
        shop.app.workflow(uuid4()).signal("approved")
    with pytest.raises(InvalidArgument, match="not both"):
        handle.signal("approved", 1, by="ann")
    flow = Workflow()
    flow.add(wait_for_signal("approved"))
    with pytest.raises(InvalidArgument, match="two steps that wait for the signal 'approved'"):
        flow.add(wait_for_signal("approved"))
    with pytest.raises(InvalidArgument, match="has no call"):
        flow.enqueue()
