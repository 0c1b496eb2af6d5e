"""The results of chains and groups: their shape, empty groups, and jobs that are added to a group."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.jobs.test_workflows import Shop
from treadle import InvalidArgument, Job, Status, Treadle, UndecodableJob, Workflow, chain, group


@pytest.fixture
def shop(app: Treadle) -> Shop:
    return Shop(app)


def test_nested_shapes_keep_their_shape(shop: Shop) -> None:
    one, double, total = shop.number.call, shop.double.call, shop.total.call
    pair = group(one(1), one(2))
    expected: list[tuple[Any, Any]] = [
        (group(chain(one(1), group(double(), double())), one(3)), [[2, 2], 3]),
        (group(pair, group(pair, one(3)), one(4)), [[1, 2], [[1, 2], 3], 4]),
        (group(pair.then(total()), pair), [3, [1, 2]]),
        (chain(pair, group(total(), group(total(extra=1)))), [3, [4]]),
        (chain(one(1), chain(double(), pair)), [1, 2]),
        (group(one(1)), [1]),
    ]
    for shape, result in expected:
        handle = shape.enqueue()
        shop.run()
        assert handle.result(timeout=30) == result, result
        assert handle.status() == Status.COMPLETED


def test_the_results_of_a_nested_group_are_one_argument(shop: Shop) -> None:
    @shop.app.job
    async def deepest(numbers: list[list[int]]) -> list[list[int]]:
        return numbers

    inner = group(shop.number.call(1), shop.number.call(2))
    handle = group(inner, chain(shop.number.call(3), group(shop.double.call()))).then(deepest.call()).enqueue()
    shop.run()
    assert handle.result(timeout=30) == [[1, 2], [6]]


def test_an_empty_group_is_an_empty_list(shop: Shop) -> None:
    total = shop.total.call(extra=10)
    shapes: list[tuple[Any, Any]] = [
        (group().then(total), 10),
        (chain(shop.number.call(1), group(), total), 10),
        (chain(shop.number.call(1), group()), []),
        (group(group(), shop.number.call(1)), [[], 1]),
        (chain(group(), group(total, total)), [10, 10]),
    ]
    for shape, result in shapes:
        handle = shape.enqueue()
        shop.run()
        assert handle.result(timeout=30) == result
    assert shop.ran.index("number 1") < shop.ran.index("total []", 1)
    with pytest.raises(InvalidArgument, match="no call"):
        group().enqueue()


def test_an_empty_group_waits_for_what_is_before_it(shop: Shop) -> None:
    handle = chain(shop.fail_once.call(), group(), shop.total.call()).enqueue()
    shop.run()
    assert handle.status() == Status.FAILED
    shop.broken = False
    handle.retry()
    shop.run()
    assert handle.result(timeout=30) == 0


def test_jobs_that_are_added_to_a_group_are_in_its_result(shop: Shop) -> None:
    number = shop.number

    @shop.app.job
    async def more(job: Job, first: int = 0) -> int:
        await number.using(workflow=job).aenqueue(5)
        await number.using(workflow=job).aenqueue_many([{"n": 6}, {"n": 7}])
        return first

    @shop.app.job
    async def anything(numbers: list[Any]) -> list[Any]:
        return numbers

    body = anything.call()
    for shape, result in [
        (group(more.call()).then(body), [0, 5, 6, 7]),
        (group(more.call(), number.call(1)).then(body), [0, 1, 5, 6, 7]),
        (group(more.call(), number.call(1)), [0, 1, 5, 6, 7]),
        (group(group(more.call(), number.call(1)), number.call(2)).then(body), [[0, 1, 5, 6, 7], 2]),
        (chain(number.call(4), group(more.call()), body), [4, 5, 6, 7]),
    ]:
        handle: Any = shape.enqueue()
        shop.run()
        assert handle.result(timeout=30) == result
        assert handle.counts().left == 0


def test_jobs_that_are_added_elsewhere_are_in_no_result(shop: Shop) -> None:
    number, total = shop.number, shop.total

    @shop.app.job
    async def more(job: Job, first: int = 0) -> int:
        await number.using(workflow=job).aenqueue(5)
        return first

    flow = Workflow[int]("listed")
    first, second = flow.add(more.call(1)), flow.add(number.call(2))
    flow.returns(flow.add(total.call([first.output, second.output])))
    handle = flow.enqueue()
    shop.run()
    assert handle.result(timeout=30) == 3
    assert handle.counts().completed == 4


def test_the_result_of_a_shape_has_the_types_of_its_functions(app: Treadle, shop: Shop) -> None:
    @dataclass
    class Receipt:
        order: int

    @app.job
    async def pay(order: int) -> Receipt:
        return Receipt(order)

    @app.job
    async def nobody() -> str:
        return "nobody"

    paid = chain(shop.number.call(7), pay.call()).enqueue()
    mixed = group(pay.call(1), nobody.call(), group(pay.call(2))).enqueue()
    flow = Workflow[Receipt]("one")
    flow.returns(flow.add(pay.call(3), name="pay"))
    one = flow.enqueue()
    wrong = group(pay.call(4)).enqueue()
    nobody.using(workflow=wrong.jobs()[0].id).enqueue()
    shop.run()
    assert paid.result(timeout=30) == Receipt(7)
    assert mixed.result(timeout=30) == [Receipt(1), "nobody", [Receipt(2)]]
    assert one.result(timeout=30) == Receipt(3)
    with pytest.raises(UndecodableJob, match="is not what"):
        wrong.result(timeout=30)
