"""How percent, stage and pace follow from what a handler says. No database: it is arithmetic."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from treadle import InvalidArgument
from treadle.attempt.progress import Meter


@pytest.fixture
def meter() -> Meter:
    return Meter(lambda: None, lambda: None)


def test_progress_never_goes_back(meter: Meter) -> None:
    meter.set(40, "a", back=False)
    meter.set(30, "b", back=False)
    assert meter.say()[:2] == (40, "b")


def test_progress_goes_back_if_asked(meter: Meter) -> None:
    meter.set(40, None, back=False)
    meter.set(10, None, back=True)
    assert meter.say().percent == 10


@pytest.mark.parametrize("percent", [-1, 101, "40", True, float("nan")])
def test_a_percentage_that_is_none_is_refused(meter: Meter, percent: Any) -> None:
    with pytest.raises(InvalidArgument, match="0 to 100"):
        meter.set(percent, None, back=False)


def test_stages_share_the_whole_by_their_weights(meter: Meter) -> None:
    with meter.stage("loading", 0.2):
        meter.set(50, None, back=False)
        assert meter.say()[:2] == (10, "loading")
    assert meter.say().percent == 20
    with meter.stage("working", None):  # all that is left
        meter.set(50, None, back=False)
        assert meter.say()[:2] == (60, "working")
    assert meter.say().percent == 100


def test_stages_may_be_nested(meter: Meter) -> None:
    with meter.stage("a", 0.5):
        with meter.stage("b", 0.5):
            meter.set(100, None, back=False)
            assert meter.say()[:2] == (25, "a / b")
        with meter.stage("c", 0.5):
            meter.set(50, "word", back=False)
            assert meter.say()[:2] == (37, "a / c / word")
    assert meter.say().percent == 50


def test_stages_that_weigh_more_than_the_whole_end_with_it(meter: Meter) -> None:
    for name in ("a", "b", "c"):
        with meter.stage(name, 0.7):
            meter.set(100, None, back=False)
            assert meter.say().percent <= 100
    assert meter.say().percent == 100


def test_a_stage_that_fails_stays_where_it_was(meter: Meter) -> None:
    with contextlib.suppress(ZeroDivisionError), meter.stage("a", None):
        meter.set(30, None, back=False)
        _ = 1 / 0
    assert meter.say().percent == 30


def test_the_names_of_nested_stages_fit_their_column(meter: Meter) -> None:
    with meter.stage("a" * 90, None), meter.stage("b" * 90, None):
        stage = meter.say().stage or ""
    assert len(stage) == 100
    assert stage.endswith("b" * 90)


@pytest.mark.parametrize("weight", [0, -0.5, 1.5, "half", True])
def test_a_weight_is_a_part_of_the_whole(meter: Meter, weight: Any) -> None:
    with pytest.raises(InvalidArgument, match="weight"), meter.stage("a", weight):
        pass


def test_items_are_counted_when_they_are_done(meter: Meter) -> None:
    seen = [
        (item, meter.say().percent, json.loads(meter.say().pace or "{}")["done"])
        for item in meter.track(["a", "b", "c", "d"], None, "copying", None, 0)
    ]
    assert seen == [("a", 0, 0), ("b", 25, 1), ("c", 50, 2), ("d", 75, 3)]
    said = meter.say()
    assert said[:2] == (100, "copying")
    assert json.loads(said.pace or "{}")["done"] == 4


def test_rate_and_time_left_follow_from_the_count(meter: Meter, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    items = meter.track(range(100), None, None, None, 0)
    for _ in range(21):
        next(items)
    clock += 2
    assert json.loads(meter.say().pace or "{}") == {"done": 20, "total": 100, "rate": 10.0, "left": 8.0}


def test_the_rate_is_that_of_the_last_seconds(meter: Meter, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    items = meter.track(iter(int, 1), None, None, None, 0)
    for pace in (100, 100, 1, 1, 1):  # items in five seconds each
        for _ in range(pace):
            next(items)
        clock += 5
        said = json.loads(meter.say().pace or "{}")
    assert said["rate"] == pytest.approx(0.2)
    assert said["left"] is None


def test_a_total_that_is_unknown_leaves_the_percentage(meter: Meter) -> None:
    meter.set(10, None, back=False)
    for _ in meter.track(iter("abc"), None, None, None, 0):
        pass
    assert json.loads(meter.say().pace or "{}")["done"] == 3
    items = meter.track(iter("abc"), None, None, None, 0)
    next(items), next(items)
    assert json.loads(meter.say().pace or "{}")["total"] is None


def test_what_an_earlier_attempt_did_counts(meter: Meter) -> None:
    items = meter.track(range(50), 100, None, None, 50)
    next(items)
    assert meter.say().percent == 50
    assert meter.track(range(50), None, None, None, 50) is not None  # 50 and 50: a total of 100
    next(items)
    assert meter.say().percent == 51


@pytest.mark.parametrize(("total", "done"), [(-1, 0), ("9", 0), (9, -1), (True, 0)])
def test_a_total_is_a_number_of_items(meter: Meter, total: Any, done: Any) -> None:
    with pytest.raises(InvalidArgument, match="number of items"):
        next(iter(meter.track([1], total, None, None, done)))


def test_async_items_are_counted_too(meter: Meter) -> None:
    async def numbers() -> AsyncIterator[int]:
        for n in range(4):
            yield n

    async def scene() -> list[int]:
        return [meter.say().percent async for _ in meter.atrack(numbers(), 4, None, None, 0)]

    assert asyncio.run(scene()) == [0, 25, 50, 75]


def test_more_items_than_promised_do_not_pass_the_end(meter: Meter) -> None:
    for _ in meter.track(iter(range(10)), 5, None, 0.5, 0):
        assert meter.say().percent <= 50


def test_a_track_that_is_left_early_does_not_enclose_what_comes_after(meter: Meter) -> None:
    for n in meter.track(range(10), None, "looking", 0.3, 0):
        if n == 5:
            break
    with meter.stage("working", 0.5):
        assert meter.say().stage == "working"
    meter.set(100, None, back=False)
    assert meter.say().percent == 100


def test_a_stage_that_failed_does_not_enclose_what_comes_after(meter: Meter) -> None:
    with contextlib.suppress(ZeroDivisionError), meter.stage("trying", 0.3):
        _ = 1 / 0
    with meter.stage("working", None):
        assert meter.say().stage == "working"
    assert meter.say().percent == 100


def test_an_abandoned_async_track_does_not_stop_the_count_of_the_next(meter: Meter) -> None:
    async def numbers() -> AsyncIterator[int]:
        for n in range(10):
            yield n

    async def body() -> None:
        async for _ in meter.atrack(numbers(), 10, None, None, 0):
            break
        async for n in meter.atrack(numbers(), 10, None, None, 0):
            await asyncio.sleep(0)
            if n == 8:
                assert json.loads(meter.say().pace or "{}")["done"] == 8

    asyncio.run(body())


def test_a_stage_inside_a_tracked_loop_is_a_part_of_its_item(meter: Meter) -> None:
    for n in meter.track(range(10), None, None, None, 0):
        with meter.stage("unpacking", None):
            pass
        if n == 0:
            assert meter.say().percent <= 10
