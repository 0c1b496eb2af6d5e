"""The tests of the shop: requests without a network, jobs without a worker."""

import asyncio

import pytest
from fastapi.testclient import TestClient
from shop.jobs import app, pack, take_stock

from treadle.testing import Harness, make_job


def test_an_order_is_packed(bob: TestClient, treadle: Harness) -> None:
    made = bob.post("/orders", json={"item": "loom", "boxes": 2}).json()
    treadle.assert_enqueued(pack, order=made["order"], boxes=2)
    assert bob.get(f"/jobs/{made['job']}").json()["status"] == "pending"
    assert treadle.drain().completed == 1
    assert bob.get(f"/orders/{made['order']}").json() == {"item": "loom", "packed": 2}
    assert bob.get(f"/jobs/{made['job']}").json()["result"] == f"order {made['order']} is on its way"


@pytest.mark.parametrize("again", [1, 2])
def test_an_order_that_is_rolled_back_has_no_job(bob: TestClient, treadle: Harness, again: int) -> None:
    assert bob.post("/orders", json={"item": "unicorn"}).status_code == 409
    treadle.assert_not_enqueued(pack)
    assert bob.get("/orders/1").status_code == 404


def test_without_signing_in_nothing_is_shown(client: TestClient, treadle: Harness) -> None:
    job = app.queue.enqueue("pack", {"order": 1, "boxes": 1})
    for path in (f"/jobs/{job}", "/orders/1", f"/progress/jobs/{job}/events", "/queue/", "/queue/api/jobs"):
        assert client.get(path).status_code == 401, path
    assert client.post("/sign-in", json={"name": "bob", "password": "x"}).status_code == 401


def test_the_dashboard_is_for_the_staff(bob: TestClient) -> None:
    assert bob.get("/queue/").status_code == 401


def test_the_staff_sees_the_dashboard(ada: TestClient, treadle: Harness) -> None:
    ada.post("/orders", json={"item": "loom"})
    page = ada.get("/queue/jobs")
    assert page.status_code == 200
    assert "pack" in page.text
    assert [job["job_type"] for job in ada.get("/queue/api/jobs").json()["jobs"]] == ["pack"]


def test_progress_is_streamed(bob: TestClient, treadle: Harness) -> None:
    made = bob.post("/orders", json={"item": "loom", "boxes": 2}).json()
    treadle.drain()
    told = bob.get(f"/progress/jobs/{made['job']}/events").text
    assert [line for line in told.splitlines() if line == "event: packed"] == ["event: packed"] * 2
    assert '{"status": "completed"}' in told or '{"status":"completed"}' in told


def test_taking_stock_goes_on_where_it_was_interrupted() -> None:
    job = make_job(take_stock, checkpoint=1)
    assert asyncio.run(take_stock(job)) == 1
