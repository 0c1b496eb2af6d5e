"""Metrics for Prometheus: their values, their cost, and what the Grafana board and the alert rules make of them."""

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from chaos.proxy import Proxy
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from psycopg import Connection

from tests.conftest import Connect
from tests.support.buffers import buffers
from tests.support.dashboards import VIEWER, Site
from tests.support.roles import granted_roles
from treadle import Connections, JobQueue, Retries, Treadle
from treadle.contrib.prometheus import TreadleCollector
from treadle.db.queries.metrics import find_totals, get_database_metrics
from treadle.db.query import Query
from treadle.operations import metrics as page
from treadle.operations.metrics import MetricsPage, ametrics, exposition, metrics

ROOT = Path(__file__).parents[2]
Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def values_of(families: Any) -> Values:
    samples = [sample for family in families for sample in family.samples]
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}


def value(values: Values, name: str, **labels: str) -> float:
    return values[name, frozenset(labels.items())]


def read(app: Treadle) -> Values:
    return values_of(text_string_to_metric_families(exposition(metrics(app.database))))


@pytest.fixture
def busy(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> Treadle:
    """Of type a, 3 completed, 1 failed after 2 attempts, 4 wait; of type b, 1 was cancelled."""
    queue.enqueue_many("a", [{}] * 4, retry=Retries(1))
    failing, *others = queue.claim(["a"])
    for job in others:
        queue.start(job)
        queue.complete(job)
    queue.fail(failing, "no", delay=0)
    queue.fail(queue.claim(["a"])[0], "no")
    queue.cancel(queue.enqueue("b", queue="slow"))
    connection.execute(
        """update jobs set run_at = now() - interval '1 minute', claimed_at = now() - interval '59.85 s',
            started_at = now() - interval '40 s', finished_at = now()
        where id = %s""",
        [others[0].id],
    )
    queue.enqueue_many("a", [{}] * 3)
    queue.enqueue("a", delay="1h", priority=30)
    connection.execute("select count_minutes('0')")
    connection.execute("select register_worker('w', '1 minute', '{a}', null, 5, 'here', 7, '0.1')")
    return app


def test_metrics_show_what_waits_what_finished_and_who_works(busy: Treadle) -> None:
    found = read(busy)
    a = {"queue": "default", "job_type": "a"}
    assert value(found, "treadle_jobs_waiting", **a) == 4
    assert value(found, "treadle_jobs_waiting_is_estimated", **a) == 0
    assert 0 < value(found, "treadle_oldest_due_seconds", **a) < 60
    assert value(found, "treadle_paused", **a) == 0
    assert value(found, "treadle_jobs_finished_total", **a, status="completed") == 3
    assert value(found, "treadle_jobs_finished_total", **a, status="failed") == 1
    assert value(found, "treadle_jobs_finished_total", queue="slow", job_type="b", status="cancelled") == 1
    assert value(found, "treadle_attempts_failed_total", **a) == 2
    assert value(found, "treadle_workers", state="alive") == 1
    assert value(found, "treadle_workers", state="lost") == 0
    assert value(found, "treadle_worker_slots") == 5
    assert value(found, "treadle_jobs_claimed") == 0
    assert value(found, "treadle_table_bytes", part="indexes") > 8192
    assert value(found, "treadle_database_connections") >= 1


def test_histograms_count_each_completed_job_once(busy: Treadle) -> None:
    found = read(busy)
    a = {"queue": "default", "job_type": "a"}
    assert value(found, "treadle_job_run_seconds_count", **a) == 3
    assert value(found, "treadle_job_run_seconds_bucket", **a, le="20") == 2
    assert value(found, "treadle_job_run_seconds_bucket", **a, le="60") == 3
    assert value(found, "treadle_job_run_seconds_bucket", **a, le="+Inf") == 3
    assert 40 <= value(found, "treadle_job_run_seconds_sum", **a) < 60
    waited = {le: value(found, "treadle_job_wait_seconds_bucket", **a, le=le) for le in ("0.1", "0.2", "+Inf")}
    assert waited["0.2"] - waited["0.1"] >= 1
    assert waited["+Inf"] == 3


def test_counters_go_on_over_minutes_and_pruned_jobs(busy: Treadle, connection: Connection[Any]) -> None:
    before = read(busy)
    connection.execute("update minutes set minute = minute - interval '30 days'")
    connection.execute("delete from jobs")
    queue = JobQueue(busy.database)
    job_ids = queue.enqueue_many("a", [{}] * 3)
    connection.execute(
        """update jobs set status = 'completed', claimed_at = now(), started_at = now(),
            finished_at = now() - interval '90 s' * array_position(%s, id) where id = any (%s)""",
        [job_ids, job_ids],
    )
    connection.execute("update meter set reached = now() - interval '1 hour'")
    connection.execute("select count_minutes('0')")
    assert connection.execute("select count(*) from minutes").fetchone() == (3,)
    found = read(busy)
    for name in ("treadle_jobs_finished_total", "treadle_job_run_seconds_count", "treadle_job_wait_seconds_count"):
        labels = {"queue": "default", "job_type": "a"} | ({"status": "completed"} if name.endswith("total") else {})
        assert value(found, name, **labels) == value(before, name, **labels) + 3
    connection.execute("update totals set counted_at = now() - interval '31 days' where job_type = 'b'")
    connection.execute("update meter set reached = now() - interval '1 hour'")
    connection.execute("select count_minutes('0')")
    assert connection.execute("select job_type from totals").fetchall() == [("a",)]


def test_names_of_types_and_queues_are_escaped(app: Treadle, queue: JobQueue) -> None:
    name = 'a"b\\c,{}'
    queue.enqueue(name, queue="ü ")
    assert value(read(app), "treadle_jobs_waiting", queue="ü ", job_type=name) == 1


def test_the_cost_does_not_depend_on_the_number_of_jobs(connect: Connect) -> None:
    connection = connect()

    def cost() -> int:
        queries: list[Query[Any]] = [find_totals(), get_database_metrics()]
        return sum(buffers(connection, query.bound("treadle"), query.params) for query in queries)

    connection.execute("select enqueue_jobs('a', array_fill('{}'::text, '{10}'))")
    before = cost()
    connection.execute("select enqueue_jobs('a', array_fill('{}'::text, '{20000}'))")
    connection.execute("update jobs set status = 'completed', finished_at = now()")
    assert cost() <= before + 20


def test_many_types_are_limited(app: Treadle, connection: Connection[Any]) -> None:
    connection.execute(
        """insert into totals (
            queue, job_type, completed, failed, cancelled, errors, waited, ran, waited_counts, ran_counts, counted_at
        )
        select 'default', 't' || n, n, 0, 0, 0, 0, 0, '{}', '{}', now()
        from generate_series(1, 600) as n"""
    )
    finished = next(each for each in metrics(app.database) if each.name == "treadle_jobs_finished_total")
    types = {sample.labels["job_type"] for sample in finished.samples}
    assert len(types) == 500
    assert "t600" in types
    assert "t1" not in types


def test_sync_and_async_metrics_are_the_same(busy: Treadle) -> None:
    async def aget() -> Any:
        try:
            return await ametrics(busy.database)
        finally:
            await busy.aclose()

    assert [each.name for each in metrics(busy.database)] == [each.name for each in asyncio.run(aget())]


def test_the_page_says_that_the_database_is_down_and_is_read_once_in_some_seconds(
    app: Treadle, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body() -> None:
        shown = MetricsPage(app.database)
        first = await shown.text()
        assert first.startswith("# HELP treadle_up ")
        assert "\ntreadle_up 1\n" in first
        await queue.aenqueue("a")
        assert await shown.text() == first
        monkeypatch.setattr(page, "CACHE_SECONDS", 0.0)
        assert 'treadle_jobs_waiting{queue="default",job_type="a"} 1\n' in await shown.text()
        await app.aclose()
        gone = Treadle("postgresql://nobody@127.0.0.1:1/nothing")
        assert (await MetricsPage(gone.database).text()).splitlines()[2:] == ["treadle_up 0"]
        await gone.aclose()

    asyncio.run(body())


def test_the_page_does_not_wait_for_a_server_that_does_not_answer(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "CACHE_SECONDS", 0.0)
    monkeypatch.setattr(page, "READ_SECONDS", 0.2)
    proxy = Proxy(url)

    async def body() -> None:
        app = Treadle(proxy.url, connections=Connections(pool_size=1))
        shown = MetricsPage(app.database)
        with monkeypatch.context() as patient:
            patient.setattr(page, "READ_SECONDS", 30.0)
            assert "\ntreadle_up 1\n" in await shown.text()
        proxy.go_silent()
        began = time.monotonic()
        for _ in range(2):
            assert (await shown.text()).splitlines()[2:] == ["treadle_up 0"]
        # Cancelling the statements would take 5 seconds each.
        assert time.monotonic() - began < 9
        proxy.cut()
        await app.aclose()

    asyncio.run(body())
    proxy.close()


def test_viewers_of_the_dashboard_read_the_metrics(site: Site) -> None:
    answer = site.program(VIEWER).send("GET", "/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "treadle_up 1" in answer.text
    assert site.program("wrong").send("GET", "/metrics").status_code == 401


def test_the_collector_of_prometheus_client_has_the_same_metrics(busy: Treadle) -> None:
    registry = CollectorRegistry()
    registry.register(TreadleCollector(busy))
    names = {family.name for family in registry.collect()}
    assert names == {family.name for family in text_string_to_metric_families(exposition(metrics(busy.database)))}
    labels = {"queue": "default", "job_type": "a", "status": "completed"}
    assert registry.get_sample_value("treadle_jobs_finished_total", labels) == 3


@pytest.mark.parametrize("group", ["worker", "viewer", "operator"])
def test_roles_that_may_read_the_metrics(own_url: str, group: str) -> None:
    with granted_roles(own_url) as roles:
        app = Treadle(roles.url_of(group))
        try:
            assert metrics(app.database)
        finally:
            app.close()


def names_in(expression: str) -> set[str]:
    return {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\btreadle_\w+", expression)}


def test_the_board_and_the_alerts_name_only_metrics_that_exist(busy: Treadle) -> None:
    existing = {"treadle_up"} | {each.name for each in metrics(busy.database)}
    board = json.loads((ROOT / "deploy/grafana/treadle.json").read_text())
    rules = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())["groups"][0]["rules"]
    shown = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    shown += [each["query"] for each in board["templating"]["list"]]
    alerts = [rule["expr"] for rule in rules]
    for expression in (*shown, *alerts):
        assert names_in(expression) <= existing, expression
    # Each is of some use.
    unused = {
        "treadle_jobs",
        "treadle_jobs_is_estimated",
        "treadle_jobs_waiting_is_estimated",
        "treadle_transaction_id_age",
    }
    assert set().union(*map(names_in, (*shown, *alerts))) == existing - unused
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    assert all(rule["alert"].startswith("Treadle") and rule["annotations"]["summary"] for rule in rules)
