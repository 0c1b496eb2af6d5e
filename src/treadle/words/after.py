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
    """The arguments are lists, and this is the place of the result in them."""
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
    """One for each job, with everything that was said about it."""
    found: dict[UUID, After] = {}
    for each in jobs:
        known = found.get(each.id)
        if known is None:
            found[each.id] = each
            continue
        if known.arguments and each.arguments and known.nth != each.nth:
            raise InvalidArgument(f"the result of job {each.id} is used as an argument, and in a list: use it once")
        found[each.id] = After(
            each.id,
            known.ok_to_fail or each.ok_to_fail,
            known.arguments + each.arguments,
            known.nth if known.arguments else each.nth,
            known.if_failed or each.if_failed,
        )
        if found[each.id].if_failed and (found[each.id].ok_to_fail or found[each.id].arguments):
            raise InvalidArgument(f"if_failed({each.id}) cannot be used with ok_to_fail() or with its result")
    return list(found.values())


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
