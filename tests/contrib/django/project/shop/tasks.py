"""Tasks of Django 6, which run as jobs."""

from django.tasks import TaskContext, task

from shop.models import Order


class Broken(Exception):
    pass


@task
def add(one: int, two: int = 2) -> int:
    return one + two


@task(priority=50, queue_name="mail")
async def count_orders() -> dict[str, list[int]]:
    return {"orders": [await Order.objects.acount()]}


@task(takes_context=True)
def context_of(context: TaskContext, word: str) -> list[object]:
    result = context.task_result
    return [result.id, context.attempt, result.status, word, len(result.worker_ids)]


@task
def fail(message: str) -> None:
    raise Broken(message)


@task
def fail_for_good() -> None:
    raise KeyError("missing")


@task(takes_context=True)
def fail_once(context: TaskContext) -> int:
    if context.attempt == 1:
        raise ValueError("two\nlines")
    return context.attempt


@task
def return_a_function() -> object:
    return print


@task
def a_task_with_a_name_that_makes_its_path_longer_than_a_job_type() -> None: ...
