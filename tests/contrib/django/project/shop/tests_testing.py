"""treadle.testing in tests of Django: run by `manage.py test`."""

from datetime import timedelta

from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.test import TestCase

from shop.jobs import apay, count, pay, save
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

    async def test_an_async_test_drains_what_a_view_has_enqueued(self):
        await self.async_client.get("/order/", {"text": "another"})
        handle = await apay.aenqueue(order=self.order.id)
        self.assertEqual((await self.treadle.adrain()).completed, 2)
        self.assertEqual(await handle.aresult(), 3)
        self.assertEqual(await Order.objects.filter(paid=True).acount(), 2)

    async def test_a_sync_drain_in_an_async_test(self):
        await apay.aenqueue(order=self.order.id)
        await sync_to_async(pay.enqueue)(order=self.order.id)
        self.assertEqual((await sync_to_async(self.treadle.drain)()).completed, 2)
        await self.order.arefresh_from_db()
        self.assertTrue(self.order.paid)

    def test_async_handlers_see_the_transaction_of_the_test(self):
        apay.enqueue(order=self.order.id)
        self.assertEqual(self.treadle.drain().completed, 1)
        self.assert_paid()

    async def test_a_handler_that_saves_in_an_async_test(self):
        handle = await save.aenqueue(order=self.order.id)
        self.assertEqual((await self.treadle.adrain()).completed, 1)
        self.assertEqual((await handle.ajob()).checkpoint, self.order.id)

    async def test_inline_in_an_async_test(self):
        with self.treadle.inline():
            await apay.aenqueue(order=self.order.id)
            await self.async_client.get("/order/", {"text": "another"})
        self.assertEqual(await Order.objects.filter(paid=True).acount(), 2)

    async def test_an_async_handler_is_called_by_an_async_test(self):
        await apay(order=self.order.id)
        self.assertTrue((await Order.objects.aget()).paid)
