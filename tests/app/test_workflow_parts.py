"""Nested workflows, fan-out over results, error handlers, undoing, progress and pruning."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.app.test_workflows import Shop
from treadle import (
    InvalidArgument,
    InvalidPayload,
    Job,
    JobFailed,
    Limit,
    Status,
    Treadle,
    Workflow,
    chain,
    group,
    if_failed,
    ok_to_fail,
)


@pytest.fixture
def shop(app: Treadle) -> Shop:
    return Shop(app)


# Nested workflows


def test_a_workflow_is_a_step_of_another(shop: Shop) -> None:
    flow = Workflow("whole")
    first = flow.add(shop.number.call(1), name="first")
    inner = Workflow("inner")
    two = inner.add(shop.number.call(2))
    inner.returns(inner.add(shop.double.call(two.output)))
    nested = flow.add(inner, name="nested", after=first)
    flow.returns(flow.add(shop.double.call(nested.output), name="last"))
    handle = flow.enqueue()
    shop.run()
    assert handle.result(timeout=5) == 8
    assert shop.ran == ["number 1", "number 2", "double 2", "double 4"]
    assert [job.name for job in handle.jobs()] == ["nested", "first", "last"]
    assert len(shop.app.workflow(handle.steps["nested"].id).jobs()) == 2
    assert handle.counts() == (False, 3, 3, 0, 0)


def test_shapes_are_steps(shop: Shop) -> None:
    flow = Workflow()
    numbers = flow.add(group(shop.number.call(1), chain(shop.number.call(2), shop.double.call())), name="numbers")
    flow.returns(flow.add(shop.total.call(numbers.output)))
    handle = flow.enqueue()
    shop.run()
    assert handle.result(timeout=5) == 5


def test_a_nested_workflow_that_fails(shop: Shop) -> None:
    inner = Workflow("inner")
    inner.add(shop.fail_once.call())
    inner.add(shop.number.call(1))
    flow = Workflow("outer")
    nested = flow.add(inner, name="nested")
    flow.add(shop.note.call("after"), after=nested)
    flow.add(shop.note.call("mended"), after=if_failed(nested))
    handle = flow.enqueue()
    shop.run()
    assert shop.ran == ["number 1", "mended"]
    with pytest.raises(JobFailed, match="broken"):
        handle.result(timeout=5)
    shop.broken = False
    assert handle.retry() == 1
    shop.run()
    assert handle.status() == Status.COMPLETED
    assert shop.ran == ["number 1", "mended", "after"]


def test_nothing_of_a_nested_workflow_runs_if_what_it_waits_for_fails(shop: Shop) -> None:
    inner = Workflow("inner")
    first = inner.add(shop.number.call(1))
    inner.add(shop.note.call("in any case"), after=ok_to_fail(first))
    inner.add(shop.note.call("if it fails"), after=if_failed(first))
    flow = Workflow("outer")
    flow.add(inner, name="nested", after=flow.add(shop.fail_once.call()))
    handle = flow.enqueue()
    shop.run()
    assert shop.ran == []
    assert handle.steps["nested"].status() == Status.FAILED
    shop.broken = False
    handle.retry()
    shop.run()
    assert shop.ran == ["number 1", "in any case"]
    assert handle.status() == Status.COMPLETED


def test_ways_to_wait_that_are_refused(shop: Shop) -> None:
    flow = Workflow()
    one = flow.add(shop.number.call(1), name="one")
    flow.add(shop.nothing.call(), after=None)
    for after, problem in (
        (5, "a list of them, got 5"),
        ([5], "after must be a step, the name of a step, or a job, got 5"),
        (ok_to_fail(if_failed("one")), "either ok_to_fail"),
    ):
        with pytest.raises(InvalidArgument, match=problem):
            flow.add(shop.nothing.call(), after=after)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="needs a step"):
        flow.returns(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="another workflow"):
        flow.returns(Workflow().add(shop.nothing.call()))
    flow.add(shop.double.call(one.output), after=if_failed(one))
    with pytest.raises(InvalidArgument, match="it has no result"):
        flow.enqueue()
    flow = Workflow()
    found = flow.add(listing(shop.app, [1]).call())
    flow.map(shop.double.call(), over=found, after=if_failed(found))
    with pytest.raises(InvalidArgument, match="another way to wait"):
        flow.enqueue()
    with pytest.raises(InvalidArgument, match="deadline must be longer than 0"):
        Workflow(deadline=0)


def test_nesting_that_is_refused(shop: Shop) -> None:
    inner = Workflow("inner")
    with pytest.raises(InvalidArgument, match="no steps"):
        Workflow().add(inner)
    inner.add(shop.nothing.call())
    Workflow("one").add(inner)
    with pytest.raises(InvalidArgument, match="part of a workflow already"):
        Workflow("two").add(inner)
    with pytest.raises(InvalidArgument, match="is part of one: enqueue that"):
        inner.enqueue()
    own = Workflow("own")
    own.add(shop.nothing.call())
    with pytest.raises(InvalidArgument, match="part of itself"):
        own.add(own)
    late = Workflow("late", deadline="1h")
    late.add(shop.nothing.call())
    with pytest.raises(InvalidArgument, match="only the whole"):
        Workflow().add(late)


# Fan-out over a result


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
    assert handle.result(timeout=5) == 12
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
    assert handle.result(timeout=5) == 0


def test_more_elements_than_are_added_at_once(shop: Shop) -> None:
    flow = Workflow()
    found = flow.add(listing(shop.app, list(range(2345))).call())
    flow.returns(flow.add(shop.total.call(flow.map(shop.double.call(), over=found).output)))
    handle = flow.enqueue()
    shop.run()
    assert handle.result(timeout=5) == 2344 * 2345


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
        handle.result(timeout=5)
    assert shop.ran == []


def test_an_element_that_fails(shop: Shop) -> None:
    flow = Workflow()
    found = flow.add(listing(shop.app, [1, 2]).call())
    flow.add(shop.total.call(flow.map(shop.fail_once.call(), over=found, name="mapped").output))
    handle = flow.enqueue()
    shop.run()
    with pytest.raises(JobFailed, match="broken"):
        handle.result(timeout=5)
    shop.broken = False
    assert handle.retry() == 1  # the workflow that is the fan-out
    shop.run()
    assert handle.status() == Status.COMPLETED
    assert shop.ran == ["total [1, 2]"]


def test_maps_that_are_refused(app: Treadle, shop: Shop) -> None:
    @app.job(limit=Limit(1, per="n"))
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
    @app.job(max_pending=2)
    async def take(n: int) -> int:
        return n

    shop.run()  # so that the limit is known
    flow = Workflow()
    found = flow.add(listing(app, list(range(20))).call())
    flow.returns(flow.map(take.call(), over=found))
    handle = flow.enqueue()
    shop.run()
    assert handle.result(timeout=5) == list(range(20))


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
        handle.result(timeout=5)


def test_a_map_that_has_not_begun_is_retried_with_its_workflow(shop: Shop) -> None:
    flow = Workflow()
    found = flow.add(listing(shop.app, [1, 2]).call())
    flow.returns(flow.map(shop.double.call(), over=found))
    handle = flow.enqueue()
    handle.cancel()
    assert handle.retry() == 2
    shop.run()
    assert handle.result(timeout=5) == [2, 4]


# Jobs that are added by a step


def test_a_step_adds_jobs_to_its_workflow(shop: Shop) -> None:
    @shop.app.job
    def crawl(job: Job, depth: int) -> None:
        if depth:
            crawl.using(workflow=job).enqueue(depth=depth - 1)

    flow = Workflow()
    flow.add(crawl.call(depth=3))
    handle = flow.enqueue()
    shop.run()
    assert handle.status() == Status.COMPLETED
    assert handle.counts() == (False, 4, 4, 0, 0)


# Failures


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
        flow.add(shop.number.call(1), undo=shop.nothing)  # type: ignore[call-overload]
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


# Progress and pruning


def test_progress_by_effort(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    flow = Workflow()
    flow.add(shop.number.call(1), effort=3)
    flow.add(shop.number.using(delay="1h").call(2), effort=1)
    handle = flow.enqueue()
    shop.run()
    connection.execute("update ticks set ticked_at = clock_timestamp()")  # not the one of every 15 seconds
    connection.execute("select tick('0')")
    progress = handle.progress()
    assert (progress.percent, progress.stage) == (75, "1 of 2 jobs")


def test_a_workflow_is_pruned_as_one(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    inner = Workflow("inner")
    inner.add(shop.number.call(1))
    flow = Workflow("outer")
    flow.add(inner)
    for n in range(5):
        flow.add(shop.number.call(n))
    handle = flow.enqueue()
    shop.run()
    prune = "select pruned from prune_jobs('completed', %s, %s)"
    connection.execute("update jobs set finished_at = finished_at - interval '1 hour' where id <> %s", [handle.id])
    assert connection.execute(prune, [timedelta(minutes=1), 100]).fetchone() == (0,)  # its jobs are kept for it
    connection.execute("update jobs set finished_at = finished_at - interval '2 hours'")
    assert connection.execute(prune, [timedelta(minutes=1), 4]).fetchone() == (4,)
    assert handle.status() == Status.COMPLETED
    connection.execute(prune, [timedelta(minutes=1), 100])
    for table in ("jobs", "dependencies", "workflows", "member_changes"):
        assert connection.execute(f"select count(*) from {table}").fetchone() == (0,), table


def test_the_jobs_of_a_deleted_workflow_are_on_their_own(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    flow = Workflow()
    flow.add(shop.number.call(1))
    flow.add(shop.number.using(delay="1h").call(1))
    handle = flow.enqueue()
    connection.execute("delete from jobs where id = %s", [handle.id])
    shop.run()
    connection.execute("update jobs set finished_at = finished_at - interval '2 hours'")
    prune = "select pruned from prune_jobs('completed', %s, %s)"
    assert connection.execute(prune, [timedelta(minutes=1), 100]).fetchone() == (1,)
    for table in ("dependencies", "workflows", "member_changes"):
        assert connection.execute(f"select count(*) from {table}").fetchone() == (0,), table
