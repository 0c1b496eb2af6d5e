"""The arithmetic of progress: percentage, stage, rate and time left. No database."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from treadle import InvalidArgument
from treadle.attempt.progress import ProgressTracker


@pytest.fixture
def tracker() -> ProgressTracker:
    return ProgressTracker(lambda: None, lambda: None)


def test_progress_never_goes_back(tracker: ProgressTracker) -> None:
    tracker.set(40, "a", back=False)
    tracker.set(30, "b", back=False)
    assert tracker.report()[:2] == (40, "b")


def test_progress_goes_back_if_asked(tracker: ProgressTracker) -> None:
    tracker.set(40, None, back=False)
    tracker.set(10, None, back=True)
    assert tracker.report().percent == 10


@pytest.mark.parametrize("percent", [-1, 101, "40", True, float("nan")])
def test_an_invalid_percentage_is_refused(tracker: ProgressTracker, percent: Any) -> None:
    with pytest.raises(InvalidArgument, match="0 to 100"):
        tracker.set(percent, None, back=False)


def test_stages_share_the_whole_by_their_weights(tracker: ProgressTracker) -> None:
    with tracker.stage("loading", 0.2):
        tracker.set(50, None, back=False)
        assert tracker.report()[:2] == (10, "loading")
    assert tracker.report().percent == 20
    with tracker.stage("working", None):  # all that is left
        tracker.set(50, None, back=False)
        assert tracker.report()[:2] == (60, "working")
    assert tracker.report().percent == 100


def test_stages_may_be_nested(tracker: ProgressTracker) -> None:
    with tracker.stage("a", 0.5):
        with tracker.stage("b", 0.5):
            tracker.set(100, None, back=False)
            assert tracker.report()[:2] == (25, "a / b")
        with tracker.stage("c", 0.5):
            tracker.set(50, "word", back=False)
            assert tracker.report()[:2] == (37, "a / c / word")
    assert tracker.report().percent == 50


def test_stages_that_weigh_more_than_the_whole_end_with_it(tracker: ProgressTracker) -> None:
    for name in ("a", "b", "c"):
        with tracker.stage(name, 0.7):
            tracker.set(100, None, back=False)
            assert tracker.report().percent <= 100
    assert tracker.report().percent == 100


def test_a_stage_that_fails_stays_where_it_was(tracker: ProgressTracker) -> None:
    with contextlib.suppress(ZeroDivisionError), tracker.stage("a", None):
        tracker.set(30, None, back=False)
        _ = 1 / 0
    assert tracker.report().percent == 30


def test_the_names_of_nested_stages_fit_their_column(tracker: ProgressTracker) -> None:
    with tracker.stage("a" * 90, None), tracker.stage("b" * 90, None):
        stage = tracker.report().stage or ""
    assert len(stage) == 100
    assert stage.endswith("b" * 90)


@pytest.mark.parametrize("weight", [0, -0.5, 1.5, "half", True])
def test_a_weight_is_a_part_of_the_whole(tracker: ProgressTracker, weight: Any) -> None:
    with pytest.raises(InvalidArgument, match="weight"), tracker.stage("a", weight):
        pass


def test_items_are_counted_when_they_are_done(tracker: ProgressTracker) -> None:
    seen = [
        (item, tracker.report().percent, json.loads(tracker.report().pace or "{}")["done"])
        for item in tracker.track(["a", "b", "c", "d"], None, "copying", None, 0)
    ]
    assert seen == [("a", 0, 0), ("b", 25, 1), ("c", 50, 2), ("d", 75, 3)]
    report = tracker.report()
    assert report[:2] == (100, "copying")
    assert json.loads(report.pace or "{}")["done"] == 4


def test_rate_and_time_left_follow_from_the_count(tracker: ProgressTracker, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    items = tracker.track(range(100), None, None, None, 0)
    for _ in range(21):
        next(items)
    clock += 2
    assert json.loads(tracker.report().pace or "{}") == {"done": 20, "total": 100, "rate": 10.0, "left": 8.0}


def test_the_rate_is_that_of_the_last_seconds(tracker: ProgressTracker, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    items = tracker.track(iter(int, 1), None, None, None, 0)
    for pace in (100, 100, 1, 1, 1):  # items in five seconds each
        for _ in range(pace):
            next(items)
        clock += 5
        report = json.loads(tracker.report().pace or "{}")
    assert report["rate"] == pytest.approx(0.2)
    assert report["left"] is None


def test_a_total_that_is_unknown_leaves_the_percentage(tracker: ProgressTracker) -> None:
    tracker.set(10, None, back=False)
    for _ in tracker.track(iter("abc"), None, None, None, 0):
        pass
    assert json.loads(tracker.report().pace or "{}")["done"] == 3
    items = tracker.track(iter("abc"), None, None, None, 0)
    next(items), next(items)
    assert json.loads(tracker.report().pace or "{}")["total"] is None


def test_what_an_earlier_attempt_did_counts(tracker: ProgressTracker) -> None:
    items = tracker.track(range(50), 100, None, None, 50)
    next(items)
    assert tracker.report().percent == 50
    assert tracker.track(range(50), None, None, None, 50) is not None  # 50 and 50: a total of 100
    next(items)
    assert tracker.report().percent == 51


@pytest.mark.parametrize(("total", "done"), [(-1, 0), ("9", 0), (9, -1), (True, 0)])
def test_a_total_is_a_number_of_items(tracker: ProgressTracker, total: Any, done: Any) -> None:
    with pytest.raises(InvalidArgument, match="number of items"):
        next(iter(tracker.track([1], total, None, None, done)))


def test_async_items_are_counted_too(tracker: ProgressTracker) -> None:
    async def numbers() -> AsyncIterator[int]:
        for n in range(4):
            yield n

    async def scene() -> list[int]:
        return [tracker.report().percent async for _ in tracker.atrack(numbers(), 4, None, None, 0)]

    assert asyncio.run(scene()) == [0, 25, 50, 75]


def test_more_items_than_promised_do_not_pass_the_end(tracker: ProgressTracker) -> None:
    for _ in tracker.track(iter(range(10)), 5, None, 0.5, 0):
        assert tracker.report().percent <= 50


def test_a_track_that_is_left_early_does_not_enclose_what_comes_after(tracker: ProgressTracker) -> None:
    for n in tracker.track(range(10), None, "looking", 0.3, 0):
        if n == 5:
            break
    with tracker.stage("working", 0.5):
        assert tracker.report().stage == "working"
    tracker.set(100, None, back=False)
    assert tracker.report().percent == 100


def test_a_stage_that_failed_does_not_enclose_what_comes_after(tracker: ProgressTracker) -> None:
    with contextlib.suppress(ZeroDivisionError), tracker.stage("trying", 0.3):
        _ = 1 / 0
    with tracker.stage("working", None):
        assert tracker.report().stage == "working"
    assert tracker.report().percent == 100


def test_an_abandoned_async_track_does_not_stop_the_count_of_the_next(tracker: ProgressTracker) -> None:
    async def numbers() -> AsyncIterator[int]:
        for n in range(10):
            yield n

    async def body() -> None:
        async for _ in tracker.atrack(numbers(), 10, None, None, 0):
            break
        async for n in tracker.atrack(numbers(), 10, None, None, 0):
            await asyncio.sleep(0)
            if n == 8:
                assert json.loads(tracker.report().pace or "{}")["done"] == 8

    asyncio.run(body())


def test_a_stage_inside_a_tracked_loop_is_a_part_of_its_item(tracker: ProgressTracker) -> None:
    for n in tracker.track(range(10), None, None, None, 0):
        with tracker.stage("unpacking", None):
            pass
        if n == 0:
            assert tracker.report().percent <= 10
