"""The benchmark of many lanes (benchmarks/lanes): each piece with small numbers, on a database of the suite."""

from collections.abc import Iterator
from math import inf
from typing import Any

import psutil
import psycopg
import pytest
from benchmarks.lanes import __main__ as run
from benchmarks.lanes import statements
from benchmarks.lanes.app import TYPES
from benchmarks.lanes.claimers import claims
from benchmarks.lanes.scenarios import QUICK, SCENARIOS, Sizes, busy_lanes, held_snapshot, locked_rows
from benchmarks.lanes.server import Server, connect, cpu_seconds
from benchmarks.lanes.statements import claim_cost
from benchmarks.lanes.workers import drain, pick_up
from psycopg.conninfo import conninfo_to_dict

SMALL = Sizes(
    jobs=200, processes=(2,), locked=200, idle_lanes=(10,), busy_lanes=30, priorities=30, snapshot_jobs=100, history=200
)


@pytest.fixture
def server(own_url: str) -> Iterator[Server]:
    """Its databases have the name of this test's own one, so that tests can run side by side."""
    try:
        cpu_seconds(own_url)
    except (OSError, psycopg.Error, psutil.Error) as error:
        pytest.skip(f"the processes of the server cannot be examined: {error}")
    server = Server(own_url, f"{conninfo_to_dict(own_url)['dbname']}_lanes")
    yield server
    server.close()


def figures(rows: Any) -> list[dict[str, float]]:
    return [each for _, each in rows]


def test_claims_by_many_connections_are_counted_without_their_first_one(server: Server) -> None:
    found = claims(server.fresh(), TYPES, clients=4, each=3)
    assert found["jobs per claim"] == 10
    assert 0 < found["claim p50 ms"] <= found["claim p99 ms"]
    assert found["server CPU µs/job"] >= 0


def test_a_drain_runs_every_job_by_all_processes(server: Server) -> None:
    assert drain(server.fresh(), SMALL.jobs, TYPES, 2)["jobs/s"] > 0


def test_a_job_is_picked_up_by_an_idle_worker(server: Server) -> None:
    assert len(pick_up(server.fresh(), 2)) == 2


def test_a_claim_finds_its_jobs_behind_rows_that_are_locked(server: Server) -> None:
    assert [each["claimed"] for each in figures(locked_rows(server, SMALL))] == [10, 10]


def test_a_claim_takes_from_many_lanes(server: Server) -> None:
    assert [each["claimed"] for each in figures(busy_lanes(server, SMALL))] == [10]


def test_claims_are_counted_while_a_snapshot_is_held(server: Server) -> None:
    found = figures(held_snapshot(server, SMALL))
    assert [each["claimed"] for each in found] == [10] * 6
    assert all(each["claim buffers"] > 0 for each in found)


def test_the_server_has_used_the_processor(server: Server) -> None:
    before = cpu_seconds(server.url)
    with psycopg.connect(server.url) as connection:
        connection.execute("select count(*) from generate_series(1, 3000000)")
        assert cpu_seconds(server.url) > before


def test_a_statement_that_is_hopelessly_slow_is_ended(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "LIMIT", 1)
    with connect(server.fresh()) as connection:
        slow = claim_cost(connection, TYPES, claim="select pg_sleep(30), %(types)s::text[], %(batch)s::int")
        assert slow == {"claimed": 0, "claim ms": inf, "claim buffers": inf}
        assert connection.execute("show statement_timeout").fetchone() == ("0",)
    assert run._shown(inf) == "over 60 s"
    assert run._finite(slow) == {"claimed": 0, "claim ms": None, "claim buffers": None}


def test_sizes_can_be_given_one_by_one() -> None:
    options = run._options(["drain", "--quick", "--processes", "1,8", "--history", "5000000"])
    sizes = run._sizes(options)
    assert (options.scenario, sizes.processes, sizes.history, sizes.jobs) == (["drain"], (1, 8), 5_000_000, QUICK.jobs)


def test_an_unknown_scenario_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run._options(["nonsense"])
    assert f"no such scenario: nonsense; there are {', '.join(SCENARIOS)}" in capsys.readouterr().err
