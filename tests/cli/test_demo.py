"""treadle demo, with a terminal and without."""

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from psycopg import Connection
from rich.console import Console

from tests.support.databases import create_database
from tests.support.screens import terminal
from tests.support.workers import until
from treadle import JobQueue, Status, Treadle, TreadleError
from treadle.cli import demo
from treadle.cli.demo_round import DemoJob, Round

# Twice as quick, and still slow enough for a busy machine to show every stage.
SPEED = {"TREADLE_DEMO_SPEED": "2"}
LABELS = ["thumbnail cat", "import books.csv", "render film", "newsletter", "mail", "order 7", "reminder", "backup"]


def start(url: str, **environment: str) -> subprocess.Popen[str]:
    command = [str(Path(sys.executable).parent / "treadle"), "demo", "--database-url", url]
    variables = os.environ | SPEED | {"COLUMNS": "80"} | environment
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)


def supervisor(process: subprocess.Popen[str]) -> psutil.Process:
    found: list[psutil.Process] = until(lambda: psutil.Process(process.pid).children())
    return found[0]


def test_without_a_terminal_it_runs_one_successful_round(url: str) -> None:
    process = start(url)
    said, errors = process.communicate(timeout=240)
    assert (process.returncode, errors) == (0, "")
    assert "\x1b" not in said
    assert "11 completed, 1 cancelled." in said
    for label in LABELS:
        assert f"{label}: " in said
    for text in (
        "retries in 1s: ConnectionError: mail.example.org closed the connection",
        "newsletter: bounced to=reader-20@example.org",
        "scan: cancelled: no longer needed",
        "its worker process was killed by SIGKILL",
        "backup: resumed at_file=",
    ):
        assert text in said
    summary = {line[:18].strip(): line for line in said.splitlines() if "✓" in line or "✗" in line}
    assert len(summary) == 12
    assert summary["order 7"].split()[3:5] == ["completed", "2"]
    assert summary["scan"].split()[2:4] == ["cancelled", "1"]


@pytest.mark.long
def test_on_a_terminal_it_runs_until_ctrl_c(url: str) -> None:
    with terminal("demo", "--database-url", url, columns=80, rows=24, **SPEED) as screen:
        screen.wait_for(
            "Press Ctrl-C to stop",
            "Dashboard: http://127.0.0.1:",
            "▸ import books.csv",
            "importing",
            "waiting for other jobs",
            seconds=120,
        )
        screen.wait_for("backup: resumed", "✓ backup", seconds=120)
        assert max(map(len, screen.lines())) <= 80
        screen.wait_for("▸ thumbnail cat", "· backup", seconds=120)  # the next round
        screen.press_ctrl_c()
        began = time.monotonic()
        assert screen.wait_for_exit() == 0
        assert time.monotonic() - began < 30
        shown = screen.text()
    assert re.search(r"\b[2-9] rounds: ", shown)
    assert "Traceback" not in shown
    for label in LABELS:
        assert label in shown


@pytest.mark.long
def test_a_signal_leaves_no_worker_running(server_url: str) -> None:
    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    with ThreadPoolExecutor(len(signals)) as threads:
        list(threads.map(partial(leaves_no_worker_running, server_url), signals))


def leaves_no_worker_running(server_url: str, number: signal.Signals) -> None:
    with contextmanager(create_database)(server_url, "template0") as url, start(url) as process:
        stopped_by(process, number)


def stopped_by(process: subprocess.Popen[str], number: signal.Signals) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("thumbnail cat"):
            break
    worker = supervisor(process)
    tree = [worker, *worker.children(recursive=True)]
    assert len(tree) > 1
    process.send_signal(number)
    said, errors = process.communicate(timeout=60)
    assert (errors, process.returncode) == ("", 1)  # the round is not complete
    assert "thumbnail cat" in said
    until(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in tree))


def test_a_worker_that_cannot_start_is_reported(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    worker = demo.LoggedProgram(["worker", "treadle.cli.demo_jobs:app", "--grace", "1s"], url, Path(os.devnull))
    with pytest.raises(TreadleError, match="the worker exited"):
        worker.wait_for("worker started")


def test_an_unexpected_outcome_gives_exit_code_1(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    handle = app.handle(queue.enqueue("films", {}))
    console = Console(file=io.StringIO(), width=100)

    def code(job: DemoJob) -> int:
        return demo._summarize(console, [Round([job], handle, handle)])

    right = DemoJob("films", handle, "a note", attempts=0)
    assert code(right) == 1  # it has not finished
    connection.execute("update jobs set status = 'completed', finished_at = now(), result = '7'")
    assert code(right) == 0
    assert code(right._replace(attempts=2)) == 1
    assert code(right._replace(status=Status.CANCELLED)) == 1
    assert code(right._replace(is_expected=lambda result: result == 8)) == 1
    said = console.file.getvalue()  # type: ignore[attr-defined]
    for text in ("a note", "expected 2 attempts, got 0", "expected cancelled, got completed", "unexpected result: 7"):
        assert text in said
