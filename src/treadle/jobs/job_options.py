"""The options of `@app.job`: checked, with their defaults."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from treadle.db.queries.enqueueing import EnqueueOptions, check_options
from treadle.jobs.policy import Policy
from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.limits import AnyLimit, MaxPending, Per, check_limits, part_name
from treadle.words.options import known_options
from treadle.words.priority import Priority
from treadle.words.retries import Retries, check_retry
from treadle.words.size import Size, size
from treadle.words.timeout import Timeout, timeout_seconds
from treadle.words.times import Times, check_times
from treadle.words.unique import Unique, check_unique

Delivery: TypeAlias = Literal["at_least_once", "at_most_once"]


class JobOptions(NamedTuple):
    name: str | None
    aliases: tuple[str, ...]
    policy: Policy
    defaults: EnqueueOptions
    schedule: Times | None = None
    limits: tuple[AnyLimit, ...] = ()
    fair_by: Per | None = None

    @property
    def wait(self) -> float | None:
        """How long an enqueue waits until fewer jobs do; None: there is no MaxPending."""
        bounds = [each for each in self.limits if isinstance(each, MaxPending)]
        return max((duration(each.wait or 0).total_seconds() for each in bounds), default=None)

    @property
    def parts(self) -> dict[str, Per]:
        """What limits and fairness tell jobs apart by."""
        given = [*(each.per for each in self.limits), self.fair_by]
        return {part_name(per): per for per in given if per is not None}


@known_options("@app.job()")
def job_options(  # noqa: PLR0913 - its options
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    priority: int = Priority.DISCOVERED,
    queue: str = "default",
    retry: Retries | None = None,
    timeout: Timeout | None = None,
    process: bool = False,
    memory_limit: Size | None = None,
    logs: bool = True,
    prints: bool = False,
    schedule: Times | None = None,
    expires: Duration | None = None,
    unique: Unique | None = None,
    limits: AnyLimit | Sequence[AnyLimit] | None = None,
    fair_by: Per | None = None,
    weight: int | None = None,
    delivery: Delivery = "at_least_once",
) -> JobOptions:
    """Check the options of `@app.job`."""
    if isinstance(aliases, str):
        raise InvalidArgument(f"aliases must be a list of strings, got {aliases!r}")
    if delivery not in get_args(Delivery):
        raise InvalidArgument(f'delivery must be "at_least_once" or "at_most_once", got {delivery!r}')
    at_most_once = delivery == "at_most_once"
    retries = check_retry(retry) if retry is not None else Retries(0) if at_most_once else Retries()
    defaults: EnqueueOptions = {"priority": priority, "queue": queue, "retry": Retries(retries.amount)}
    chosen = {"expires": expires, "unique": check_unique(unique), "weight": weight}
    defaults.update(cast(EnqueueOptions, {name: value for name, value in chosen.items() if value is not None}))
    check_options(**defaults)
    if memory_limit is not None and not process:
        raise InvalidArgument("memory_limit needs process=True: only a child process can be killed for exceeding it")
    if schedule is not None:
        check_times(schedule)
        if expires is not None or unique is not None:
            raise InvalidArgument(
                f"{'expires' if unique is None else 'unique'} cannot be used with schedule: each of its times has its "
                'own job; with Cron(…, overlap="skip") none is added while the last one is unfinished'
            )
    soft, hard = timeout_seconds(timeout)
    policy = Policy(
        retry=retries,
        timeout=soft,
        deadline=hard,
        process=process,
        memory_limit=None if memory_limit is None else size(memory_limit, "memory_limit"),
        logs=bool(logs),
        prints=bool(prints),
        at_most_once=at_most_once,
    )
    if fair_by is not None:
        part_name(fair_by)
    return JobOptions(name, tuple(aliases), policy, defaults, schedule, check_limits(limits), fair_by)
