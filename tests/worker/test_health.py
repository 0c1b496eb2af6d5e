"""The server for probes, and what a supervisor answers."""

import asyncio
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from chaos.proxy import Proxy

from tests.support.commands import run_treadle
from tests.support.workers import QUICK, WorkerProgram, until, worker_process
from treadle.words.clock import now
from treadle.worker import health, supervisor
from treadle.worker.health import Answer, HealthServer
from treadle.worker.job_slots import JobSlots
from treadle.worker.options import WorkerOptions

GET = b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n"


async def live() -> Answer:
    return Answer(200, "live\n")


async def broken() -> Answer:
    raise ValueError("a bug")


async def slow() -> Answer:
    await asyncio.sleep(60)
    return Answer(200, "late\n")


def with_server(body: Callable[[int], Awaitable[Any]], host: str | None = "127.0.0.1") -> Any:
    async def both() -> Any:
        server = HealthServer({"/live": live, "/broken": broken, "/slow": slow})
        port = await server.start(host, 0)
        try:
            return await body(port)
        finally:
            server.close()

    return asyncio.run(both())


async def exchange(port: int, request: bytes, host: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        return await reader.read()
    finally:
        writer.close()


def answer_to(request: bytes) -> bytes:
    answer: bytes = with_server(lambda port: exchange(port, request))
    return answer


def test_it_answers_and_closes_the_connection() -> None:
    head, _, body = answer_to(GET).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 5\r\n" in head
    assert b"Connection: close" in head
    assert body == b"live\n"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_all_addresses_have_the_same_port(address: str) -> None:
    assert with_server(lambda port: exchange(port, GET, address), host=None).startswith(b"HTTP/1.1 200 OK\r\n")


def test_head_gets_no_body() -> None:
    head, _, body = answer_to(GET.replace(b"GET", b"HEAD")).partition(b"\r\n\r\n")
    assert b"Content-Length: 5\r\n" in head
    assert body == b""


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (GET.replace(b"/live", b"/live?verbose"), 200),
        (GET.replace(b"/live", b"/metrics"), 404),
        (GET.replace(b"/live", b"/"), 404),
        (GET.replace(b"GET", b"POST"), 405),
        (b"\x16\x03\x01 TLS\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /live\r\n\r\n", 400),
        (GET.replace(b"Host: x", b"X: " + b"x" * 20_000), 431),
        (GET.replace(b"/live", b"/broken"), 500),
    ],
)
def test_the_status_of_an_answer(request_: bytes, status: int) -> None:
    assert answer_to(request_).startswith(b"HTTP/1.1 %d " % status)


def test_an_answer_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "ANSWER_SECONDS", 0.05)
    assert answer_to(GET.replace(b"/live", b"/slow")).startswith(b"HTTP/1.1 503 ")


def test_a_client_that_sends_half_a_request_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "CLIENT_SECONDS", 0.05)
    assert answer_to(b"GET /live HTTP/1.1\r\n") == b""


def test_clients_that_keep_connections_open_do_not_keep_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "CONNECTIONS", 2)

    async def body(port: int) -> bytes:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        answer = await exchange(port, GET)  # the oldest are dropped
        with suppress(ConnectionResetError):
            assert await idle[0][0].read() == b""
        for _, writer in idle:
            writer.close()
        return answer

    assert with_server(body).startswith(b"HTTP/1.1 200 ")


# A real worker


def port_of(worker: WorkerProgram) -> int:
    found = until(lambda: re.search(r"probes are answered on port (\d+)", worker.log.read_text()))
    return int(found[1])


def probe(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.own_database
def test_a_worker_is_ready_while_it_renews_its_lease(url: str, tmp_path: Path) -> None:
    """That one which stops is not ready is tested in test_supervisor.py, with one that stops slowly."""
    proxy = Proxy(url)
    options = (*QUICK, "--health-port", "0", "--health-host", "127.0.0.1")
    try:
        with worker_process(proxy.url, tmp_path, *options) as worker:
            port = port_of(worker)
            until(lambda: probe(port, "/ready") == (200, "ready\n"))
            assert run_treadle("ping", "--health-port", port).output.startswith("ready (")
            assert probe(port, "/live") == (200, "live\n")
            status, metrics = probe(port, "/metrics")
            assert status == 200
            assert "\ntreadle_up 1\n" in metrics
            assert '\ntreadle_workers{state="alive"} 1\n' in metrics
            process = until(worker.worker_process)
            process.suspend()
            until(lambda: probe(port, "/ready")[0] == 503)
            assert re.match(r"not ready: no event loop has run for \d seconds", probe(port, "/ready")[1])
            process.resume()
            until(lambda: probe(port, "/ready")[0] == 200)
            proxy.black_hole_everything(True)
            until(lambda: probe(port, "/ready")[0] == 503)
            assert re.match(r"not ready: the lease was last renewed \d seconds ago\n", probe(port, "/ready")[1])
            assert probe(port, "/live") == (200, "live\n")
            proxy.black_hole_everything(False)
            until(lambda: probe(port, "/ready")[0] == 200)
    finally:
        proxy.close()


def test_a_worker_that_sleeps_is_ready() -> None:
    """It does not renew its lease."""

    async def body() -> list[int]:
        looks_after = supervisor.Supervisor("tests.support.handlers:app", 1, WorkerOptions(), "info", "text")
        slots = JobSlots.create(1)
        worker = supervisor.WorkerProcess(cast(Any, None), slots)
        worker.worker_id, slots.pulse, slots.renewed_at = "w", now(), now() - 60
        looks_after._processes.add(worker)
        found = []
        for slots.asleep in (False, True):
            found.append((await looks_after.routes["/ready"]()).status)
        slots.close()
        return found

    assert asyncio.run(body()) == [503, 200]


def test_a_worker_is_alive_and_not_ready_while_it_waits_for_the_database(tmp_path: Path) -> None:
    nowhere = "postgresql://ada:secret@127.0.0.1:1/app"
    options = ("--health-port", "0", "--health-host", "127.0.0.1")
    worker = WorkerProgram(nowhere, tmp_path / "worker.log", *options, app="tests.support.handlers:app")
    try:
        port = port_of(worker)
        until(lambda: "database unavailable, retrying" in worker.log.read_text())
        assert probe(port, "/live")[0] == 200
        assert probe(port, "/ready") == (503, "not ready: no worker process has started\n")
        assert probe(port, "/metrics") == (503, "no worker process has started yet\n")
        worker.terminate()
        assert worker.ended(10) == 0
    finally:
        worker.kill_all()


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = ("--health-port", port, "--health-host", "127.0.0.1")
        worker = WorkerProgram("postgresql://x", tmp_path / "worker.log", *options, app="tests.support.handlers:app")
        assert worker.ended(20) == 1
    assert re.fullmatch(rf"Error: the health port {port} cannot be used: .*\n", worker.log.read_text())
