"""enqueue() is part of what Django's connection does: run by `manage.py test`."""

from uuid import uuid4

from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from shop.jobs import apay, count, pay, save_in_a_transaction
from shop.models import Order
from treadle import Cron, JobNotFound, Status, Workflow
from treadle.contrib.django import app
from treadle.contrib.django.models import Job


class Failure(Exception):
    pass


def fail_after(enqueue):
    with transaction.atomic():
        enqueue()
        raise Failure


class InATestCase(TestCase):
    """Each test finds the table empty, because the transaction of the one before was rolled back."""

    def setUp(self):
        self.assertEqual(Job.objects.count(), 0)

    def test_a_job_is_part_of_the_transaction_of_the_test(self):
        with self.assertNumQueries(1):
            handle = pay.enqueue(order=1)
        self.assertEqual(Job.objects.get(id=handle.id).data, {"order": 1})
        self.assertEqual(handle.status(), Status.PENDING)
        self.assertEqual(app.queue.get(handle.id).job_type, "pay")

    def test_a_job_is_rolled_back_with_a_block(self):
        with self.assertRaises(Failure):
            fail_after(lambda: pay.enqueue(order=1))
        self.assertEqual(Job.objects.count(), 0)

    def test_all_ways_to_enqueue_are_rolled_back(self):
        flow = Workflow("orders")
        flow.add(pay.call(order=1))
        ways = (
            lambda: pay.enqueue_many({"order": n} for n in range(3)),
            flow.enqueue,
            lambda: app.queue.enqueue("pay", {"order": 1}),
            lambda: app.batch("orders").close(),
            lambda: pay.enqueue(order=1).cancel(),
            lambda: app.handle(app.queue.enqueue("pay", {"order": 1})).cancel(),
        )
        for way in ways:
            with self.assertRaises(Failure):
                fail_after(way)
            self.assertEqual(Job.objects.count(), 0)

    def test_schedules_pauses_and_stored_content_are_rolled_back(self):
        with self.assertRaises(Failure):
            fail_after(lambda: app.schedules.add("nightly", Cron("0 3 * * *"), count))
        self.assertEqual(app.schedules(), [])
        app.schedules.add("nightly", Cron("0 3 * * *"), count)
        self.assertEqual(app.read(app.store(b"content")), b"content")

    async def test_aenqueue_uses_the_connection_of_the_async_orm(self):
        handle = await apay.aenqueue(order=1)
        self.assertEqual((await Job.objects.aget(id=handle.id)).status, "pending")
        self.assertEqual(await handle.astatus(), Status.PENDING)
        await handle.acancel("not needed")
        self.assertEqual((await Job.objects.aget()).last_error, "not needed")

    async def test_enqueue_on_the_event_loop_is_refused_as_every_query_is(self):
        from django.core.exceptions import SynchronousOnlyOperation

        with self.assertRaises(SynchronousOnlyOperation):
            pay.enqueue(order=1)

    def test_functions_can_be_called(self):
        order = Order.objects.create(text="a book")
        pay(order.id)
        order.refresh_from_db()
        self.assertTrue(order.paid)
        self.assertEqual(count(), 1)

    def test_the_model_is_for_reading(self):
        job = Job.objects.get(id=pay.enqueue(order=1).id)
        for write in (
            job.save,
            job.delete,
            lambda: Job.objects.all().delete(),
            lambda: Job.objects.update(status="completed"),
            lambda: Job.objects.create(id=uuid4()),
            lambda: Job.objects.get_or_create(id=uuid4()),
            lambda: Job.objects.bulk_create([job]),
        ):
            with self.assertRaisesMessage(TypeError, "jobs are read-only here"):
                write()


class Requests(TransactionTestCase):
    def test_a_request_that_fails_has_enqueued_nothing(self):
        self.client.raise_request_exception = False
        self.assertEqual(self.client.get("/order/", {"text": "a book", "fail": "1"}).status_code, 500)
        self.assertEqual((Order.objects.count(), Job.objects.filter(job_type="pay").count()), (0, 0))
        response = self.client.get("/order/", {"text": "a book"})
        self.assertEqual(
            (Order.objects.count(), str(Job.objects.get(job_type="pay").id)), (1, response.content.decode())
        )


class Admin(TestCase):
    def setUp(self):
        self.client.force_login(User.objects.create_superuser("ada"))

    def test_jobs_are_listed_and_shown_without_secrets(self):
        job = app.queue.enqueue("pay", {"order": 7, "password": "hunter2"}, key="orders")
        listed = self.client.get("/admin/treadle/job/")
        self.assertContains(listed, str(job))
        self.assertNotContains(listed, "Add job")
        self.assertContains(self.client.get("/admin/treadle/job/", {"q": str(job)}), f">{job}<")
        self.assertContains(self.client.get("/admin/treadle/job/", {"q": "orders"}), f">{job}<")
        self.assertNotContains(self.client.get("/admin/treadle/job/", {"q": "another"}), f">{job}<")
        self.assertContains(self.client.get("/admin/treadle/job/", {"job_type": "pay", "status": "pending"}), str(job))
        self.assertNotContains(self.client.get("/admin/treadle/job/", {"job_type": "count"}), f">{job}<")
        shown = self.client.get(f"/admin/treadle/job/{job}/change/")
        self.assertContains(shown, "&quot;order&quot;: 7")
        self.assertNotContains(shown, "hunter2")
        self.assertNotContains(shown, 'name="_save"')

    def test_nobody_can_write(self):
        job = app.queue.enqueue("pay", {"order": 7})
        self.assertEqual(self.client.post(f"/admin/treadle/job/{job}/delete/", {"post": "yes"}).status_code, 403)
        self.assertEqual(self.client.post(f"/admin/treadle/job/{job}/change/", {"status": "failed"}).status_code, 403)
        self.assertEqual(self.client.get("/admin/treadle/job/add/").status_code, 403)


class WithAWorker(TransactionTestCase):
    """The worker uses the database of the test."""

    def tearDown(self):
        with connection.cursor() as cursor:
            cursor.execute("delete from treadle.jobs")

    def run_jobs(self, *handles):
        async def results():
            async with app.worker(concurrency=4):
                try:
                    return [await handle.aresult(timeout=30) for handle in handles]
                finally:
                    await app.aclose()

        return async_to_sync(results)()

    def test_a_job_sees_what_the_test_has_committed(self):
        order = Order.objects.create(text="a book")
        self.run_jobs(pay.enqueue(order=order.id))
        order.refresh_from_db()
        self.assertTrue(order.paid)
        self.assertEqual(self.run_jobs(apay.enqueue(order=order.id), count.enqueue()), [2, 1])

    def test_what_a_handler_saves_is_kept_although_its_transaction_is_rolled_back(self):
        order = Order.objects.create(text="a book")
        handle = save_in_a_transaction.enqueue(order=order.id)
        self.assertEqual(self.run_jobs(handle), [None])
        self.assertEqual((handle.job().attempts, handle.job().checkpoint), (2, "saved"))
        self.assertFalse(Job.objects.filter(job_type="count").exists())
        order.refresh_from_db()
        self.assertFalse(order.paid)

    def test_a_handle_of_another_job_is_not_found(self):
        with self.assertRaises(JobNotFound):
            app.handle(uuid4()).status()
