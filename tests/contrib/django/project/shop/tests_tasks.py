"""Treadle as a backend of django.tasks: run by `manage.py test` with Django 6."""

import asyncio
from datetime import datetime, timedelta
from unittest import skipIf
from uuid import uuid4

import django
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from shop.jobs import pay
from shop.models import Order
from treadle.contrib.django import app
from treadle.contrib.django.models import Job
from treadle.testing import TreadleMixin, prepare

old = django.VERSION < (6,)
if not old:
    from django.tasks import TaskResultStatus, default_task_backend, task, task_backends
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist, TaskResultMismatch
    from django.tasks.signals import task_enqueued, task_finished, task_started

    from shop import tasks

    @task
    def elsewhere(number):
        return number


def hear(test, *signals):
    """What these signals send, while the test runs."""
    heard = []

    def note(sender, task_result, signal, **options):
        heard.append((signal, task_result, task_result.status, sender))

    for signal in signals:
        signal.connect(note)
        test.addCleanup(signal.disconnect, note)
    return heard


@skipIf(old, "django.tasks came with Django 6")
class Enqueueing(TestCase):
    def test_a_task_is_a_job_of_the_transaction(self):
        heard = hear(self, task_enqueued)
        with self.assertNumQueries(1):
            result = tasks.add.enqueue(1, two=3)
        self.assertEqual((result.status, result.args, result.kwargs), (TaskResultStatus.READY, [1], {"two": 3}))
        self.assertEqual((result.attempts, result.errors, result.is_finished), (0, [], False))
        job = Job.objects.get(id=result.id)
        self.assertEqual((job.job_type, job.queue, job.priority), ("shop.tasks.add", "default", 100))
        self.assertEqual([(each[1], each[3]) for each in heard], [(result, type(task_backends["default"]))])
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            tasks.add.enqueue(1)
            raise ZeroDivisionError
        self.assertEqual(Job.objects.count(), 1)

    def test_each_task_that_every_process_imports_has_a_job_type(self):
        name = "a_task_with_a_name_that_makes_its_path_longer_than_a_job_type"
        found = [each for each in app.job_types if each.startswith(name[:30])]
        (job_type,) = [each for each in found if not app.function(each).policy.process]
        self.assertEqual((len(job_type), job_type[:42]), (50, f"{name[:41]}."))
        self.assertEqual(Job.objects.get(id=getattr(tasks, name).enqueue().id).job_type, job_type)
        result = elsewhere.enqueue(7)  # this module is imported by nobody else
        self.assertEqual(Job.objects.get(id=result.id).job_type, "django_task")
        self.assertEqual(elsewhere.get_result(result.id).args, [7])

    def test_options_of_the_task_and_of_using(self):
        later = timezone.now() + timedelta(days=1)
        job = Job.objects.get(id=tasks.count_orders.enqueue().id)
        self.assertEqual((job.job_type, job.queue, job.priority), ("shop.tasks.count_orders", "mail", 150))
        result = tasks.add.using(priority=-100, queue_name="mail", run_after=later).enqueue(1)
        job = Job.objects.get(id=result.id)
        self.assertEqual((job.queue, job.priority, job.run_at), ("mail", 0, later))
        found = tasks.add.get_result(result.id).task
        self.assertEqual((found.priority, found.queue_name, found.run_after), (-100, "mail", later))
        self.assertEqual(found, result.task)

    def test_an_operator_may_choose_what_django_would_refuse(self):
        result = tasks.add.enqueue(1)
        with connection.cursor() as cursor:
            cursor.execute("update treadle.jobs set priority = 1000, queue = 'slow'")
        result.refresh()
        found = tasks.add.get_result(result.id).task
        self.assertEqual((found.priority, found.queue_name), (100, "default"))

    @override_settings(USE_TZ=False)
    def test_times_without_a_zone(self):
        later = datetime(2040, 1, 1, 12)
        result = tasks.add.using(run_after=later).enqueue(1)
        found = tasks.add.get_result(result.id)
        self.assertEqual((found.task.run_after, found.enqueued_at.tzinfo), (later, None))
        self.assertEqual(app.queue.get(result.id).run_at, timezone.make_aware(later))

    def test_results_of_other_jobs_do_not_exist(self):
        result = tasks.add.enqueue(1)
        with self.assertRaises(TaskResultMismatch):
            tasks.fail.get_result(result.id)
        for other in (str(uuid4()), "not an id", str(pay.enqueue(order=1).id)):
            with self.assertRaises(TaskResultDoesNotExist):
                default_task_backend.get_result(other)

    def test_what_is_not_json_is_refused(self):
        with self.assertRaises(TypeError):
            tasks.add.enqueue(datetime.now())
        with self.assertRaises(InvalidTask):
            tasks.add.using(queue_name="unknown")

    async def test_the_async_twins(self):
        result = await tasks.add.aenqueue(1)
        self.assertEqual((await tasks.add.aget_result(result.id)).args, [1])
        await result.arefresh()
        with self.assertRaises(TaskResultDoesNotExist):
            await default_task_backend.aget_result(str(uuid4()))

    def test_a_cancelled_task_has_failed(self):
        result = tasks.add.enqueue(1)
        app.handle(result.id).cancel("not needed")
        result.refresh()
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertEqual([each.exception_class.__name__ for each in result.errors], ["JobCancelled"])
        self.assertEqual(result.errors[0].traceback, "not needed")


@skipIf(old, "django.tasks came with Django 6")
class Running(TransactionTestCase):
    def tearDown(self):
        with connection.cursor() as cursor:
            cursor.execute("delete from treadle.jobs")

    def finish(self, *results):
        """Run until all have finished, whether well or not."""

        async def finish():
            async with app.worker(concurrency=4):
                async with asyncio.timeout(30):
                    while not all(each.is_finished for each in results):
                        for each in results:
                            await each.arefresh()
                        await asyncio.sleep(0.02)
            await app.aclose()

        async_to_sync(finish)()

    def test_results_of_tasks(self):
        heard = hear(self, task_started, task_finished)
        added, counted, context = tasks.add.enqueue(1), tasks.count_orders.enqueue(), tasks.context_of.enqueue("hello")
        other = elsewhere.enqueue(7)
        self.finish(added, counted, context, other)
        self.assertEqual(other.return_value, 7)
        self.assertEqual((added.return_value, counted.return_value), (3, {"orders": [0]}))
        self.assertEqual(context.return_value, [context.id, 1, "RUNNING", "hello", 1])
        for result in (added, counted, context):
            self.assertEqual((result.status, result.attempts, result.errors), (TaskResultStatus.SUCCESSFUL, 1, []))
            self.assertEqual(len(result.worker_ids), 1)
            self.assertTrue(result.enqueued_at <= result.started_at <= result.finished_at)
            self.assertEqual(result.started_at, result.last_attempted_at)
            sent = [(signal, status) for signal, task_result, status, _ in heard if task_result.id == result.id]
            expected = [(task_started, TaskResultStatus.RUNNING), (task_finished, TaskResultStatus.SUCCESSFUL)]
            self.assertEqual(sent, expected)

    def test_a_task_that_fails(self):
        """TASKS has Retries(1): it is tried again, and the end is told once."""
        heard = hear(self, task_finished)
        failed, recovered = tasks.fail.enqueue("no"), tasks.fail_once.enqueue()
        unsuitable = tasks.return_a_function.enqueue()
        self.finish(failed, recovered, unsuitable)
        self.assertEqual((failed.status, failed.attempts, len(failed.errors)), (TaskResultStatus.FAILED, 2, 2))
        for error in failed.errors:
            self.assertIs(error.exception_class, tasks.Broken)
            self.assertIn("shop.tasks.Broken: no", error.traceback)
        with self.assertRaisesMessage(ValueError, "Task failed"):
            failed.return_value  # noqa: B018
        self.assertEqual((recovered.status, recovered.return_value), (TaskResultStatus.SUCCESSFUL, 2))
        self.assertEqual([each.exception_class for each in recovered.errors], [ValueError])
        self.assertEqual([each.exception_class for each in unsuitable.errors], [TypeError] * 2)
        self.assertEqual(len(recovered.worker_ids), 2)
        self.assertLess(failed.started_at, failed.last_attempted_at)
        ends = sorted((each.task.name, status, len(each.errors)) for _, each, status, _ in heard)
        self.assertEqual(
            ends,
            [
                ("fail", TaskResultStatus.FAILED, 2),
                ("fail_once", TaskResultStatus.SUCCESSFUL, 1),
                ("return_a_function", TaskResultStatus.FAILED, 2),
            ],
        )

    def test_a_task_whose_error_is_not_retried_is_told_at_once(self):
        heard = hear(self, task_finished)
        result = tasks.fail_for_good.enqueue()
        self.finish(result)
        self.assertEqual((result.attempts, [each.exception_class for each in result.errors]), (1, [KeyError]))
        self.assertEqual([status for _, _, status, _ in heard], [TaskResultStatus.FAILED])

    def test_another_backend_has_job_types_of_its_own(self):
        self.assertIn("shop.tasks.add.apart", app.job_types)
        for name in ("shop.tasks.add.apart", "django_task.apart"):
            self.assertTrue(app.function(name).policy.process)
        result = tasks.add.using(backend="apart").enqueue(1)
        self.assertEqual(Job.objects.get(id=result.id).job_type, "shop.tasks.add.apart")
        self.assertEqual(result.backend, "apart")
        with self.assertRaises(TaskResultDoesNotExist):
            task_backends["default"].get_result(result.id)
        self.assertEqual(task_backends["apart"].get_result(result.id).task.backend, "apart")


@skipIf(old, "django.tasks came with Django 6")
class Drained(TreadleMixin, TestCase):
    """By treadle.testing, in the transaction of the test."""

    treadle_app = app

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        prepare(app.database.url)

    def treadle_connection(self):
        return connection

    def enqueue(self):
        return [tasks.add.enqueue(1), tasks.count_orders.enqueue(), tasks.context_of.enqueue("hello")]

    def check(self, results):
        Order.objects.create(text="a book")
        for each in results:
            each.refresh()
        self.assertEqual([each.return_value for each in results[:2]], [3, {"orders": [0]}])

    def test_in_a_sync_test(self):
        results = self.enqueue()
        self.assertEqual(self.treadle.drain().completed, 3)
        self.check(results)

    async def test_in_an_async_test(self):
        results = [*await sync_to_async(self.enqueue)(), await tasks.count_orders.aenqueue()]
        self.assertEqual((await self.treadle.adrain()).completed, 4)
        await sync_to_async(self.check)(results)

    async def test_with_a_sync_drain_in_an_async_test(self):
        results = await sync_to_async(self.enqueue)()
        self.assertEqual((await sync_to_async(self.treadle.drain)()).completed, 3)
        await sync_to_async(self.check)(results)
