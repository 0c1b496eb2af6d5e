"""The same in the style of pytest-django: run by `pytest shop/pytest_orders.py`."""

import pytest

from shop.jobs import pay
from shop.models import Order
from treadle.contrib.django.models import Job


@pytest.mark.django_db
@pytest.mark.parametrize("order", [1, 2])
def test_a_job_is_rolled_back_with_its_test(order):
    assert not Job.objects.exists()
    handle = pay.enqueue(order=order)
    assert Job.objects.get().id == handle.id


@pytest.mark.django_db
def test_callbacks_that_enqueue_run_at_the_commit(django_capture_on_commit_callbacks):
    from django.db import transaction

    with django_capture_on_commit_callbacks(execute=True) as callbacks:
        transaction.on_commit(lambda: pay.enqueue(order=1))
    assert (len(callbacks), Job.objects.count()) == (1, 1)


def test_without_the_mark_nothing_is_enqueued():
    with pytest.raises(RuntimeError, match="Database access not allowed"):
        pay.enqueue(order=1)


def test_jobs_run_in_the_transaction_of_the_test(treadle):
    order = Order.objects.create(text="a book")
    pay.enqueue(order=order.id)
    treadle.assert_enqueued(pay, order=order.id)
    assert treadle.drain().completed == 1
    order.refresh_from_db()
    assert order.paid
