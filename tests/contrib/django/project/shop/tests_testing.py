"""treadle.testing in tests of Django: run by `manage.py test`."""

from datetime import timedelta

from django.db import connection, transaction
from django.test import TestCase

from shop.jobs import apay, count, pay
from shop.models import Order
from treadle.contrib.django import app
from treadle.contrib.django.models import Job
from treadle.testing import TreadleMixin, prepare


class WithAHarness(TreadleMixin, TestCase):
    treadle_app = app

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        prepare(app.database.url)

    def treadle_connection(self):
        return connection

    def setUp(self):
        super().setUp()
        self.assertEqual(Job.objects.count(), 0)
        self.order = Order.objects.create(text="a book")

    def assert_paid(self):
        self.order.refresh_from_db()
        self.assertTrue(self.order.paid)

    def test_a_drain_runs_jobs_in_the_transaction_of_the_test(self):
        pay.enqueue(order=self.order.id)
        self.treadle.assert_enqueued(pay, order=self.order.id)
        self.assertEqual(self.treadle.drain().completed, 1)
        self.assert_paid()

    def test_a_view_enqueues_and_inline_runs_it_at_once(self):
        with self.treadle.inline():
            self.client.get("/order/", {"text": "another"})
        self.assertEqual(Order.objects.filter(paid=True).count(), 1)

    def test_a_block_that_is_rolled_back(self):
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            pay.enqueue(order=self.order.id)
            raise ZeroDivisionError
        self.treadle.assert_not_enqueued(pay)

    def test_the_clock_can_be_moved(self):
        self.treadle.travel("1d")
        handle = count.using(delay="1d").enqueue()
        self.assertGreater(handle.job().run_at, self.treadle.now() + timedelta(hours=23))
        self.assertEqual(self.treadle.drain().completed, 0)
        self.treadle.travel("1d")
        self.assertEqual(self.treadle.drain().completed, 1)

    async def test_an_async_handler_is_called_by_an_async_test(self):
        await apay(order=self.order.id)
        self.assertTrue((await Order.objects.aget()).paid)
