"""Queries that enqueue jobs, and that end what has expired. Arguments are checked here, before any SQL."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypedDict, Unpack
from uuid import UUID

from treadle.db.query import Query, Rows, call, statement
from treadle.words.after import After
from treadle.words.duration import Duration, duration
from treadle.words.errors import DuplicateJob, InvalidArgument, JobNotFound, QueueFull, WorkflowEnded
from treadle.words.headers import encode_headers
from treadle.words.limits import MOST, partition_of
from treadle.words.naming import int_within, text_within
from treadle.words.payload import PAYLOAD_LIMIT, Json, encode, encode_many
from treadle.words.priority import Priority
from treadle.words.retries import Retries, check_retry_of_job
from treadle.words.timeout import Timeout, timeout_seconds
from treadle.words.unique import Enqueued, Unique, check_unique

CHUNK = 5000
LONGEST = timedelta(days=36_525)

_MAX_INT = 2**31 - 1
_RETRIES = Retries()


class EnqueueOptions(TypedDict, total=False):
    """Options of a job that is enqueued."""

    priority: int
    """Higher runs first. Priority.DISCOVERED (100) if not given."""
    queue: str
    run_at: datetime
    """Not before this time."""
    delay: Duration
    """Not before this long from now, by the database's clock."""
    retry: Retries
    """How often the job is retried: Retries(2) if not given."""
    expires: Duration | datetime | None
    """If no worker has claimed the job by this time, or this long after it was due, it is cancelled."""
    timeout: Timeout | None
    """After this time the handler is interrupted and the attempt fails; with two durations, it is killed after the
    second. If not given, as its function says; None: it may run for any time."""
    weight: int | None
    """How much of each of its limits the job uses: 1 if not given."""
    partition: Mapping[str, object] | None
    """Values that limits tell jobs apart by, instead of those of the arguments: {"tenant": "acme"}."""
    headers: Mapping[str, str] | None
    """Named strings that are stored with the job, for middleware: {"traceparent": "00-…"}."""
    unique: Unique | None
    """Which calls are the same job: Once(…), Debounce(…) or Throttle(…). None, also where the function declares
    something else: every call adds a job."""


def enqueue(
    job_type: str,
    data: Json,
    key: str | None,
    payload_limit: int = PAYLOAD_LIMIT,
    defaults: Mapping[str, Json] | None = None,
    after: Sequence[After] = (),
    workflow: UUID | None = None,
    share: str | None = None,
    **options: Unpack[EnqueueOptions],
) -> Query[list[Enqueued]]:
    """`defaults` are those of the function's parameters: a call that leaves one out is the same as one with it.
    `share` is the partition, encoded; without it, that of the options counts."""
    text = encode(data, payload_limit)
    share = _partition(options) if share is None else share
    if after or workflow or _needs_options(options):
        shares = None if share is None else [share]
        return _with_options(job_type, [text], [_key(key)], defaults or {}, options, shares, after, workflow)
    params = {**_shared(job_type, **options), "data": text, "key": _key(key), "alone": False}
    if params["headers"] is None:
        del params["headers"]
    if share is not None:
        params["partition"] = share
    return call("enqueue", params, partial(_added, job_type, 1), makes_due=True, often=True, alone=True)


def enqueue_many(
    job_type: str,
    data: Iterable[Json],
    keys: Iterable[str | None] | None,
    payload_limit: int = PAYLOAD_LIMIT,
    defaults: Mapping[str, Json] | None = None,
    partitions: Sequence[str] = (),
    in_one: bool = False,
    after: Sequence[After] = (),
    workflow: UUID | None = None,
    **options: Unpack[EnqueueOptions],
) -> list[Query[list[Enqueued]]]:
    """All payloads are checked before the first query is made: if one of them is bad, nothing is enqueued. `partitions`
    has one for each job, if they have any; it may be filled while the payloads are read. With `in_one`, all are
    enqueued by one statement, so that max_pending is applied to all or none."""
    shared = _shared(job_type, **options)
    texts = encode_many(data, payload_limit)
    names = None if keys is None else [_key(key) for key in keys]
    if names is not None and len(names) != len(texts):
        raise InvalidArgument(f"keys must have one element per job, got {len(names)} for {len(texts)} jobs")
    shares = list(partitions) or None
    if shares is None and (partition := _partition(options)):
        shares = [partition] * len(texts)
    if in_one or after or workflow or _needs_options(options):
        # One statement for all: it locks unique keys in their order, which several would not.
        if not texts:
            return []
        return [_with_options(job_type, texts, names, defaults or {}, options, shares, after, workflow)]
    return [
        Query(
            statement("enqueue_jobs"),
            {
                **shared,
                "data": "\n".join(texts[begin : begin + CHUNK]),
                "keys": None if names is None else names[begin : begin + CHUNK],
                "partitions": None if shares is None else shares[begin : begin + CHUNK],
            },
            partial(_added, job_type, len(texts[begin : begin + CHUNK])),
            makes_due=True,
        )
        for begin in range(0, len(texts), CHUNK)
    ]


def using(enqueue: Query[Any], columns: str, condition: str, uses: Sequence[tuple[int, UUID]]) -> Query[Any]:
    """The same enqueue, which also records the stored objects that its jobs use: each with the number of its row, from
    1. Only rows for which the condition holds have this payload."""
    text = statement("enqueue_using").replace("/* the enqueue */", enqueue.text).replace("/* columns */", columns)
    params = {"stored": ",".join(str(each) for _, each in uses), "places": ",".join(str(row) for row, _ in uses)}
    return replace(
        enqueue, text=text.replace("/* it has this payload */", condition), params={**enqueue.params, **params}
    )


class Expired(NamedTuple):
    examined: int
    """How many jobs it has examined."""
    next: float | None
    """Seconds until the next one expires."""


def expire(limit: int) -> Query[Expired]:
    """End jobs whose time is over."""
    return Query(statement("expire_jobs"), {"limit": limit}, lambda rows: Expired(*rows[0]))


def prune_unique_periods() -> Query[int]:
    return call("prune_unique_periods", {}, lambda rows: int(rows[0][0]))


def scheduled(data: str, defaults: Mapping[str, Json], options: EnqueueOptions) -> dict[str, Any]:
    """The options of the jobs of a schedule, all of which have these arguments, that are no columns of `schedules`."""
    if isinstance(options.get("expires"), datetime):
        raise InvalidArgument(
            f'expires of a schedule must be a duration, such as "9m", got {options["expires"]!r}: each of its jobs has '
            "its own time"
        )
    unique = check_unique(options.get("unique"))
    found: dict[str, Any] = {
        **_expiry(options.get("expires")),
        "weight": options.get("weight"),
        "headers": dict(options.get("headers") or {}) or None,
    }
    if unique is not None:
        found |= {"unique_keys": [unique.key_of(data, defaults)], "delay": unique.delay, **unique.options()}
    return {name: _plain(value) for name, value in found.items() if value is not None}


def check_options(**options: Unpack[EnqueueOptions]) -> None:
    """Raise InvalidArgument if a job could not be enqueued with these."""
    _shared("any", **options)
    _expiry(options.get("expires"))


def _with_options(
    job_type: str,
    texts: Sequence[str],
    keys: Sequence[str | None] | None,
    defaults: Mapping[str, Json],
    options: EnqueueOptions,
    partitions: Sequence[str] | None,
    after: Sequence[After],
    workflow: UUID | None,
) -> Query[list[Enqueued]]:
    unique = check_unique(options.get("unique"))
    if unique is not None and unique.delay is not None:
        if "run_at" in options or "delay" in options:
            raise InvalidArgument("Debounce cannot be used with run_at or delay: it decides when the job is due")
        options = {**options, "delay": unique.delay}
    unique_keys = None if unique is None else [unique.key_of(text, defaults) for text in texts]
    raises = unique is not None and unique.raises
    if unique_keys is not None and raises and len(set(unique_keys)) < len(unique_keys):
        raise InvalidArgument('on_conflict="raise", but two of the calls have the same unique key')
    shared = _shared(job_type, **options)
    given: dict[str, Any] = {
        **shared,
        **_expiry(options.get("expires")),
        "headers": dict(options.get("headers") or {}) or None,
        "keys": None if keys is None else list(keys),
        "partitions": None if partitions is None else list(partitions),
        "weight": options.get("weight"),
        "timeout": list(timeout_seconds(options["timeout"])) if "timeout" in options else None,
        "after": [each.record() for each in after] or None,
        "workflow": None if workflow is None else {"id": str(workflow)},
    }
    if unique is not None:
        given |= {"unique_keys": unique_keys, **unique.options()}
    del given["job_type"]
    record = {name: _plain(value) for name, value in given.items() if value is not None}
    params = {"job_type": shared["job_type"], "data": "\n".join(texts), "options": encode(record, _MAX_INT)}

    def read(rows: Rows) -> list[Enqueued]:
        enqueued = [Enqueued(*row) for row in rows]
        if not enqueued:
            raise QueueFull(job_type, len(texts))
        if workflow and enqueued[0].is_new is None and enqueued[0].id == workflow:
            raise JobNotFound(workflow) if enqueued[0].is_changed is None else WorkflowEnded(workflow)
        if after and enqueued[0].is_new is None and enqueued[0].id in {each.id for each in after}:
            raise JobNotFound(enqueued[0].id)
        for each in enqueued if raises else ():
            if each.is_new is False:
                raise DuplicateJob(job_type, each.id)
        return enqueued

    return Query(statement("enqueue_with_options"), params, read, makes_due=True)


def _needs_options(options: EnqueueOptions) -> bool:
    given = options.get("unique"), options.get("expires"), options.get("weight")
    return given != (None, None, None) or "timeout" in options


def _partition(options: EnqueueOptions) -> str | None:
    given = options.get("partition")
    return None if given is None else partition_of({}, {}, given)


def _added(job_type: str, count: int, rows: Rows) -> list[Enqueued]:
    if not rows or rows[0][0] is None:
        raise QueueFull(job_type, count)
    return [Enqueued(row[0]) for row in rows]


def _key(key: str | None) -> str | None:
    return None if key is None else text_within(key, 200, "key")


def _plain(value: Any) -> Any:
    """As enqueue_with_options() reads it."""
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value / timedelta(seconds=1)
        case _:
            return value


def _expiry(expires: Duration | datetime | None) -> dict[str, object]:
    if not isinstance(expires, datetime):
        return {"expires": None if expires is None else _span(expires, "expires"), "expires_at": None}
    if expires.tzinfo is None:
        raise InvalidArgument(f"expires must have a time zone, got {expires!r}; for example datetime.now(UTC)")
    return {"expires": None, "expires_at": expires}


def _span(given: Duration, name: str) -> timedelta:
    """Not longer than a century: Python cannot read times after the year 9999."""
    span = duration(given, name)
    if span > LONGEST:
        raise InvalidArgument(f"{name} must be at most 100 years, got {given!r}")
    return span


def _shared(
    job_type: str,
    priority: int = Priority.DISCOVERED,
    queue: str = "default",
    run_at: datetime | None = None,
    delay: Duration | None = None,
    retry: Retries = _RETRIES,
    expires: Duration | datetime | None = None,
    weight: int | None = None,
    partition: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
    unique: Unique | None = None,
    timeout: Timeout | None = None,
) -> dict[str, object]:
    check_unique(unique)
    timeout_seconds(timeout)
    if weight is not None:
        int_within(weight, 1, MOST, "weight")
    if partition is not None and not isinstance(partition, Mapping):
        raise InvalidArgument(f'partition must be a mapping such as {{"tenant": "acme"}}, got {partition!r}')
    if run_at is not None and delay is not None:
        raise InvalidArgument("give either run_at or delay, not both")
    if run_at is not None and not isinstance(run_at, datetime):
        raise InvalidArgument(f"run_at must be a datetime, got {run_at!r}; or use delay, such as delay='10m'")
    if run_at is not None and run_at.tzinfo is None:
        raise InvalidArgument(f"run_at must have a time zone, got {run_at!r}; for example datetime.now(UTC)")
    return {
        "job_type": text_within(job_type, 50, "job_type"),
        "priority": int_within(priority, -_MAX_INT, _MAX_INT, "priority"),
        "queue": text_within(queue, 50, "queue"),
        "run_at": run_at,
        "delay": None if delay is None else _span(delay, "delay"),
        "max_attempts": check_retry_of_job(retry).max_attempts,
        "headers": encode_headers(headers),
    }
