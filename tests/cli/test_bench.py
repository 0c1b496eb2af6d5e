"""treadle bench: its figures, its advice, and its temporary schema."""

import json
import logging
import os
import signal
import subprocess
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo
from rich.console import Console

from tests.support.commands import command_line, run_in_process, run_treadle
from tests.support.roles import schema_owner
from tests.support.workers import until
from treadle.cli.bench import command, lanes
from treadle.cli.bench.advice import advise
from treadle.cli.bench.comparison import Costs, Measure, Report
from treadle.cli.bench.display import all_as_dict, show_all
from treadle.cli.bench.lanes import LaneComparison, Spread, SpreadFigures, enqueue_spread
from treadle.cli.bench.scratch import scratch_schema
from treadle.cli.bench.server import Server
from treadle.cli.bench.suite import Figures
from treadle.cli.bench.workload import Latency, Single
from treadle.words.errors import TooSlow

SETTINGS = {"synchronous_commit": "on", "fsync": "on", "autovacuum": "on", "synchronous_standby_names": ""}
SERVER = Server("18.6", "db.example/app", False, 0.4, 1.2, SETTINGS, 512.0, False, True)
MEASURES = [
    Measure("enqueue_many, against INSERT ... SELECT", 0.6, [80_000.0], [100_000.0]),
    Measure("claim + complete in batches of 1,000", 0.8, [50_000.0], [60_000.0]),
]
REPORT = Report("18.6", 20_000, MEASURES, [Costs(1000, 1400.0, 0.003, 3.0, 0.004)], 90_000.0)
LANES = LaneComparison(8, SpreadFigures(1, 1, 21_000.0, 0.8), SpreadFigures(10, 30, 14_000.0, 1.0))
FIGURES = Figures(SERVER, [Single(1, 600.0), Single(8, 3_000.0)], 20_000.0, Latency(1.5, 2.5, 6.0), REPORT, LANES, [])


# Code that shortens the measurements.
QUICK = "from treadle.cli.bench import workload\nworkload.SECONDS, workload.STAMPS = 0.3, 30"


def schemas(connection: Connection[Any]) -> list[str]:
    rows = connection.execute("select nspname from pg_namespace where nspname like 'treadle\\_bench\\_%'").fetchall()
    return [name for (name,) in rows]


@pytest.mark.long
def test_it_prints_figures_and_drops_its_schema(url: str, connection: Connection[Any]) -> None:
    options = ("--types", "3", "--lanes", "6", "--processes", "2")
    command = ("bench", "--jobs", "1000", "--rounds", "1", *options, "--json", "--database-url", url)
    result = run_in_process(*command, before=QUICK)
    assert result.returncode == 0, result.stderr
    assert "worker started" not in result.stderr
    report = json.loads(result.stdout)
    assert len(report["measures"]) == 3
    # Counted, not timed: a job has three row versions, and shares its statements with its batch.
    for cost in report["costs"]:
        assert cost["tuple_versions"] == 3
        assert cost["statements"] == pytest.approx(3 / cost["batch"])
        # Sessions that have just ended may report theirs late.
        assert cost["transactions"] < 5 / cost["batch"] + 0.05
    assert [each["connections"] for each in report["singles"]] == [1, 8]
    assert all(each["rate"] > 0 for each in report["singles"])
    assert report["worker_rate"] > 0
    assert 0 < report["pick_up"]["p50_ms"] <= report["pick_up"]["p95_ms"] <= report["pick_up"]["p99_ms"]
    assert report["server"]["round_trip_ms"] > 0
    assert (report["server"]["hears"], report["server"]["pooled"], report["server"]["local"]) == (True, False, True)
    lanes = report["lanes"]
    assert (lanes["processes"], lanes["one"]["types"], lanes["one"]["lanes"]) == (2, 1, 1)
    assert (lanes["several"]["types"], lanes["several"]["lanes"]) == (3, 6)
    for each in (lanes["one"], lanes["several"]):
        assert each["drain_rate"] > 0
        assert each["claim_ms"] > 0
    assert lanes["drain_ratio"] == pytest.approx(lanes["several"]["drain_rate"] / lanes["one"]["drain_rate"])
    assert lanes["claim_ratio"] == pytest.approx(lanes["several"]["claim_ms"] / lanes["one"]["claim_ms"])
    assert schemas(connection) == []


@pytest.mark.parametrize(
    ("reached", "number", "code"),
    [("jobs", signal.SIGTERM, 143), pytest.param("workers", signal.SIGINT, 130, marks=pytest.mark.long)],
)
def test_it_drops_its_schema_when_it_is_interrupted(
    url: str, connection: Connection[Any], reached: str, number: signal.Signals, code: int
) -> None:
    """Also while its worker has open connections and a child process."""
    bench = subprocess.Popen(
        command_line("bench", "--jobs", "1000", "--rounds", "1", "--json", before=QUICK),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TREADLE_DATABASE_URL": url},
    )
    try:
        (schema,) = until(lambda: schemas(connection))
        until(lambda: connection.execute(f"select from {schema}.{reached} limit 1").fetchall(), seconds=120)
        bench.send_signal(number)
        output, errors = bench.communicate(timeout=60)
        assert (bench.returncode, output, errors.strip()) == (code, "", "")
    finally:
        bench.kill()
        bench.communicate()
    assert schemas(connection) == []


def test_warnings_of_the_driver_are_hidden_when_it_is_interrupted(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Which statement is interrupted, and so which warning appears, varies. This forces two of them."""

    def interrupted(*_: Any) -> Figures:
        logging.getLogger("psycopg").warning("error ignored in rollback")
        logging.getLogger("psycopg.pool").warning("discarding closed connection")
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "measure_all", interrupted)
    assert run_treadle("bench", "--json", "--database-url", url).exit_code == 130
    assert caplog.messages == []


def test_a_role_that_may_not_create_a_schema_gets_a_clear_error(own_url: str) -> None:
    with schema_owner(own_url) as theirs, Connection.connect(own_url, autocommit=True) as administrator:
        user = dict(part.split("=", 1) for part in theirs.split())["user"]
        administrator.execute(f"revoke create on database {administrator.info.dbname} from {user}")
        result = run_treadle("bench", "--database-url", theirs)
    assert result.exit_code == 1
    assert "needs a temporary schema, which this role may not create" in result.stderr
    assert "grant create on database" in result.stderr


def test_a_read_only_server_gives_a_clear_error(url: str) -> None:
    only_read = make_conninfo(url, options="-c default_transaction_read_only=on")
    result = run_treadle("bench", "--database-url", only_read)
    assert result.exit_code == 1
    assert "is read-only, so it may be a standby" in result.stderr


def test_jobs_are_spread_over_all_job_types_and_lanes(url: str, connection: Connection[Any]) -> None:
    with scratch_schema(url) as schema:
        enqueue_spread(url, schema, 1000, Spread(3, 6))
        rows = connection.execute(f"select job_type, queue, count(*) from {schema}.jobs group by 1, 2").fetchall()
    assert {(job_type, queue) for job_type, queue, _ in rows} == {
        (f"noop{number}", f"queue{queue}") for number in range(3) for queue in range(2)
    }
    assert sum(number for *_, number in rows) == 1000


def test_worker_processes_that_end_too_early_give_a_clear_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.cli.bench.lanes.sys.executable", "/bin/false")
    with scratch_schema(url) as schema, pytest.raises(TooSlow, match="their supervisor ended with code 1"):
        lanes.compare_lanes(url, schema, 1000, Spread(1, 1), 1)


# Drawing


def drawn(figures: Figures, **options: Any) -> str:
    console = Console(file=StringIO(), highlight=False, markup=False, **options)
    show_all(console, figures)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_bars_on_a_terminal_are_proportional_to_their_figures() -> None:
    lines = drawn(FIGURES, force_terminal=True, width=100, no_color=True).splitlines()
    bars = {
        name: line.count("█") for line in lines for name in ("p50", "p99", "enqueue_many  ", "prune") if name in line
    }
    assert bars["prune"] == bars["p99"] == 50, "the largest fills its room"
    assert bars["p50"] == 50 * 1.5 // 6
    assert bars["enqueue_many  "] == 50 * 80 // 90


@pytest.mark.parametrize("options", [{"width": 100}, {"force_terminal": True, "width": 20}])
def test_a_pipe_and_a_narrow_terminal_get_figures_without_bars(options: dict[str, Any]) -> None:
    shown = drawn(FIGURES, **options)
    assert "█" not in shown
    for figure in ("20,000", "3,000", "0.40", "1.20", "6.0"):
        assert figure in shown


def test_the_ratio_of_several_job_types_is_shown() -> None:
    shown = [" ".join(line.split()) for line in drawn(FIGURES, width=100).splitlines()]
    assert "One job type and several, 8 worker processes" in shown
    assert "jobs per second ratio a claim of 10, ms ratio" in shown
    assert "1 job type in 1 lane 21,000 0.80" in shown
    assert "10 job types in 30 lanes 14,000 0.67 1.00 1.25" in shown
    alone = drawn(replace(FIGURES, lanes=replace(LANES, several=None)), width=100)
    assert "1 job type in 1 lane" in alone
    assert "30 lanes" not in alone


# Advice


def with_server(**changes: Any) -> Figures:
    return replace(FIGURES, server=replace(SERVER, **changes))


@pytest.mark.parametrize(
    ("figures", "name", "said"),
    [
        (with_server(settings={**SETTINGS, "fsync": "off"}), "fsync", "destroy the database"),
        (with_server(settings={**SETTINGS, "synchronous_commit": "off"}), "synchronous_commit", "lose jobs"),
        (with_server(settings={**SETTINGS, "autovacuum": "off"}), "autovacuum", "slower with every job"),
        (with_server(shared_buffers_mb=16.0), "shared_buffers", "16 MB"),
        (with_server(round_trip_ms=5.0), "round_trip", "at most 200 single jobs/s"),
        (with_server(round_trip_ms=5.0), "round_trip", "close to the database"),
        (with_server(round_trip_ms=5.0, local=True), "round_trip", "on this machine"),
        (with_server(commit_ms=10.0), "commit", "10.0 ms: the server waits for its disk"),
        (
            with_server(commit_ms=10.0, settings={**SETTINGS, "synchronous_standby_names": "b"}),
            "commit",
            "it waits for a synchronous standby (b)",
        ),
        (with_server(hears=False), "notifications", "--no-listen --poll 0.2s"),
        (with_server(pooled=True), "pooler", "to the server directly"),
        (replace(FIGURES, pick_up=Latency(300.0, 400.0, 500.0)), "pick_up", "300 ms"),
        (replace(FIGURES, singles=[Single(1, 600.0), Single(8, 700.0)]), "connections", "only 1.2 times"),
        (replace(FIGURES, left_behind=["treadle_bench_0"]), "left_behind", 'drop schema "treadle_bench_0" cascade;'),
    ],
)
def test_unusual_figures_and_settings_give_advice(figures: Figures, name: str, said: str) -> None:
    (advice,) = advise(figures)
    assert advice.name == name
    assert said in f"{advice.found} {advice.remedy}"
    assert said in drawn(figures, width=200)
    assert all_as_dict(figures)["advice"] == [advice._asdict()]


def test_usual_figures_give_no_advice() -> None:
    assert advise(FIGURES) == []
    assert "No advice" in drawn(FIGURES, width=100)


def test_schemas_left_by_a_killed_benchmark_are_named(url: str, connection: Connection[Any]) -> None:
    from treadle.cli.bench.scratch import left_behind

    connection.execute("create schema treadle_bench_killed")
    try:
        assert left_behind(url, "treadle_bench_mine") == ["treadle_bench_killed"]
        assert left_behind(url, "treadle_bench_killed") == []
    finally:
        connection.execute("drop schema treadle_bench_killed")
