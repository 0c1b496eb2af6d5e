"""The options of `@app.job`: checked, with their defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, cast, get_args

from treadle.db.queries.enqueueing import EnqueueOptions, check_options
from treadle.jobs.policy import Policy
from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.limits import AnyLimit, MaxPending, Per, check_limits, part_name
from treadle.words.options import checked_value, known_options
from treadle.words.priority import Priority
from treadle.words.retries import Retries, check_retry
from treadle.words.size import Size, size
from treadle.words.timeout import Timeout, timeout_seconds
from treadle.words.times import Times, check_times
from treadle.words.unique import Unique, check_unique

Delivery: TypeAlias = Literal["at_least_once", "at_most_once"]


class JobOptions(TypedDict, total=False):
    """The options of `@app.job`, for a dict that several functions share: `COMMON: JobOptions = {"queue": "web"}`."""

    name: str | None
    aliases: Sequence[str]
    priority: int
    queue: str
    retry: Retries
    timeout: Timeout | None
    process: bool
    memory_limit: Size | None
    logs: bool
    prints: bool
    schedule: Times | None
    expires: Duration | None
    unique: Unique | None
    limits: AnyLimit | Sequence[AnyLimit] | None
    fair_by: Per | None
    weight: int | None
    delivery: Delivery


@checked_value
@dataclass(frozen=True, kw_only=True)
class JobDefaults:
    """Options of the functions of an application, or of a group, that do not say otherwise: JobDefaults(timeout="10m",
    retry=Retries(1))."""

    priority: int | None = None
    queue: str | None = None
    retry: Retries | None = None
    timeout: Timeout | None = None
    expires: Duration | None = None
    logs: bool | None = None
    prints: bool | None = None

    def __post_init__(self) -> None:
        job_options(**self.given)

    @property
    def given(self) -> dict[str, Any]:
        """As options of `@app.job`."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in found.items() if value is not None}

    def with_given(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """With the options of a function. What runs at most once is retried only if the function itself says so."""
        found = {**self.given, **options}
        if "retry" not in options and options.get("delivery") == "at_most_once":
            found.pop("retry", None)
        return found


def check_defaults(given: object) -> JobDefaults:
    if given is None:
        return JobDefaults()
    if not isinstance(given, JobDefaults):
        raise InvalidArgument(f'defaults must be JobDefaults(…), such as JobDefaults(timeout="10m"), got {given!r}')
    return given


class CheckedOptions(NamedTuple):
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
) -> CheckedOptions:
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
    return CheckedOptions(name, tuple(aliases), policy, defaults, schedule, check_limits(limits), fair_by)
