"""What a handler receives equals what was enqueued, with the same types, or the value was refused."""

import dataclasses
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Annotated, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection
from pydantic import AfterValidator, BaseModel, Field, Json, PlainSerializer, SecretStr, TypeAdapter

from tests.support.apps import run_jobs
from treadle import InvalidPayload, Job, Retries, Treadle
from treadle.attempt.round_trip import Encoder
from treadle.words.payload import DEPTH_LIMIT

CANARY = "hunter2-canary"


class Level(IntEnum):
    LOW = 1


class Shade(StrEnum):
    RED = "red"


class Word(str):
    pass


class Number(int):
    pass


Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class Point:
    x: int
    extra: Any = None


class Animal(BaseModel):
    name: str
    extra: Any = None


class Dog(Animal):
    tricks: list[str] = []


class Hidden(BaseModel):
    name: str
    password: str = Field("", exclude=True)


def same(one: Any, two: Any) -> bool:
    """Whether two values are equal and have the same types at every level."""
    if type(one) is not type(two):
        return False
    if isinstance(one, dict):
        return len(one) == len(two) and all(
            any(same(key, other) and same(item, two[other]) for other in two) for key, item in one.items()
        )
    if isinstance(one, list | tuple | deque):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, set | frozenset):
        return {(type(each), each) for each in one} == {(type(each), each) for each in two}
    if isinstance(one, BaseModel):
        return same(one.__dict__, two.__dict__)
    if dataclasses.is_dataclass(one) and not isinstance(one, type):
        return same(vars(one), vars(two))
    if isinstance(one, datetime) and one.tzinfo is not None:
        return bool(two.tzinfo is not None and one.astimezone(UTC) == two.astimezone(UTC))
    return bool(one == two)


# Also NUL and surrogates, and texts that look like other types.
looks_typed = ["2024-02-29", "2024-02-29T10:00:00Z", "P1D", "10:00", "1.5", "7", "red", "true", str(UUID(int=7))]
texts = st.text(max_size=6) | st.sampled_from(looks_typed)
hashable = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(10**4299, 10**4301),
    st.floats(),
    texts,
    st.text(st.characters(), max_size=6),
    st.binary(max_size=4),
    st.decimals(allow_nan=False),
    # Not longer: pydantic reports a value whose repr fails as an exception that nobody can catch.
    st.fractions(-1000, 1000, max_denominator=1000),
    st.complex_numbers(),
    st.uuids(),
    st.datetimes(timezones=st.none() | st.timezones()),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.sampled_from([Level.LOW, Shade.RED, Word("a"), Number(7), Ellipsis, int, object(), len]),
)
anything = st.recursive(
    hashable | st.binary(max_size=4).map(bytearray),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(deque),
        st.sets(hashable, max_size=4),
        st.frozensets(hashable, max_size=4),
        st.dictionaries(hashable, inner, max_size=4),
        st.dictionaries(texts, inner, max_size=4),
        st.dictionaries(texts, inner, max_size=4).map(OrderedDict),
        st.dictionaries(texts, inner, max_size=4).map(lambda made: defaultdict(int, made)),
        st.builds(Pair, inner, inner),
        st.builds(Point, st.integers(), inner),
        st.builds(Animal, name=st.just("a"), extra=inner),
        st.builds(Dog, name=st.just("a"), extra=inner),
    ),
    max_leaves=8,
)
scalar_kinds: list[Any] = [int, float, str, bytes, Decimal, UUID, datetime, date, time, timedelta, Level, Shade]
kinds = st.recursive(
    st.sampled_from([Any, *scalar_kinds, Point, Animal, dict, list, tuple, set]),
    lambda inner: st.one_of(
        inner.map(lambda kind: list[kind]),  # type: ignore[valid-type]
        inner.map(lambda kind: tuple[kind, ...]),  # type: ignore[valid-type]
        inner.map(lambda kind: set[kind]),  # type: ignore[valid-type]
        inner.map(lambda kind: Sequence[kind]),  # type: ignore[valid-type]
        inner.map(lambda kind: Mapping[str, kind]),  # type: ignore[valid-type]
        st.tuples(inner, inner).map(lambda pair: dict[pair[0], pair[1]]),  # type: ignore[valid-type]
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1] if Any not in pair else Any),
    ),
    max_leaves=4,
)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(anything)
def test_a_handler_receives_the_value_or_it_is_refused(app: Treadle, connection: Connection[Any], value: Any) -> None:
    @app.job(name=f"take_{len(app.job_types)}")
    def take(value: Any) -> None: ...

    attempt: Any = None  # the function has no parameter for the job
    try:
        handle = take.enqueue(value)
    except InvalidPayload:
        return
    row = connection.execute("select data::text from jobs where id = %s", [handle.id]).fetchone()
    assert row is not None
    assert same(take.arguments.load(row[0], attempt)["value"], value)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(kinds, anything)
def test_an_annotation_decodes_what_it_encoded_or_it_is_refused(kind: Any, value: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    for validated in (True, False):
        try:
            expected = adapter.validate_python(value)
        except Exception:  # it does not fit the annotation
            return
        try:
            text = Encoder(adapter, validated=validated).encode(expected if validated else value, 10**6, "value")
        except InvalidPayload:
            continue
        assert same(adapter.validate_json(text), expected)


def cycle() -> Any:
    made: dict[str, Any] = {}
    made["self"] = [made]
    return made


def nested(depth: int) -> Any:
    made: Any = 1
    for _ in range(depth):
        made = [made]
    return made


REFUSED = {
    "set": ({1, 2}, "take.value.x: a value of type set would come back as list"),
    "tuple": ((1, 2), "take.value.x: a value of type tuple would come back as list"),
    "key": ({1: 2}, "take.value.x: a key of type int would come back as str"),
    "keys": ({1: 1, "1": 2}, "take.value.x: .* 1 would be lost"),
    "cycle": (cycle(), "take.value.*: nested more than 100 levels deep"),
    "depth": (nested(DEPTH_LIMIT + 1), "take.value.*: nested more than 100 levels deep"),
    "very deep": (nested(100_000), "take.value.*: nested more than 100 levels deep"),
    "surrogate": ("\ud800", "take.value.x: the character at position 0 is an unpaired surrogate"),
    "surrogate key": ({"\ud800": 1}, "take.value.x: the character at position 0 is an unpaired surrogate"),
    "NUL": ("a\x00", "take.value.x: a NUL character at position 1"),
    "NaN": (float("nan"), "take.value.x: nan is not a JSON number"),
    "int": (10**5000, "take.value.x: an integer of more than 4,300 digits"),
    "enum": (Level.LOW, "take.value.x: a value of type Level would come back as int"),
    "subclass": (Word("a"), "take.value.x: a value of type Word would come back as str"),
    "datetime": (datetime.now(UTC), "take.value.x: a value of type datetime would come back as str"),
    "bytes": (b"\xff", "take.value.x: a value of type bytes that is no UTF-8 text"),
    "object": (object(), "take.value.x: a value of type object is not JSON"),
    "model": (Animal(name="a"), "take.value.x: a value of type Animal would come back as dict"),
    "Counter": (Counter("a"), "take.value.x: a value of type Counter would come back as dict"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_without_an_annotation_is_refused_with_its_path(app: Treadle, name: str) -> None:
    value, problem = REFUSED[name]

    @app.job
    def take(value: Any) -> None: ...

    with pytest.raises(InvalidPayload, match=problem):
        take.enqueue({"x": value})
    with pytest.raises(InvalidPayload, match=r"^data\[1\] take\.value"):
        take.enqueue_many([{"value": 1}, {"value": {"x": value}}])


def returning(annotation: Any, value: Any) -> Any:
    def make() -> Any:
        return value

    make.__annotations__ = {"return": annotation}
    return make


# As results, without an annotation, they come back as their JSON.
AS_JSON = {"set", "tuple", "key", "enum", "subclass", "datetime", "model", "Counter"}


@pytest.mark.parametrize("name", REFUSED)
def test_events_and_checkpoints_follow_the_same_rule_and_results_if_they_are_not_json(app: Treadle, name: str) -> None:
    value = REFUSED[name][0]

    @app.job(retry=Retries(0))
    def make(job: Job) -> Any:
        refused = []
        for act in (
            lambda: job.event("made", x=value),
            lambda: job.save({"x": value}),
            lambda: job.step("make", lambda: {"x": value}),
        ):
            try:
                act()
            except InvalidPayload as error:
                refused.append(error.path)
        if len(refused) < 3:
            return refused
        return {"x": value}

    handle = make.enqueue()
    if name in AS_JSON:
        run_jobs(app, handle)
        return
    with pytest.raises(Exception, match=r"failed: InvalidPayload: result"):
        run_jobs(app, handle)


def test_a_result_comes_back_as_its_json_where_no_annotation_says_more(app: Treadle) -> None:
    moment = datetime(2024, 2, 29, tzinfo=UTC)
    results: dict[str, tuple[Any, Any, Any]] = {
        "tuple": (Any, (1, (2, "b")), [1, [2, "b"]]),
        "sets": (dict, {"a": {1}, "b": [frozenset("c")]}, {"a": [1], "b": [["c"]]}),
        "keys": (dict[str, Any], {"a": {1: "b", None: (1,)}}, {"a": {"1": "b", "None": [1]}}),
        "texts": (list, [moment, UUID(int=7), Decimal("1.10")], ["2024-02-29T00:00:00Z", str(UUID(int=7)), "1.10"]),
        "model": (Any, [Animal(name="a"), Level.LOW], [{"name": "a", "extra": None}, 1]),
        "annotated": (list[int], (1, 2), [1, 2]),
        "nested": (tuple[int, Any], (1, (2, 3)), (1, [2, 3])),
    }

    handles = [app.job(name=case)(returning(kind, value)).enqueue() for case, (kind, value, _) in results.items()]
    for case, found in zip(results, run_jobs(app, *handles), strict=True):
        assert same(found, results[case][2]), case


@pytest.mark.parametrize("value", ["7", SecretStr(CANARY), {1: 1, "1": 2}, object(), (1, object())])
def test_a_result_that_its_json_would_change_fails_the_job(app: Treadle, value: Any) -> None:
    handle = app.job(retry=Retries(0))(returning(int if value == "7" else Any, value)).enqueue()
    with pytest.raises(Exception, match=r"failed: InvalidPayload: result"):
        run_jobs(app, handle)


@dataclasses.dataclass
class Area:
    side: int
    square: int = dataclasses.field(init=False, default=0)

    def __post_init__(self) -> None:
        self.square = self.side**2


def test_a_field_that_a_dataclass_computes_is_computed_again(app: Treadle) -> None:
    @app.job
    def double(areas: list[Area]) -> Area:
        assert areas[0].square == 4
        return Area(areas[0].side * 2)

    handle = double.enqueue([Area(2)])
    assert handle.job().data == {"areas": [{"side": 2}]}
    assert run_jobs(app, handle)[0] == Area(4)
    changed = Area(2)
    changed.square = 5
    with pytest.raises(InvalidPayload, match=r"areas\[0\]\.square: a value of type int would come back with another"):
        double.enqueue([changed])


def test_what_a_typed_tuple_cannot_encode_is_named(app: Treadle) -> None:
    @app.job
    def take(pair: tuple[str, bytes], other: dict[str, tuple[Any, ...]] | None = None) -> None: ...

    with pytest.raises(
        InvalidPayload, match=r"^take\.pair\[1\]: a value of type bytes that is no UTF-8 text; send it as"
    ):
        take.enqueue(("a", b"\xff"))
    with pytest.raises(
        InvalidPayload, match=r"^take\.other: .* cannot be encoded by its annotation|^take: .* cannot be"
    ):
        take.enqueue(("a", b"b"), {"c": (object(),)})
    take.enqueue(("a", b"b"), {"c": (1,)})


TYPED: list[tuple[Any, Any]] = [
    (set[int], {1, 2}),
    (dict[int, str], {1: "a"}),
    (tuple[int, ...], (1, 2)),
    (frozenset[date], frozenset({date(2024, 2, 29)})),
    (Animal, Animal(name="a", extra={"b": [1]})),
    (Point, Point(1, {"a": None})),
    (list[Level], [Level.LOW]),
    (Decimal, Decimal("1.10")),
    (float, 5.0),
    (datetime, datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Oslo"))),  # an hour that comes twice
    (int | str | None, None),
    (datetime | str, "tomorrow"),
    (UUID | int, 7),
    (Annotated[int, AfterValidator(abs)], 7),
]


@pytest.mark.parametrize(("kind", "value"), TYPED)
def test_a_value_that_round_trips_by_its_annotation_is_accepted(app: Treadle, kind: Any, value: Any) -> None:
    def take(value: Any) -> Any:
        return value

    take.__annotations__ = {"value": kind, "return": kind}
    (result,) = run_jobs(app, app.job(take).enqueue(value))
    assert same(result, value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Animal, Dog(name="a", tricks=["sit"])),  # its tricks would be lost
        (SecretStr, SecretStr(CANARY)),  # would come back as asterisks
        (Hidden, Hidden(name="a", password=CANARY)),
        (datetime | str, "2024-02-29T00:00:00"),  # would come back as a datetime
        (dict[str, list[UUID | str]], {"a": ["0192f3a4-0000-7000-8000-000000000000"]}),
        (Sequence[int], (1, 2)),
        (OrderedDict[str, int], OrderedDict(b=1, a=2)),
        (Json, '{"a": 1}'),
        (Annotated[str, PlainSerializer(lambda text: text.upper())], "a"),
        (set[Any], {(1, 2)}),
    ],
)
def test_a_value_that_its_annotation_would_change_is_refused(app: Treadle, kind: Any, value: Any) -> None:
    def take(value: Any) -> None: ...

    take.__annotations__ = {"value": kind}
    with pytest.raises(InvalidPayload) as refused:
        app.job(take).enqueue(value)
    assert CANARY not in str(refused.value)


def test_a_result_that_its_annotation_accepts_is_stored(app: Treadle) -> None:
    @app.job
    def count() -> dict[str, int]:
        return Counter("aab")  # what the caller receives is a dict, as annotated

    @app.job
    def share() -> float:
        return 1

    assert run_jobs(app, count.enqueue())[0] == {"a": 2, "b": 1}
    assert same(run_jobs(app, share.enqueue())[0], 1.0)


def test_a_result_that_does_not_fit_its_annotation_is_not_quoted(app: Treadle) -> None:
    @app.job(retry=Retries(0))
    def make() -> int:
        return CANARY  # type: ignore[return-value]

    handle = make.enqueue()
    with pytest.raises(Exception, match="InvalidPayload: result: Input should be a valid integer"):
        run_jobs(app, handle)
    assert CANARY not in str(handle.errors())


def test_large_typed_keyword_arguments_count_together(url: str) -> None:
    app = Treadle(url, payload_limit=100)

    @app.job
    def render(path: str, **options: date | str) -> None: ...

    with pytest.raises(InvalidPayload, match="more than the limit of 100"):
        render.enqueue("x" * 60, note="x" * 60)
    app.close()
