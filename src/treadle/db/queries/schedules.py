"""Queries of schedules: what code declares, what is due, and what operators change."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from treadle.db.queries.operations import audit_params
from treadle.db.query import Query, Rows, call, statement
from treadle.text.exceptions import clean_error
from treadle.words.errors import InvalidArgument, UnknownSchedule, shown
from treadle.words.naming import text_within
from treadle.words.schedule import Declaration, DueSchedule, Plan, ScheduleRow
from treadle.words.schedule_status import HISTORY, STATES, Occurrence, ScheduleList, ScheduleStatus

# Schedules are counted up to this.
COUNT_LIMIT = 1000
_DUE = ", ".join(DueSchedule._fields)


class Enqueued(NamedTuple):
    """What was done for a schedule that was due."""

    name: str
    jobs: int
    error: str | None


def declare(declarations: Sequence[Declaration]) -> Query[set[str]]:
    """Returns the names of those that are in force as declared."""
    rows = [{**_columns(each._asdict()), "digest": each.digest} for each in declarations]
    return call("declare_schedules", {"schedules": json.dumps(rows)}, lambda rows: set(rows[0][0]))


def renew(digests: Mapping[str, str]) -> Query[set[str]]:
    """Declare again what is known as declared, by name and digest. Returns the names of those that are."""
    rows = [{"name": name, "digest": digest} for name, digest in digests.items()]
    return call("declare_schedules", {"schedules": json.dumps(rows)}, lambda rows: set(rows[0][0]))


def find_due(limit: int, declared: Collection[str] | None = None) -> Query[list[DueSchedule]]:
    """Those that are due or have no time yet, and the first that is due later. `declared`: of those that are declared
    in code, only these digests."""
    params = {"limit": limit, "declared": None if declared is None else list(declared)}
    return call("find_due_schedules", params, lambda rows: list(map(DueSchedule._make, rows)), _DUE, often=True)


def enqueue(due: Mapping[DueSchedule, Plan | str]) -> Query[list[Enqueued]]:
    """Enqueue what was planned for each, or note the error. Returns those for which nobody else has done it."""
    orders = [_order(schedule, planned) for schedule, planned in due.items()]
    return call(
        "enqueue_occurrences",
        {"due": json.dumps(orders)},
        lambda rows: list(map(Enqueued._make, rows)),
        columns="name, enqueued, error",
        makes_due=True,
    )


def prune() -> Query[int]:
    return call("prune_schedules", {}, lambda rows: int(rows[0][0]))


def find_schedules(name: str | None = None) -> Query[list[ScheduleRow]]:
    return Query(statement("find_schedules"), {"name": name}, lambda rows: list(map(ScheduleRow._make, rows)))


def find_statuses(
    after: str | None = None,
    limit: int = 50,
    *,
    search: str | None = None,
    state: str | None = None,
    name: str | None = None,
    history: int = HISTORY,
) -> Query[ScheduleList]:
    """A page of the schedules, in the order of their names, after the schedule `after`. `search` is a part of their
    name or job type; with `name`, only that one."""
    if state is not None and state not in STATES:
        raise InvalidArgument(f"state must be one of {', '.join(STATES)}, got {shown(state)}")
    params = {
        "after": "" if after is None else schedule_name(after),
        "limit": limit + 1,
        "search": None if search is None else text_within(search, 100, "search"),
        "state": state,
        "name": None if name is None else schedule_name(name),
        "history": history,
        "count_limit": COUNT_LIMIT,
    }

    def read(rows: Rows) -> ScheduleList:
        at, count = rows[0][:2]
        found = [_status(row[2:]) for row in rows if row[2] is not None]
        following = found[limit - 1].name if len(found) > limit else None
        return ScheduleList(at, found[:limit], following, min(count, COUNT_LIMIT), count <= COUNT_LIMIT)

    return Query(statement("find_schedule_statuses"), params, read)


def put(
    name: str,
    given: Mapping[str, Any],
    exists: bool | None = None,
    actor: str | None = None,
    reason: str | None = None,
) -> Query[bool]:
    """Add or change a schedule. `given` are columns; those that are left out keep their values or get their defaults.
    `exists`: None adds or changes, False only adds, True only changes."""
    columns = _columns(given)
    data = columns.pop("data", None)
    params = {
        "name": schedule_name(name),
        "job_type": columns.pop("job_type", None),
        "expression": columns.pop("expression", None),
        "data": None if data is None else json.dumps(data),
        "timezone": columns.pop("timezone", None),
        "options": json.dumps(columns),
        "exists": exists,
        **audit_params(actor, reason),
    }
    return call("put_schedule", params, lambda rows: _changed(rows, name), makes_due=True)


def operate(action: str, name: str, actor: str | None = None, reason: str | None = None) -> Query[bool]:
    """Pause, resume, run or delete a schedule. Returns False if there was nothing to change."""
    params = {"action": action, "name": schedule_name(name), **audit_params(actor, reason)}
    return call("operate_schedule", params, lambda rows: _changed(rows, name), makes_due=True)


def schedule_name(name: str) -> str:
    return text_within(name, 100, "the name of a schedule")


def _status(row: tuple[Any, ...]) -> ScheduleStatus:
    *columns, times, jobs, outcomes = row
    history = map(Occurrence, times or (), jobs or (), outcomes or ())
    return ScheduleStatus._make([*columns, list(history)])


def _order(schedule: DueSchedule, planned: Plan | str) -> dict[str, object]:
    order: dict[str, object] = {"name": schedule.name, "expected": _json(schedule.next_at)}
    if isinstance(planned, str):
        return order | {"error": clean_error(planned)}
    return order | {
        "times": list(map(_json, planned.times)),
        "missed": list(map(_json, planned.missed)),
        "next": _json(planned.next_at),
    }


def _columns(given: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON values. The payload is JSON text already."""
    return {name: json.loads(value) if name == "data" else _json(value) for name, value in given.items()}


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value.total_seconds()} s"
    return value


def _changed(rows: Rows, name: str) -> bool:
    match rows[0][0]:
        case "missing":
            raise UnknownSchedule(name)
        case "exists":
            raise InvalidArgument(f"there is already a schedule {name!r}; change it, or choose another name")
        case "declared":
            raise InvalidArgument(f"schedule {name!r} is declared in code: change the code, or pause the schedule")
        case outcome:
            return bool(outcome == "done")
