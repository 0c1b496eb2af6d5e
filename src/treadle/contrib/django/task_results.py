"""What Django calls a TaskResult, made of a job."""

import json
import re
from datetime import datetime
from typing import Any

from django.conf import settings
from django.tasks.base import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY, Task, TaskError, TaskResult, TaskResultStatus
from django.utils import timezone
from django.utils.json import normalize_json
from django.utils.module_loading import import_string

from treadle.words.job import JobError, JobRow
from treadle.words.priority import Priority
from treadle.words.status import Status

# Django has no status for jobs that were cancelled. A claimed job may wait until its worker has room.
STATUSES = {
    Status.PENDING: TaskResultStatus.READY,
    Status.CLAIMED: TaskResultStatus.READY,
    Status.RUNNING: TaskResultStatus.RUNNING,
    Status.COMPLETED: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
}


def priority_of(task: Task) -> int:
    """Django's 0 is the default of Treadle, and both run higher ones first: -100 to 100 becomes 0 to 200."""
    return int(Priority.DISCOVERED + task.priority)


def path_of(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def task_of(path: str, alias: str, queues: set[str], priority: int, queue: str, run_after: str | None) -> Task:
    """The task as it was enqueued. An operator may have chosen a queue or priority that Django would refuse."""
    task = import_string(path)
    if not isinstance(task, Task):
        raise TypeError(f"expected {path} to be a task, got {task!r}; decorate it with @task")
    within = min(TASK_MAX_PRIORITY, max(TASK_MIN_PRIORITY, priority - Priority.DISCOVERED))
    return task.using(
        priority=within,
        queue_name=queue if not queues or queue in queues else None,
        run_after=None if run_after is None else datetime.fromisoformat(run_after),
        backend=alias,
    )


def result_of(task: Task, alias: str, row: JobRow, errors: list[JobError]) -> TaskResult:
    data: Any = row.data
    result = TaskResult(
        task=task,
        id=str(row.id),
        status=STATUSES[row.status],
        enqueued_at=datetime.fromisoformat(data["enqueued_at"]),
        started_at=in_zone(errors[0].started_at if errors and errors[0].started_at else row.started_at),
        last_attempted_at=in_zone(row.started_at or (errors[-1].started_at if errors else None)),
        finished_at=in_zone(row.finished_at),
        args=data["args"],
        kwargs=data["kwargs"],
        backend=alias,
        errors=[error_of(each.error, each.traceback) for each in errors],
        worker_ids=[each.worker_id or "" for each in errors],
    )
    if row.status == Status.CANCELLED:
        result.errors.append(TaskError(exception_class_path="treadle.JobCancelled", traceback=row.last_error or ""))
    if row.status not in (Status.PENDING, Status.FAILED) and row.worker_id is not None:
        result.worker_ids.append(row.worker_id)
    object.__setattr__(result, "_return_value", row.result)
    return result


def error_of(error: str, traceback: str | None) -> TaskError:
    """The class is named in the traceback. Without one, no exception was raised: it timed out, or its process died."""
    if traceback is None:
        return TaskError(exception_class_path="treadle.JobFailed", traceback=error)
    name = re.escape(error.partition(":")[0])
    found = re.findall(rf"^((?:[\w<>]+\.)*){name}(?::|$)", traceback, re.MULTILINE)
    module = found[-1] if found else ""
    return TaskError(exception_class_path=f"{module or 'builtins.'}{error.partition(':')[0]}", traceback=traceback)


def plain(value: Any) -> Any:
    """As JSON brings it back: a tuple becomes a list, and a SafeString or a choice becomes a str. Raises TypeError."""
    return json.loads(json.dumps(normalize_json(value)))


def in_zone(moment: datetime | None) -> datetime | None:
    """As Django has times: without a zone if USE_TZ is False."""
    if moment is None or settings.USE_TZ:
        return moment
    return timezone.make_naive(moment) if timezone.is_aware(moment) else moment
