"""The shop with FastAPI: its own tests, then two servers and a worker, used over HTTP."""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.integrations.environment import ROOT, SECONDS, Environment, database_server, requirements_of, wait_until
from treadle.db.url import with_part

PROJECT = ROOT / "tests" / "projects" / "fastapi"


def run_fastapi(wheel: Path, folder: Path) -> None:
    environment = Environment(folder / "environment", wheel, requirements_of(PROJECT))
    with database_server(folder / "server") as url:
        run_tests(environment, copied(folder), url)
        use(environment, folder / "project", url)


def copied(folder: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    return Path(shutil.copytree(PROJECT, folder / "project", ignore=ignored))


def run_tests(environment: Environment, project: Path, server_url: str, *options: str) -> None:
    command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    printed = environment.succeed(command, project, TREADLE_TEST_URL=server_url)
    assert re.search(r"^8 passed", printed, re.MULTILINE), printed


def use(environment: Environment, project: Path, url: str) -> None:
    """As its users do. The database is empty."""
    settings = {"DATABASE_URL": with_part(url).replace("postgresql://", "postgresql+asyncpg://", 1)}
    environment.succeed(["python", "-m", "shop.database"], project, **settings)
    environment.succeed(["treadle", "migrate"], project, **settings)
    with serve(environment, project, settings | {"SHOP_WORKER": "1"}) as server:
        order_and_watch(server)
        stock = interrupt_a_job(server)
    with psycopg.connect(url) as connection:
        job = connection.execute("select status, attempts from treadle.jobs where id = %s", [stock]).fetchone()
        assert job == ("pending", 0), "a deploy uses no attempt"
    worker = environment.start(["treadle", "worker", "--poll", "0.1s"], project, project / "worker.log", **settings)
    with worker as process, serve(environment, project, settings) as server:
        bob = server.signed_in("bob", "builder")
        wait_until(lambda: bob.get(f"/jobs/{stock}").json()["status"] == "completed")
        assert bob.get(f"/jobs/{stock}").json()["result"] == 1
        process.terminate()
        stop(server)
        assert process.wait(SECONDS) == 0


class Server:
    def __init__(self, process: "subprocess.Popen[bytes]", address: str, stack: ExitStack) -> None:
        self.process = process
        self.address = address
        self._stack = stack

    def client(self) -> httpx.Client:
        return self._stack.enter_context(httpx.Client(base_url=self.address, timeout=SECONDS))

    def signed_in(self, name: str, password: str) -> httpx.Client:
        client = self.client()
        assert client.post("/sign-in", json={"name": name, "password": password}).status_code == 204
        return client


@contextmanager
def serve(environment: Environment, project: Path, settings: dict[str, str]) -> Iterator[Server]:
    log = project / "server.log"
    # Streams of events do not end by themselves.
    command = ["uvicorn", "shop.main:web", "--port", "0", "--timeout-graceful-shutdown", "1"]
    with environment.start(command, project, log, **settings) as process:
        wait_until(lambda: "Uvicorn running on" in log.read_text() or process.poll() is not None)
        (address,) = re.findall(r"Uvicorn running on (\S+)", log.read_text())
        with ExitStack() as stack:
            yield Server(process, address, stack)
        assert "Application shutdown complete" in log.read_text()
        assert "Traceback" not in log.read_text(), log.read_text()


def order_and_watch(server: Server) -> None:
    stranger, bob = server.client(), server.signed_in("bob", "builder")
    made = bob.post("/orders", json={"item": "loom", "boxes": 4}).json()
    events = f"/progress/jobs/{made['job']}/events"
    for path in (events, "/queue/", f"/jobs/{made['job']}"):
        assert stranger.get(path).status_code == 401, path
    told = list(stream(bob, events))
    assert [data["data"]["box"] for name, data in told if name == "packed"] == [1, 2, 3, 4]
    assert told[-1] == ("end", {"status": "completed"})
    assert bob.get(f"/orders/{made['order']}").json() == {"item": "loom", "packed": 4}

    assert bob.post("/orders", json={"item": "unicorn"}).status_code == 409
    assert bob.get("/queue/jobs").status_code == 401, "the dashboard is for the staff"
    ada = server.signed_in("ada", "countess")
    jobs = ada.get("/queue/api/jobs").json()["jobs"]
    assert [job["id"] for job in jobs] == [made["job"]], "what was rolled back has no job"
    retry(ada, server.address, made["job"])


def retry(ada: httpx.Client, address: str, job: str) -> None:
    """With the form of the dashboard, as a browser sends it."""
    page = ada.get(f"/queue/jobs/{job}").text
    (token,) = set(re.findall(r'name="csrf_token" value="(\w+)"', page))
    form = {"csrf_token": token, "reason": "again"}
    foreign = ada.post(f"/queue/jobs/{job}/retry", data=form, headers={"Origin": "http://evil.example"})
    assert foreign.status_code == 403
    done = ada.post(f"/queue/jobs/{job}/retry", data=form, headers={"Origin": address})
    assert done.status_code == 303, done.text
    assert done.headers["location"].startswith("/queue/"), done.headers["location"]
    audit = ada.get(f"/queue/api/jobs/{job}").json()["audit"]
    assert [(each["actor"], each["action"]) for each in audit] == [("dashboard:ada", "retry")]


def interrupt_a_job(server: Server) -> str:
    """Stop the server while it runs a job, and while a browser watches it."""
    bob = server.signed_in("bob", "builder")
    job = str(bob.post("/stock").json()["job"])
    for name, _ in stream(bob, f"/progress/jobs/{job}/events", may_break=True):
        if name == "waiting":
            stop(server)
    assert server.process.returncode is not None
    return job


def stop(server: Server) -> None:
    server.process.terminate()
    # uvicorn ends itself by the signal that it got, after its shutdown is complete.
    assert server.process.wait(SECONDS) in (0, -signal.SIGTERM)


def stream(client: httpx.Client, path: str, *, may_break: bool = False) -> Iterator[tuple[str, Any]]:
    """The names and the data of server-sent events."""
    name = ""
    try:
        with client.stream("GET", path) as response:
            assert response.status_code == 200, response.read()
            for line in response.iter_lines():
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    yield name, json.loads(value)
    except httpx.RemoteProtocolError:
        if not may_break:
            raise
