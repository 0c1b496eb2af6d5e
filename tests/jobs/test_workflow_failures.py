"""What happens if a step of a workflow fails: error handlers, undoing, callbacks."""

import pytest

from tests.jobs.test_workflows import Shop
from treadle import (
    InvalidArgument,
    Status,
    Treadle,
    Workflow,
    if_failed,
)


@pytest.fixture
def shop(app: Treadle) -> Shop:
    return Shop(app)


def test_an_error_handler_runs_only_if_it_is_needed(shop: Shop) -> None:
    flow = Workflow()
    works = flow.add(shop.number.call(1))
    handler = flow.add(shop.note.call("works failed"), after=if_failed(works), name="handler")
    flow.add(shop.note.call("after the handler"), after=handler, name="after")
    flow.add(shop.number.call(2), after=works)
    handle = flow.enqueue()
    shop.run()
    assert shop.ran == ["number 1", "number 2"]
    assert handle.status() == Status.COMPLETED  # what was not needed does not make it fail
    assert handle.counts() == (False, 4, 4, 0, 0)
    assert str(handle.steps["handler"].job().last_error).startswith("not needed: job ")
    assert str(handle.steps["after"].job().last_error).startswith("not needed: job ")


def test_a_nested_workflow_that_is_not_needed(shop: Shop) -> None:
    mending = Workflow("mending")
    one = mending.add(shop.note.call("mend"))
    mending.add(shop.note.call("clean up"), after=one)
    flow = Workflow()
    works = flow.add(shop.number.call(1))
    mended = flow.add(mending, name="mended", after=if_failed(works))
    flow.add(shop.note.call("after mending"), after=mended, name="after")
    handle = flow.enqueue()
    shop.run()
    assert shop.ran == ["number 1"]
    assert handle.status() == Status.COMPLETED
    assert {handle.steps[name].status() for name in ("mended", "after")} == {Status.CANCELLED}
    assert str(handle.steps["mended"].job().last_error).startswith("not needed: job ")


def test_an_error_handler_of_a_job_without_a_workflow(shop: Shop) -> None:
    failing, working = shop.fail_once.enqueue(), shop.number.enqueue(1)
    shop.note.using(after=if_failed(failing)).enqueue("it failed")
    unneeded = shop.note.using(after=if_failed(working)).enqueue("it worked")
    shop.run()
    assert shop.ran == ["number 1", "it failed"]
    assert unneeded.status() == Status.CANCELLED
    with pytest.raises(InvalidArgument, match="cannot be used with"):
        shop.total.using(after=if_failed(working)).enqueue([working.output])


def order(shop: Shop) -> Workflow:
    flow = Workflow("order 7")
    one = flow.add(shop.number.call(1), undo=shop.note.using(priority=200).call("undo 1"))
    two = flow.add(shop.number.call(2), undo=shop.double.call(), after=one)
    flow.add(shop.fail_once.call(), undo=shop.note.call("undo fail_once"), after=two)
    flow.add(shop.number.call(3), undo=shop.note.call("undo 3"), after=two)
    return flow


def test_completed_steps_are_undone_in_reverse_order(shop: Shop) -> None:
    handle = order(shop).enqueue()
    shop.run()
    assert handle.status() == Status.FAILED
    assert shop.ran == ["number 1", "number 2", "number 3", "undo 3", "double 2", "undo 1"]


def test_nothing_is_undone_if_all_completed(shop: Shop) -> None:
    shop.broken = False
    handle = order(shop).enqueue()
    shop.run()
    assert handle.status() == Status.COMPLETED
    assert shop.ran == ["number 1", "number 2", "number 3"]
    assert {job.status for job in shop.app.queue.list().jobs} == {Status.COMPLETED}


def test_what_was_done_is_undone_if_the_workflow_is_cancelled(shop: Shop) -> None:
    flow = Workflow("order 7")
    one = flow.add(shop.number.call(1), undo=shop.note.call("undo 1"))
    flow.add(shop.number.using(delay="1h").call(2), undo=shop.note.call("undo 2"), after=one)
    handle = flow.enqueue()
    shop.run()
    handle.cancel()
    shop.run()
    assert shop.ran == ["number 1", "undo 1"]


def test_undo_that_is_refused(shop: Shop) -> None:
    flow = Workflow()
    with pytest.raises(InvalidArgument, match="undo must be a call"):
        flow.add(shop.number.call(1), undo=shop.nothing)  # type: ignore[arg-type]
    one = flow.add(shop.number.call(1))
    flow.add(shop.number.call(1), undo=shop.double.call(one.output))
    with pytest.raises(InvalidArgument, match="only use the result of its own step"):
        flow.enqueue()


def test_callbacks_of_a_workflow(shop: Shop) -> None:
    flow = Workflow(on_success=shop.note.call("success"), on_failure=shop.note.call("failure"))
    flow.add(shop.fail_once.call())
    handle = flow.enqueue()
    shop.run()
    assert shop.ran == ["failure"]
    shop.broken = False
    handle.retry()
    shop.run()
    assert shop.ran == ["failure", "success"]
