"""The handlers of tasks, one for all sync tasks and one for all async ones: the payload says which task it is."""

from dataclasses import replace
from typing import Any

from asgiref.sync import sync_to_async
from django.tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
from django.tasks.base import TaskError
from django.tasks.signals import task_finished, task_started
from django.utils import timezone

from treadle.attempt.job import Job
from treadle.contrib.django.application import app
from treadle.contrib.django.task_results import path_of, plain
from treadle.text.exceptions import format_traceback
from treadle.words.control import Cancel, RateLimited, Snooze
from treadle.words.errors import JobInterrupted

# These do not end a task: it runs again.
_UNFINISHED = (Snooze, RateLimited, JobInterrupted)


def run_task(
    job: Job,
    backend: str,
    task: str,
    args: list[Any],
    kwargs: dict[str, Any],
    enqueued_at: str,
    run_after: str | None = None,
) -> Any:
    running = task_backends[backend].started_result(job)
    sender = type(task_backends[backend])
    task_started.send(sender, task_result=running)
    try:
        returned = plain(running.task.func(*_arguments(running), **running.kwargs))
    except BaseException as error:
        if ended := _failed(running, job, error):
            task_finished.send(sender, task_result=ended)
        raise
    task_finished.send(sender, task_result=_successful(running, returned))
    return returned


async def arun_task(
    job: Job,
    backend: str,
    task: str,
    args: list[Any],
    kwargs: dict[str, Any],
    enqueued_at: str,
    run_after: str | None = None,
) -> Any:
    chosen = task_backends[backend]
    running = await sync_to_async(chosen.started_result)(job)
    await task_started.asend(type(chosen), task_result=running)
    try:
        returned = plain(await running.task.func(*_arguments(running), **running.kwargs))
    except BaseException as error:
        if ended := _failed(running, job, error):
            await task_finished.asend(type(chosen), task_result=ended)
        raise
    await task_finished.asend(type(chosen), task_result=_successful(running, returned))
    return returned


def _arguments(running: TaskResult) -> list[Any]:
    return [TaskContext(task_result=running), *running.args] if running.task.takes_context else running.args


def _successful(running: TaskResult, returned: Any) -> TaskResult:
    ended = replace(running, status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now())
    object.__setattr__(ended, "_return_value", returned)
    return ended


def _failed(running: TaskResult, job: Job, error: BaseException) -> TaskResult | None:
    """None if this is not the end: there is another attempt, or the worker stops."""
    if job.cancelled or isinstance(error, _UNFINISHED):
        return None
    if job.attempt < job.max_attempts and not _is_final(error, job):
        return None
    told = TaskError(exception_class_path=path_of(error), traceback=format_traceback(error))
    return replace(running, status=TaskResultStatus.FAILED, finished_at=timezone.now(), errors=[*running.errors, told])


def _is_final(error: BaseException, job: Job) -> bool:
    """Whether the options of the backend say that it is not retried."""
    return isinstance(error, Cancel) or app.function(job.type).policy.retry.gives_up_on(error)
