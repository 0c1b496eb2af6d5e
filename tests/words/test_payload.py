"""Every JSON value that can be read back unchanged is accepted as a payload; others are refused with their path."""

import math
import tracemalloc
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle import InvalidPayload, JobQueue, Priority
from treadle.text.exceptions import ERROR_LIMIT, clean_error
from treadle.words.payload import DEPTH_LIMIT, decode, encode

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=12
)


def same(one: Any, two: Any) -> bool:
    """Whether two values are equal and have the same types at every level: 1 is neither 1.0 nor True."""
    if type(one) is not type(two):
        return False
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(values, min_size=1, max_size=20))
def test_any_json_value_is_read_back_unchanged(queue: JobQueue, payloads: list[Any]) -> None:
    queue.enqueue_many("a", payloads)
    jobs = queue.claim(["a"], 100)
    assert len(jobs) == len(payloads)
    for job, payload in zip(jobs, payloads, strict=True):
        assert same(job.data, payload)
    results = [[payload] for payload in payloads]
    queue.complete_many(jobs, results)
    assert all(same(queue.get(job).result, result) for job, result in zip(jobs, results, strict=True))


@pytest.mark.parametrize(
    "value",
    [1e16, 1e22, 1e23, -1e300, 1.7976931348623157e308, 5e-324, 0.1, 10**400, -(2**64), "\u2028\n\r\t\"'\\", {"": ""}],
)
def test_unusual_values_are_read_back_unchanged(queue: JobQueue, value: Any) -> None:
    assert same(queue.get(queue.enqueue("a", value)).data, value)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


CANARY = "hunter2-canary"


class Text(str):
    pass


loop: dict[str, Any] = {}
loop["self"] = loop

REFUSED: list[tuple[Any, str, str]] = [
    (math.nan, "data", "nan is not a JSON number; send null or a string instead"),
    ({"a": [1, math.inf]}, "data.a[1]", "inf is not a JSON number"),
    ({"a": "x\x00y"}, "data.a", "a NUL character at position 1"),
    ({"ä\x00": 1}, "data", "a NUL character at position 1"),
    (["ok", "\ud83d"], "data[1]", "is an unpaired surrogate"),
    ({"\udc00": 1}, "data", "is an unpaired surrogate"),
    (
        {"n": 10**4300},
        "data.n",
        "an integer of more than 4,300 digits, which Python refuses to parse; send it as a string",
    ),
    ({"n": -(10**5000)}, "data.n", "an integer of more than 4,300 digits"),
    (nested(DEPTH_LIMIT + 1), "data[0][0]", "nested more than 100 levels deep; flatten it"),
    (loop, "data.self.self", "nested more than 100 levels deep"),
    ({1: "a"}, "data", "a key of type int is not a string"),
    ({1: "a", "1": "b"}, "data", "a key of type int is not a string"),
    ({"a": {None: 1}}, "data.a", "a key of type NoneType is not a string"),
    ({Text("a"): 1}, "data", "a key of type Text is not a string"),
    ({"a": Priority.EXPLICIT}, "data.a", "a value of type Priority would come back as int; use int(…)"),
    ([Text("a")], "data[0]", "a value of type Text would come back as str; use str(…)"),
    ({"a": OrderedDict(b=1)}, "data.a", "a value of type OrderedDict would come back as dict; use dict(…)"),
    ({"a\nb": object()}, "data['a\\nb']", "a value of type object is not JSON"),
    ((1, 2), "data", "a value of type tuple is not JSON and would not round-trip unchanged; use a list"),
    ({"a": {1, 2}}, "data.a", "a value of type set is not JSON"),
    ({"when": datetime.now(UTC)}, "data.when", "a value of type datetime is not JSON"),
    ({"price": Decimal("1.5")}, "data.price", "a value of type Decimal is not JSON"),
    ({"raw": b"x"}, "data.raw", "a value of type bytes is not JSON"),
]


@pytest.mark.parametrize(("value", "path", "message"), REFUSED)
def test_a_value_that_would_not_be_read_back_unchanged_is_refused_before_any_sql(
    value: Any, path: str, message: str
) -> None:
    queue = JobQueue("postgresql://nobody@127.0.0.1:1/nothing")
    for act in (lambda: queue.enqueue("a", value), lambda: queue.complete("0" * 32, value)):
        with pytest.raises(InvalidPayload) as refused:
            act()
        assert message in str(refused.value)
    with pytest.raises(InvalidPayload) as refused:
        queue.enqueue_many("a", [{}, value])
    assert refused.value.path.startswith("data[1]" + path.removeprefix("data"))


@pytest.mark.parametrize(
    "value",
    [
        {"a": {CANARY: {1: 2}}, "b": CANARY},
        {1: CANARY},
        {(CANARY,): 1},
        {"a": (CANARY,)},
        {"a": CANARY + "\x00"},
        [CANARY + "\ud800"],
        {"a": Text(CANARY)},
        {"a": CANARY.encode()},
        CANARY * 100_000,
    ],
)
def test_an_error_does_not_quote_the_value(value: Any) -> None:
    with pytest.raises(InvalidPayload) as refused:
        encode(value, 1000)
    # A key is part of the path to what is below it.
    assert CANARY not in str(refused.value).replace(f"data.a.{CANARY}", "")


def test_a_payload_of_exactly_the_depth_limit_is_accepted(queue: JobQueue) -> None:
    assert queue.get(queue.enqueue("a", nested(DEPTH_LIMIT))).data == nested(DEPTH_LIMIT)


def test_the_size_limit_counts_bytes(queue: JobQueue) -> None:
    limit = 256 * 1024
    queue.enqueue("a", "x" * (limit - 2))
    with pytest.raises(
        InvalidPayload, match=r"262,145 bytes of JSON, more than the limit of 262,144; put the large part"
    ):
        queue.enqueue("a", "x" * (limit - 1))
    with pytest.raises(InvalidPayload, match="more than the limit"):
        queue.enqueue("a", "ä" * (limit // 2))


def test_the_size_limit_is_configurable(url: str) -> None:
    with JobQueue(url, payload_limit=10) as queue:
        queue.enqueue("a", "x" * 8)
        with pytest.raises(InvalidPayload, match="more than the limit of 10"):
            queue.enqueue("a", "x" * 9)


def test_json_null_is_a_payload(queue: JobQueue) -> None:
    assert queue.get(queue.enqueue("a", None)).data is None
    assert queue.get(queue.enqueue("a")).data == {}


def test_long_error_texts_are_shortened_in_the_middle() -> None:
    text = clean_error("begin" + "x" * ERROR_LIMIT + "end")
    assert text.startswith("begin")
    assert text.endswith("end")
    assert "8 characters left out" in text


def test_encoding_is_compact_and_readable() -> None:
    assert encode({"a": [1, "ä"]}) == '{"a":[1,"ä"]}'
    assert decode('{"a": 1}') == {"a": 1}


def test_a_text_that_is_too_long_is_refused_before_it_is_copied() -> None:
    text = "x" * 20_000_000
    tracemalloc.start()
    try:
        with pytest.raises(
            InvalidPayload, match=r"^data\.a\[0\]: a text of 20,000,000 characters, more than the limit"
        ):
            encode({"a": [text]})
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
