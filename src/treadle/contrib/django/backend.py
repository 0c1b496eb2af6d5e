"""A backend of django.tasks (Django 6): `TASKS = {"default": {"BACKEND": "treadle.contrib.django.TreadleBackend"}}`.

A task is a job of the application: workers, `manage.py treadle` and the dashboard have it like all others.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Any
from uuid import UUID

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.tasks import Task, TaskResult, TaskResultStatus
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.exceptions import TaskResultDoesNotExist
from django.tasks.signals import task_enqueued
from django.utils import timezone

from treadle.attempt.job import Job
from treadle.contrib.django.application import app
from treadle.contrib.django.task_handlers import arun_task, run_task
from treadle.contrib.django.task_results import plain, priority_of, result_of, task_of
from treadle.jobs.schedules import AnyFunction
from treadle.words.errors import JobNotFound, TreadleError

LONGEST_TYPE = 50
# By job type. Django makes a backend for each thread.
_declared: dict[str, AnyFunction] = {}


class TreadleBackend(BaseTaskBackend):  # type: ignore[misc]
    """OPTIONS are those of `@job`, for all tasks of this backend: `{"retry": Retries(0), "timeout": "5m"}`."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._suffix = "" if alias == "default" else f".{alias}"
        self._others: dict[bool, AnyFunction] = {
            False: self._function(f"django_task{self._suffix}", run_task),
            True: self._function(f"django_async_task{self._suffix}", arun_task),
        }
        """For tasks that workers may not have imported."""

    def declare(self, tasks: Iterable[Task]) -> None:
        """Give each of these tasks, which all processes import at their start, a job type of its own."""
        for task in tasks:
            _declared[self._type_of(task)] = self._function(self._type_of(task), _handler_of(task))

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TaskResult:
        self.validate_task(task)
        args, kwargs = plain(list(args)), plain(dict(kwargs))
        now = timezone.now()
        data: dict[str, Any] = {"backend": self.alias, "task": task.module_path, "args": args, "kwargs": kwargs}
        data["enqueued_at"] = now.isoformat()  # so that this result equals the one of get_result()
        run_after = task.run_after
        if run_after is not None:
            data["run_after"] = run_after.isoformat()
            run_after = run_after if timezone.is_aware(run_after) else timezone.make_aware(run_after)
        function = _declared.get(self._type_of(task)) or self._others[iscoroutinefunction(task.func)]
        enqueuer = function.using(priority=priority_of(task), queue=task.queue_name)
        handle = (enqueuer if run_after is None else enqueuer.using(run_at=run_after)).enqueue(**data)
        result = self._new_result(task, str(handle.id), args, kwargs, TaskResultStatus.READY, now)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        try:
            row = app.queue.get(UUID(str(result_id)))
        except (ValueError, JobNotFound):
            raise TaskResultDoesNotExist(result_id) from None
        data: Any = row.data
        known = {*_declared, *(each.name for each in self._others.values())}
        if row.job_type not in known or data["backend"] != self.alias:
            raise TaskResultDoesNotExist(result_id)
        task = task_of(data["task"], self.alias, self.queues, row.priority, row.queue, data.get("run_after"))
        errors = app.handle(row.id).errors() if row.attempts else []
        return result_of(task, self.alias, row, errors)

    def started_result(self, job: Job) -> TaskResult:
        """The result as a handler sees it."""
        given = job.arguments
        made = task_of(given["task"], self.alias, self.queues, job.priority, job.queue, given.get("run_after"))
        enqueued_at = datetime.fromisoformat(given["enqueued_at"])
        began = timezone.now()
        running = replace(
            self._new_result(made, str(job.id), given["args"], given["kwargs"], TaskResultStatus.RUNNING, enqueued_at),
            started_at=began,
            last_attempted_at=began,
            worker_ids=[job.worker_id],
        )
        if job.attempt == 1:
            return running
        before = self.get_result(str(job.id))
        workers = [*before.worker_ids[: job.attempt - 1], job.worker_id]
        return replace(running, started_at=before.started_at or began, errors=before.errors, worker_ids=workers)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        if apps.is_installed("treadle.contrib.django"):
            return []
        return [Error("INSTALLED_APPS has no 'treadle.contrib.django', which TreadleBackend needs.", id="treadle.E005")]

    def _type_of(self, task: Task) -> str:
        path = f"{task.module_path}{self._suffix}"
        if len(path) <= LONGEST_TYPE:
            return path
        digest = hashlib.sha256(path.encode()).hexdigest()[:8]
        return f"{task.name[: LONGEST_TYPE - 9]}.{digest}"

    def _function(self, name: str, handler: Any) -> AnyFunction:
        if name in app.job_types:  # Django makes a backend for each thread
            return app.function(name)
        try:
            made: AnyFunction = app.job(name=name, **self.options)(handler)
        except (TreadleError, TypeError) as error:
            from django.core.exceptions import ImproperlyConfigured

            raise ImproperlyConfigured(f"TASKS[{self.alias!r}]['OPTIONS'] is invalid: {error}") from error
        return made

    def _new_result(
        self, task: Task, job_id: str, args: Any, kwargs: Any, status: TaskResultStatus, enqueued_at: Any
    ) -> TaskResult:
        return TaskResult(
            task=task,
            id=job_id,
            status=status,
            enqueued_at=enqueued_at,
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )


def _handler_of(task: Task) -> Any:
    return arun_task if iscoroutinefunction(task.func) else run_task
