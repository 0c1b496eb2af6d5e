"""Found by its name: nothing imports it before the start."""

import os

from asgiref.sync import sync_to_async
from django.db import connection

from shop.models import Order
from treadle import Job, JobGroup, Retries
from treadle.contrib.django import job

more = JobGroup()


@job
def pay(order: int) -> int:
    Order.objects.filter(id=order).update(paid=True)
    return session()


@job
async def apay(order: int) -> int:
    found = await Order.objects.aget(id=order)
    found.paid = True
    await found.asave()
    return (await Order.objects.acount()) + 1


@job(process=True)
def pay_in_a_process(order: int) -> int:
    Order.objects.filter(id=order).update(paid=True)
    return session()


@job(process=True)
async def apay_in_a_process(order: int) -> int:
    await Order.objects.filter(id=order).aupdate(paid=True)
    return os.getpid()


@more.job
def count() -> int:
    return Order.objects.count()


@job
def save(order: int, job: Job) -> None:
    job.save(order)
    job.event("saved")


@job
def save_in_a_transaction(order: int, job: Job) -> None:
    """What a handler saves is kept although its transaction is rolled back; what it enqueues is not."""
    from django.db import transaction

    if job.checkpoint is None:
        with transaction.atomic():
            Order.objects.filter(id=order).update(paid=True)
            job.save("saved")
            count.enqueue()
            raise ValueError("the first attempt fails")


@job(retry=Retries(0))
def leave_a_block_open(order: int) -> None:
    from django.db import transaction

    transaction.atomic().__enter__()
    Order.objects.filter(id=order).update(paid=True)


def session() -> int:
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return cursor.fetchone()[0]


@job
def lose_its_connection(order: int, job: Job) -> None:
    if job.attempt == 1:
        with connection.cursor() as cursor:
            cursor.execute("select pg_terminate_backend(pg_backend_pid())")
    Order.objects.filter(id=order).update(paid=True)


@job
async def meet(order: int) -> None:
    """Ends when two of them run at once."""
    await sync_to_async(wait_for_another)()


def wait_for_another() -> None:
    """Until two sessions have the lock, which is shared. One that has seen the other keeps it until its end."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_lock_shared(2)")
        for _ in range(200):
            cursor.execute("select count(*) from pg_locks where locktype = 'advisory' and objid = 2 and granted")
            if cursor.fetchone()[0] == 2:
                cursor.execute("select pg_sleep(0.2)")
                return
            cursor.execute("select pg_sleep(0.05)")
    raise TimeoutError("the other one does not run")
