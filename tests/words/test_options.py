"""Wrong options are refused where they are written, with the name that was probably meant. Without a database."""

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from treadle import (
    Backoff,
    Connections,
    Cron,
    Debounce,
    Every,
    Fairness,
    InvalidArgument,
    JobQueue,
    Limit,
    Once,
    Retries,
    Store,
    Throttle,
    Treadle,
)
from treadle.jobs.job_options import job_options
from treadle.words.options import OURS

NOWHERE = "postgresql://nowhere/none"


def job(**options: Any) -> None:
    app().job(**options)


def using(**options: Any) -> None:
    add(app()).using(**options)


def schedule(**options: Any) -> None:
    made = app()
    made.schedule("nightly", Cron("@daily"), add(made), **options)


def schedules_add(**options: Any) -> None:
    made = app()
    made.schedules.add("nightly", Cron("@daily"), add(made), **options)


def schedules_change(**options: Any) -> None:
    app().schedules.change("nightly", Cron("@daily"), **options)


def treadle(**options: Any) -> None:
    Treadle(NOWHERE, **options)


def queue(**options: Any) -> None:
    JobQueue(NOWHERE, **options)


def enqueue(**options: Any) -> None:
    JobQueue(NOWHERE).enqueue("welcome", **options)


def enqueue_many(**options: Any) -> None:
    JobQueue(NOWHERE).enqueue_many("welcome", [{}], **options)


def worker(**options: Any) -> None:
    made = app()
    add(made)
    made.worker(**options)


def limits_set(**options: Any) -> None:
    app().limits.set("sync", 5, **options)


def app() -> Treadle:
    return Treadle(NOWHERE)


def add(made: Treadle) -> Any:
    return made.job(name="add")(lambda one=1: one + 1)


@pytest.mark.parametrize(
    ("call", "option", "message"),
    [
        # What is only misspelt
        (job, "prioritty", "@app.job() has no option 'prioritty'; did you mean priority?"),
        (using, "dealy", "using() has no option 'dealy'; did you mean delay?"),
        (treadle, "conections", "Treadle() has no option 'conections'; did you mean connections?"),
        (worker, "concurency", "worker() has no option 'concurency'; did you mean concurrency?"),
        (worker, "queue", "worker() has no option 'queue'; did you mean queues?"),
        (schedule, "queu", "schedule() has no option 'queu'; did you mean queue?"),
        (schedule, "timezon", 'did you mean timezone? Use schedule=Cron("0 9 * * mon", timezone="Europe/Oslo")'),
        (queue, "shema", "JobQueue() has no option 'shema'; did you mean schema?"),
        (enqueue, "priorty", "JobQueue.enqueue() has no option 'priorty'; did you mean priority?"),
        (enqueue_many, "priorty", "JobQueue.enqueue() has no option 'priorty'; did you mean priority?"),
        (limits_set, "perid", "limits.set() has no option 'perid'; did you mean period?"),
        # What other queues call it
        (job, "max_retries", "@app.job() has no option 'max_retries'; use retry=Retries(5)"),
        (job, "autoretry_for", "; use retry=Retries(5, on=ConnectionError)"),
        (job, "rate_limit", "; use limits=[Limit(5), Rate(100, '1m'), MaxPending(1000)]"),
        (job, "soft_time_limit", '; use timeout=("25s", "30s")'),
        (job, "every", '; use schedule=Every("90s")'),
        (job, "crontab", '; use schedule=Cron("0 9 * * mon")'),
        (using, "retries", "using() has no option 'retries'; use retry=Retries(5)"),
        (using, "max_attempts", "; use retry=Retries(5)"),
        (using, "countdown", '; use delay="10m"'),
        (using, "eta", "; use run_at=datetime(…)"),
        (using, "unique_for", '; use unique=Once(per="1h")'),
        (enqueue, "queueing_lock", '; use unique=Once(key="user:7", while_pending=True)'),
        (schedule, "timezone", '; use schedule=Cron("0 9 * * mon", timezone="Europe/Oslo")'),
        (schedules_change, "timezone", '; use schedule=Cron("0 9 * * mon", timezone="Europe/Oslo")'),
        (schedules_add, "overlap", '; use schedule=Every("90s", overlap="skip")'),
        (treadle, "pool_size", "; use connections=Connections(pool_size=10)"),
        (treadle, "fair_types", "; use fairness=Fairness(by_type=True)"),
        # What is an option of something else
        (using, "process", "using() has no option 'process': it is an option of @app.job()"),
        (using, "retention", '; use keep={"completed": "7d"} of Treadle()'),
        (job, "countdown", '; use delay="10m" of using()'),
        (job, "headers", "@app.job() has no option 'headers': it is an option of using()"),
        (schedule, "delay", "schedule() has no option 'delay': it is an option of using()"),
        (using, "rate_limit", " of @app.job()"),
        # What is nothing
        (
            schedule,
            "colour",
            "; the options are actor, expires, headers, key, priority, queue, reason, retry, schedule",
        ),
    ],
)
def test_a_wrong_option_is_refused_with_the_name_that_was_meant(call: Any, option: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        call(**{option: 3})
    assert message in str(refused.value)


def test_the_names_of_other_queues_are_none_of_ours() -> None:
    for call in (job, using, treadle, queue, worker):
        for option in OURS:
            with pytest.raises(InvalidArgument, match=f"has no option '{option}'; use "):
                call(**{option: 3})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cron("0 9 * * *", timezon="UTC"), "Cron(…) has no option 'timezon'; did you mean timezone?"),  # type: ignore[call-arg]
        (lambda: Once("user", pr="1h"), "Once(…) has no option 'pr'; did you mean per?"),  # type: ignore[call-arg]
        (lambda: Limit(3, rate="1s"), "Limit(…) has no option 'rate'; the options are amount, name, per"),  # type: ignore[call-arg]
        (lambda: Every("90s", timezone="UTC"), "Every(…) has no option 'timezone'"),  # type: ignore[call-arg]
        (lambda: Once("user", key="text"), "give either names of arguments or key, got 'user' and key"),
        (lambda: Once(7), "Once takes names of arguments, got 7"),  # type: ignore[arg-type]
        (lambda: Once(key=""), "key must be a string of 1 to 200 characters"),
        (lambda: Once(per="0s"), "per must be longer than 0 s"),
        (lambda: Once(per="1h", while_pending=True), "give either while_pending or per"),
        (lambda: Once(per="1h", on_conflict="replace"), "on_conflict='replace' cannot be used with per"),
        (lambda: Once(on_conflict="skip"), "on_conflict must be one or more of keep, replace"),  # type: ignore[arg-type]
        (lambda: Once(on_conflict=["raise", "replace"]), "keep and raise cannot be combined"),
        (lambda: Debounce("0s"), "Debounce must be longer than 0 s"),
        (lambda: Debounce("10s", at_most="5s"), "at_most must not be shorter than Debounce('10s'), got '5s'"),
        (lambda: Throttle(0, "5m"), "Throttle must be an integer from 1 to 1,000, got 0"),
        (lambda: Throttle(1, "blue"), "the period of Throttle must be a duration such as"),
        (lambda: Throttle(1, "5m", on_conflict="replace"), 'on_conflict of Throttle must be "keep" or "raise"'),  # type: ignore[arg-type]
        (lambda: Retries(-1), "Retries must be an integer from 0"),
        (lambda: Retries(on="OSError"), "on must be exception classes, got 'OSError'"),  # type: ignore[arg-type]
        (lambda: Retries(on=[ValueError, int]), "on must be exception classes, got <class 'int'>"),  # type: ignore[list-item]
        (lambda: Retries(give_up_on=(ValueError(),)), "give_up_on must be exception classes, got ValueError()"),  # type: ignore[arg-type]
        (lambda: Retries(backoff="1s"), "backoff must be a Backoff(…), got '1s'"),  # type: ignore[arg-type]
        (lambda: Cron("61 * * * *"), "the minute of '61 * * * *' must be"),
        (lambda: Cron("every 5m"), 'for an interval use Every("5m")'),
        (lambda: Cron("@daily", timezone="Oslo"), "timezone must be a name of the tz database"),
        (lambda: Cron("@daily", clocks_back="twice"), "clocks_back must be run_once or run_twice"),  # type: ignore[arg-type]
        (lambda: Every("0.5s"), "an interval must be from 1s to 3650d"),
        (lambda: Every("soon"), "Every must be a duration such as"),
        (lambda: Every("1m", missed="never"), "missed must be skip, latest or all, got 'never'"),  # type: ignore[arg-type]
        (lambda: Every("1m", overlap="skp"), "overlap must be allow, skip or wait, got 'skp'"),  # type: ignore[arg-type]
        (lambda: Every("1m", missed_limit=5), 'missed_limit needs missed="all"'),
        (lambda: Every("1m", missed="all", missed_limit=0), "missed_limit must be an integer from 1 to 10,000"),
        (lambda: Every("1m", end=datetime(2030, 1, 1)), "end must be a datetime with a time zone"),
        (lambda: Connections(pool_size=0), "pool_size must be an integer from 1"),
        (lambda: Connections(connect_timeout=0), "connect_timeout must be more than 0"),
        (lambda: Store(grace="long"), "grace must be a duration such as"),
        (lambda: Store(limit="much"), "limit must be a number of bytes"),
        (lambda: Fairness(aging=0), "aging must be longer than 0 s, got 0"),
        (lambda: treadle(connections=20), "connections must be Connections(…), such as Connections(pool_size=20)"),
        (lambda: treadle(store=7), 'store must be a URL or Store(…), such as Store("s3://bucket", grace="1d"), got 7'),
        (lambda: treadle(fairness="1h"), 'fairness must be Fairness(…), such as Fairness(aging="1h"), got'),
        (lambda: using(retry=5), "retry must be Retries(…), such as Retries(5), got 5; Retries(0) never retries"),
        (lambda: schedule(retry=Retries(5, backoff=Backoff())), "for one job, retry can only say how often"),
        (lambda: schedule(priority="high"), "priority must be an integer from"),
        (lambda: schedule(key=7), "key must be a string of 1 to 200 characters, got 7"),
        (lambda: schedule(headers={"a": 1}), "headers must map names to strings"),
        (lambda: schedule(unique="user"), "unique must be Once(…), Debounce(…) or Throttle(…)"),
        (lambda: schedule(unique=Once("user")), "unique names 'user', which is not an argument of"),
        (
            lambda: schedule(expires=datetime(2030, 1, 1, tzinfo=UTC)),
            'expires of a schedule must be a duration, such as "9m"',
        ),
    ],
)
def test_a_value_is_checked_where_it_is_made(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        make()
    assert message in str(refused.value)


def test_retries_are_counted_after_the_first_attempt() -> None:
    assert (Retries().max_attempts, Retries(0).max_attempts, Retries(5).max_attempts) == (3, 1, 6)


def test_the_number_of_retries_is_for_jobs_and_the_rest_for_the_function() -> None:
    found = job_options(retry=Retries(5, on=OSError, give_up_on=ConnectionError, backoff=Backoff(first="2s", jitter=0)))
    assert found.defaults["retry"] == Retries(5)
    retry = found.policy.retry
    assert [retry.gives_up_on(each) for each in (OSError(), ConnectionError(), KeyError())] == [False, True, True]
    assert [retry.delay(attempt) for attempt in (1, 2, 3)] == [2, 4, 8]


def test_values_are_equal_hashable_and_survive_a_pickle() -> None:
    for value, same in (
        (Once("user", per="1h"), Once("user", per=3600)),
        (Debounce("30s", "user", at_most="5m"), Debounce(30, "user", at_most=timedelta(minutes=5))),
        (Throttle(1, "5m", key="text"), Throttle(1, 300, key="text")),
        (Retries(5, on=OSError), Retries(5, on=[OSError])),
        (Cron("0 9 * * mon", timezone="Europe/Oslo"), Cron("0 9 * * mon", timezone="Europe/Oslo")),
        (Every("90s", overlap="skip"), Every("90s", overlap="skip")),
    ):
        assert value == same == pickle.loads(pickle.dumps(value))  # noqa: S301 - our own
        assert len({value, same}) == 1
    assert repr(Once("user", per="1h")).startswith("Once(arguments=('user',), key=None, while_pending=False, per=")


def test_what_is_an_operation_of_the_queue_is_named() -> None:
    made: Any = app()
    with pytest.raises(AttributeError, match=r"Treadle\(\) has no attribute 'complete'; use app.queue.complete\(\)"):
        made.complete  # noqa: B018
    with pytest.raises(AttributeError, match=r"Treadle\(\) has no attribute 'nothing'$"):
        made.nothing  # noqa: B018
    assert not hasattr(made, "_nothing")


def test_there_are_few_options() -> None:
    """An option that needs or excludes another one is part of a value instead."""
    import inspect

    from treadle.jobs.function import UsingOptions
    from treadle.worker.options import WorkerOptions

    assert len(inspect.signature(job_options).parameters) <= 17
    assert len(UsingOptions.__annotations__) <= 15
    assert len(inspect.signature(Treadle).parameters) <= 11
    assert len(WorkerOptions.__annotations__) <= 11
