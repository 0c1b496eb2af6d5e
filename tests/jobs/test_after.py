"""Jobs that wait for others, as an application uses them: after=, handle.output, and what is checked at once."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from tests.support.workers import drain
from treadle import (
    InvalidArgument,
    InvalidPayload,
    Job,
    JobCancelled,
    JobFailed,
    Limit,
    Once,
    Retries,
    Status,
    Treadle,
    Workflow,
    if_failed,
    ok_to_fail,
)
from treadle.jobs.outputs import fits


class Receipt(BaseModel):
    order: int
    paid: bool = True


@pytest.fixture
def shop(app: Treadle) -> Treadle:
    @app.job
    async def pay(order: int) -> Receipt:
        if order < 0:
            raise ValueError("card declined")
        return Receipt(order=order)

    @app.job
    async def weigh(order: int) -> float:
        return order / 2

    @app.job
    async def ship(receipt: Receipt, weight: float = 0.0, note: str = "") -> str:
        return f"order {receipt.order}, {weight:g} kg{note}"

    @app.job
    async def total(weights: list[float], job: Job) -> float:
        return sum(weights)

    @app.job
    async def tidy_up() -> None: ...

    return app


def jobs(app: Treadle) -> dict[str, Any]:
    return {name: app.function(name) for name in app.job_types}


def test_the_result_of_one_job_is_an_argument_of_another(shop: Treadle) -> None:
    j = jobs(shop)
    pay = j["pay"].using(retry=Retries(0)).enqueue(order=7)
    weigh = j["weigh"].enqueue(order=7)
    ship = j["ship"].enqueue(pay.output, weight=weigh.output, note="!")
    drain(shop)
    assert ship.result(timeout=30) == "order 7, 3.5 kg!"


def test_results_of_several_jobs_are_a_list(shop: Treadle) -> None:
    j = jobs(shop)
    weights = [j["weigh"].enqueue(order=n) for n in range(5)]
    total = j["total"].enqueue(weights=[each.output for each in weights])
    drain(shop)
    assert total.result(timeout=30) == sum(n / 2 for n in range(5))


def test_what_comes_after_a_failure_is_cancelled(shop: Treadle) -> None:
    j = jobs(shop)
    pay = j["pay"].using(retry=Retries(0)).enqueue(order=-1)
    ship = j["ship"].enqueue(receipt=pay.output)
    tidy = j["tidy_up"].using(after=[ok_to_fail(ship)]).enqueue()
    drain(shop)
    with pytest.raises(JobFailed):
        pay.result(timeout=30)
    with pytest.raises(
        JobCancelled, match=f"job {pay.id} .pay., which it waits for, failed: ValueError: card declined"
    ):
        ship.result(timeout=30)
    assert tidy.status() == Status.COMPLETED


@pytest.mark.parametrize("how", ["handle", "id", "text", "row"])
def test_after_takes_handles_ids_and_rows(shop: Treadle, how: str) -> None:
    j = jobs(shop)
    weigh = j["weigh"].enqueue(order=1)
    given: Any = {"handle": weigh, "id": weigh.id, "text": str(weigh.id), "row": weigh.job()}[how]
    tidy = j["tidy_up"].using(after=given).enqueue()
    assert tidy.why().name == "waiting_for_jobs"
    drain(shop)
    assert tidy.status() == Status.COMPLETED


def test_an_argument_that_does_not_fit_is_refused_when_it_is_enqueued(shop: Treadle) -> None:
    j = jobs(shop)
    weigh = j["weigh"].enqueue(order=1)
    with pytest.raises(InvalidPayload, match=r"receipt: it gets the result of another job, which is float"):
        j["ship"].enqueue(receipt=weigh.output)
    with pytest.raises(InvalidPayload, match="order"):
        j["ship"].enqueue(receipt=j["pay"].enqueue(order=1).output, order=7)
    with pytest.raises(InvalidPayload, match="weight"):
        j["ship"].enqueue(receipt=j["pay"].enqueue(order=1).output, weight="heavy")


def test_a_limit_needs_its_argument_at_once(app: Treadle) -> None:
    @app.job(limits=Limit(1, per="tenant"))
    async def sync(tenant: str) -> str:
        return tenant

    first = sync.enqueue("acme")
    with pytest.raises(InvalidArgument, match="tenant is the result of another job"):
        sync.enqueue(first.output)


@pytest.mark.parametrize("unique", [Once(), Once("receipt")])
def test_a_unique_job_needs_its_arguments_at_once(shop: Treadle, unique: Any) -> None:
    j = jobs(shop)
    pay = j["pay"].enqueue(order=7)
    with pytest.raises(InvalidArgument, match="receipt is the result of another job, but unique needs its value"):
        j["ship"].using(unique=unique).enqueue(receipt=pay.output)
    assert j["ship"].using(unique=Once("note")).enqueue(receipt=pay.output, note="!").is_new
    assert not j["ship"].using(unique=Once("note")).enqueue(receipt=pay.output, note="!").is_new


def test_many_jobs_cannot_take_results(shop: Treadle) -> None:
    j = jobs(shop)
    weigh = j["weigh"].enqueue(order=1)
    with pytest.raises(InvalidArgument, match="enqueue_many"):
        j["ship"].enqueue_many([{"receipt": weigh.output}])
    many = j["tidy_up"].using(after=weigh).enqueue_many([{}, {}])
    assert [each.why().data["waits_for"] for each in many] == [weigh.id] * 2


def test_why_names_the_job_and_what_it_waits_for(shop: Treadle) -> None:
    j = jobs(shop)
    first = [j["weigh"].using(delay="1h").enqueue(order=n) for n in range(3)]
    tidy = j["tidy_up"].using(after=first).enqueue()
    reason = tidy.why()
    assert reason.sentence.startswith(f"The job waits for job {first[0].id}, which is due in ")
    assert reason.sentence.endswith(", and for 2 others.")
    assert reason.data == {"waits_for": first[0].id, "reason": "due_later", "others": 2}


@dataclass
class Point:
    x: int


class Subclass(Receipt): ...


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        (int, int, True),
        (int, float, True),
        (int, str, False),
        (str, int, False),
        (datetime, str, True),
        (UUID, datetime, True),  # both are text: the worker checks it
        (int | None, int | None, True),
        (int | None, int, False),
        (int, int | str, True),
        (Any, int, True),
        (list[int], list[int], True),
        (list[int], list[str], False),
        (list[int], set[int], True),
        (dict[str, int], dict[str, str], False),
        (dict, Receipt, True),
        (Receipt, Receipt, True),
        (Subclass, Receipt, True),
        (Receipt, Subclass, False),
        (Receipt, Point, False),
        (None, int, False),
        (bool, int, False),
    ],
)
def test_which_results_fit(given: Any, wanted: Any, expected: bool) -> None:
    assert fits(given, wanted) == expected


def test_of_several_conditions_for_one_job_the_strictest_holds(shop: Treadle) -> None:
    j = jobs(shop)
    pay = j["pay"].using(retry=Retries(0)).enqueue(order=-1)
    both = [j["tidy_up"].using(after=after).enqueue() for after in ([pay, ok_to_fail(pay)], [ok_to_fail(pay), pay])]
    flow = Workflow("order")
    step = flow.add(j["pay"].using(retry=Retries(0)).call(order=-1))
    tidy = flow.add(j["tidy_up"].call(), after=[ok_to_fail(step), step], name="tidy")
    made = flow.enqueue()
    drain(shop)
    assert [each.status() for each in both] == [Status.CANCELLED] * 2
    assert {each.name: each.status for each in made.jobs()}[tidy.name] == Status.CANCELLED
    with pytest.raises(InvalidArgument, match="cannot be used with another way to wait for it"):
        j["tidy_up"].using(after=[pay, if_failed(pay)]).enqueue()
