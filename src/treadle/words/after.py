"""The jobs that a job waits for: the option `after`, and results of those jobs that are arguments of this one."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from treadle.words.errors import InvalidArgument


class HasId(Protocol):
    """A Handle or a JobRow."""

    @property
    def id(self) -> UUID: ...


class After(NamedTuple):
    """A job that has to end first."""

    id: UUID
    ok_to_fail: bool = False
    """It may also fail, be cancelled or be deleted."""
    arguments: tuple[str, ...] = ()
    """The arguments that get its result."""
    nth: int | None = None
    """The arguments are lists, and this is the position of the result in them."""
    if_failed: bool = False
    """It must fail, be cancelled or be deleted."""

    def record(self) -> dict[str, Any]:
        """As enqueue_with_options() reads it."""
        found: dict[str, Any] = {"id": str(self.id)}
        if self.ok_to_fail:
            found["ok_to_fail"] = True
        if self.if_failed:
            found["if_failed"] = True
        if self.arguments:
            found["arguments"] = list(self.arguments)
        if self.nth is not None:
            found["nth"] = self.nth
        return found


Waitable: TypeAlias = HasId | UUID | str | After


class OkToFail(NamedTuple):
    """A step of a workflow, or its name, that may also fail."""

    step: Any


def ok_to_fail(job: Any) -> Any:
    """For `after`: the job that waits also runs if this one fails, is cancelled or is deleted. A step of a workflow, or
    its name, can be given as well."""
    if isinstance(job, UUID | After) or hasattr(job, "id") or (isinstance(job, str) and is_id(job)):
        return _one(job)._replace(ok_to_fail=True)
    return OkToFail(job)


class IfFailed(NamedTuple):
    """A step of a workflow, or its name, that must fail."""

    step: Any


def if_failed(job: Any) -> Any:
    """For `after`: the job that waits only runs if this one fails, is cancelled or is deleted. If this one completes,
    the other is cancelled. A step of a workflow, or its name, can be given as well."""
    if isinstance(job, UUID | After) or hasattr(job, "id") or (isinstance(job, str) and is_id(job)):
        return _one(job)._replace(if_failed=True)
    return IfFailed(job)


def is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def waits_for(given: Waitable | Iterable[Waitable] | None) -> list[After]:
    """Check the option `after`."""
    if given is None:
        return []
    if isinstance(given, str | UUID | After | OkToFail | IfFailed) or hasattr(given, "id"):
        return [_one(given)]
    if not isinstance(given, Iterable):
        raise InvalidArgument(f"after must be a job or a list of jobs (handles or ids), got {given!r}")
    return [_one(each) for each in given]


def combined(jobs: Sequence[After]) -> list[After]:
    """One for each job, with everything that was said about it. `[job, ok_to_fail(job)]` says that it may not fail."""
    by_job: dict[UUID, list[After]] = {}
    for each in jobs:
        by_job.setdefault(each.id, []).append(each)
    return [_combined(each) for each in by_job.values()]


def _combined(given: list[After]) -> After:
    job = given[0].id
    used = [each for each in given if each.arguments]
    said = [each for each in given if not each.arguments]
    if len({each.nth for each in used}) > 1:
        raise InvalidArgument(f"the result of job {job} is used as an argument, and in a list: use it once")
    ok_to_fail = may_fail([each.ok_to_fail for each in said])
    if any(each.if_failed for each in given) and (used or not all(each.if_failed for each in said)):
        raise InvalidArgument(f"if_failed({job}) cannot be used with another way to wait for it, nor with its result")
    arguments = tuple(name for each in used for name in each.arguments)
    return After(job, ok_to_fail, arguments, used[0].nth if used else None, any(each.if_failed for each in said))


def may_fail(said: Sequence[bool]) -> bool:
    """What holds if it was said more than once whether a job may also fail: the strictest."""
    return bool(said) and all(said)


def _one(given: Any) -> After:
    return given if isinstance(given, After) else After(id_of(given, "after"))


def id_of(given: Any, option: str) -> UUID:
    """The id of what is given as this option: a handle, a row, or an id."""
    if isinstance(given, UUID):
        return given
    if isinstance(given, str) and is_id(given):
        return UUID(given)
    job_id = getattr(given, "id", None)
    if not isinstance(job_id, UUID):
        raise InvalidArgument(f"{option} must be a job (a handle or an id), got {given!r}")
    return job_id
