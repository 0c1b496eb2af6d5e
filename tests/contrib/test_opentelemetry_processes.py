"""One trace over the process that enqueues, worker processes and their child processes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.support import traced_app
from tests.support.apps import use_database
from tests.support.workers import until_completed, worker_process

JOBS = ("on_the_loop", "on_a_thread", "in_a_child", "retried")


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_producers_workers_and_child_processes_share_a_trace(
    url: str, connection: Connection[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "spans"
    monkeypatch.setenv(traced_app.FILE, str(file))
    use_database(traced_app.app, url, monkeypatch)
    with worker_process(url, tmp_path, app="tests.support.traced_app:app") as worker:
        for name in JOBS:
            with traced_app.tracer.start_as_current_span(f"request {name}"):
                traced_app.app.function(name).enqueue()
        until_completed(connection, 2 * len(JOBS))
        worker.terminate()
        assert worker.ended() == 0
    traced_app.app.database.close()
    traced_app.provider.force_flush()
    spans = read(file)
    by_id = {each["context"]["span_id"]: each for each in spans}

    def ancestors(span: dict[str, Any]) -> list[dict[str, Any]]:
        return [span, *(ancestors(by_id[span["parent_id"]]) if span["parent_id"] else [])]

    traces = {}
    for span in spans:
        if span["name"] == "process last":
            chain = ancestors(span)
            assert len({each["context"]["trace_id"] for each in chain}) == 1
            traces[chain[-1]["name"]] = chain
    for name in JOBS:
        chain = traces[f"request {name}"]
        assert [each["name"] for each in chain] == [
            "process last",
            "enqueue last",
            f"inside {name}",
            f"process {name}",
            f"enqueue {name}",
            f"request {name}",
        ]
        assert chain[3]["kind"] == "SpanKind.CONSUMER"
        assert chain[-1]["pid"] == chain[-2]["pid"] == os.getpid() != chain[3]["pid"]
    # The handler with process=True ran in a process of its own, which was killed when the worker ended.
    in_a_child = traces["request in_a_child"]
    assert in_a_child[3]["pid"] != in_a_child[0]["pid"] == traces["request on_a_thread"][3]["pid"]
    first, second = sorted(
        (each for each in spans if each["name"] == "process retried"), key=lambda each: each["start_time"]
    )
    assert first["parent_id"] == second["parent_id"]
    assert [each["status"]["status_code"] for each in (first, second)] == ["ERROR", "UNSET"]
