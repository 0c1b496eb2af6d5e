"""The report of the benchmarks of other job queues (benchmarks/peers): ratios, targets, tables and failures."""

from typing import Any

import pytest
from benchmarks.peers import report
from benchmarks.peers.measures import types
from benchmarks.peers.summary import Summary
from benchmarks.peers.targets import verdicts
from benchmarks.peers.wins import wins


def raw_results(**drains: list[float]) -> dict[str, Any]:
    def peer(name: str, rates: list[float]) -> dict[str, Any]:
        costs = {"wal_bytes": 1000.0, "transactions": 0.1, "versions": 3.0, "dead": 2.0}
        rounds = [
            {"jobs": 9, "drained_per_second": rate, "enqueued_per_second": 10.0, "memory_mb": 30.0, "per_job": costs}
            for rate in rates
        ]
        about = {"name": name, "version": "1", "store": "postgresql", "history": True, "processes": 1, "settings": []}
        return {"about": about, "measures": {"drain": {"rounds": rounds}, "kill": {"rounds": [], "failed": "no luck"}}}

    return {
        "date": "2026-11-15",
        "machine": {"cores": 2, "architecture": "x", "processor": "y", "memory_gb": 4, "system": "z", "python": "3.13"},
        "postgresql": {"version": "18", "settings": {"max_connections": 200}},
        "redis": {"missing": "none here"},
        "peers": {name: peer(name, rates) for name, rates in drains.items()},
    }


def test_the_wins_of_peers_are_computed_without_the_reference() -> None:
    reported = wins(Summary(raw_results(treadle=[100.0, 90.0, 110.0], bare=[500.0], quicker=[150.0], slower=[50.0])))
    assert reported == "- **drain of no-op jobs**, Treadle 100/s: quicker 150/s (1.50 times as good).\n"


def test_a_ratio_is_the_median_of_the_rounds_in_which_both_were_measured() -> None:
    summary = Summary(raw_results(treadle=[100.0, 50.0, 100.0], other=[200.0, 50.0, 110.0], short=[150.0]))
    assert summary.ratio("other", "drain") == pytest.approx(1.1)
    assert summary.ratio("short", "drain") == pytest.approx(1.5)
    assert summary.ratio("other", "pickup_p50") is None


def test_targets_are_judged_by_the_figures_of_the_run() -> None:
    figures = raw_results(**{"treadle": [100.0], "graphile-worker": [100.0], "pg-boss": [80.0]})
    for peer, small in (("treadle", 1.4), ("pg-boss", 1.0)):
        latencies = {"alone": {"p99": 5.0}, "beside": {"p99": 5.0 * small}, "ratio": small}
        figures["peers"][peer]["measures"]["payloads"] = {"rounds": [latencies]}
    page = report.page(Summary(figures), [])
    assert "| drain of no-op jobs: at least 1 times graphile-worker | 1.00 times as good | met |" in page
    assert "| drain of no-op jobs: at least 1.5 times pg-boss | 1.25 times as good | **missed** |" in page
    assert "| WAL per job: better than pg-boss | 1.00 times as good | **missed** |" in page
    assert "relative to alone: at most 1.3 | 1.4 | **missed** |" in page
    assert "single enqueue, 48 connections: better" not in page  # there are no figures for it


def test_only_queues_with_the_same_lease_count_for_the_target_of_recovery() -> None:
    figures = raw_results(treadle=[1.0], quick=[1.0], same=[1.0])
    for name, lease, seconds in (("treadle", 10, 10.5), ("quick", 5, 6.0), ("same", 10, 11.0)):
        figures["peers"][name]["about"]["lease"] = lease
        figures["peers"][name]["measures"]["kill"] = {"rounds": [{"jobs": 2, "again": 2, "seconds": seconds}]}
    (verdict,) = [one for one in verdicts(Summary(figures)) if "kill" in one.target]
    assert verdict.met
    assert verdict.result == "10.5 s; the best other one is same, 11.0"


def test_figures_of_types_and_of_five_minutes_have_their_ratio_to_treadle() -> None:
    figures = raw_results(treadle=[1.0], other=[1.0])
    for name, times in (("treadle", 1.0), ("other", 1.5)):
        drains = {types.key(number, count): 1_000 * times for number in (1, 10) for count in (1, 8)}
        figures["peers"][name]["measures"]["types"] = {"rounds": [{"jobs": 9, **drains}]}
        minutes = {"jobs": 9, "interval": 1.0, "rates": [1.0], "first": 1_000 * times, "last": 800.0}
        figures["peers"][name]["measures"]["growing"] = {"rounds": [minutes]}
    page = report.page(Summary(figures), [])
    assert "| other | 1,500 (1.50) | 1,500 (1.50) | 1,500 (1.50) | 1,500 (1.50) |" in page
    assert "| **treadle** | 1,000 | 1,000 | 1,000 | 1,000 |" in page
    assert "| other | 1,500 (1.50) | 800 (1.00) | 0.53 | 9 |" in page
    assert "It is not first in: drain, 10 job types, 1 process (other)" in page


def trickle(cpu: float, p99: float) -> dict[str, Any]:
    parts = {"server": cpu - 0.5, "worker": 0.3, "producer": 0.2, "all": cpu}
    return {"jobs": 9, "rate": 100.0, "cpu_ms": parts, "p50": 2.0, "p95": 3.0, "p99": p99}


def idle(worker: float, wal: float, alone: float) -> dict[str, Any]:
    control = {"cpu_percent": {"server": 0.01}, "statements_per_minute": 0.0, "wal_per_hour": alone}
    used = {"worker": worker, "server": 0.1, "all": worker + 0.1}
    found = {"cpu_percent": used, "statements_per_minute": 2.0, "wal_per_hour": wal, "control": control}
    return {"settle": 90.0, "window": 300.0, **found}


def test_one_job_at_a_time_and_an_idle_worker_are_judged_by_their_targets() -> None:
    figures = raw_results(treadle=[1.0], pgqueuer=[1.0], bare=[1.0])
    for name, *rounds in (
        ("treadle", trickle(4.0, 5.4), idle(0.19, 700.0, 700.0)),
        ("pgqueuer", trickle(4.9, 5.0), idle(0.5, 9_000.0, 700.0)),
        ("bare", trickle(1.0, 1.0), idle(0.01, 0.0, 0.0)),
    ):
        for measure, one in zip(("trickle", "idle"), rounds, strict=True):
            figures["peers"][name]["measures"][measure] = {"rounds": [one]}
    page = report.page(Summary(figures), [])
    assert "| CPU per job at 100 jobs/s: at least 1.25 times pgqueuer | 1.23 times as good | **missed** |" in page
    assert "first of those on PostgreSQL | 4.00 ms; the best other one is pgqueuer, 4.90 | met |" in page
    assert (
        "at most 1.1 times the first of those on PostgreSQL | 5.40 ms; the best other one is pgqueuer, 5.00 | met |"
        in page
    )
    assert "| CPU of an idle worker and its server: at most 0.3 % | 0.29 % | met |" in page
    assert "| statements per minute of an idle worker: at most 2 | 2.0 | met |" in page
    assert "none because of the worker | 700 bytes; 700 without a worker | met |" in page
    assert "| **treadle** | 4.00 | 3.50 | 0.30 | 0.20 |" in page
    assert "| **treadle** | 0.29 | 0.19 | 0.10 | 0.01 | 2.0 | 700 | 700 |" in page
    figures["peers"]["treadle"]["measures"]["idle"] = {"rounds": [idle(0.21, 701.0, 700.0)]}
    missed = [one.target for one in verdicts(Summary(figures)) if "idle worker" in one.target and not one.met]
    assert len(missed) == 2


def test_a_queue_that_does_nothing_when_idle_is_ahead_without_a_ratio() -> None:
    figures = raw_results(treadle=[1.0], silent=[1.0])
    for name, wal in (("treadle", 700.0), ("silent", 0.0)):
        figures["peers"][name]["measures"]["idle"] = {"rounds": [idle(0.1, wal, 0.0)]}
    assert "Treadle 700 bytes: silent 0 bytes.\n" in wins(Summary(figures))


def test_a_run_without_the_new_measurements_has_no_empty_sections() -> None:
    page = report.page(Summary(raw_results(treadle=[1.0])), [])
    assert "Job types and processes" not in page
    assert "Five minutes of work" not in page
    assert "Beside large payloads" not in page
    assert "One job at a time" not in page
    assert "An idle worker" not in page


def test_failures_are_in_the_report_with_their_reasons() -> None:
    figures = raw_results(treadle=[100.0], quicker=[150.0])
    figures["peers"]["absent"] = {"failed": "it cannot be installed: no wheel", "measures": {}}
    page = report.page(Summary(figures), [])
    assert "| absent | all | it cannot be installed: no wheel |" in page
    assert "| treadle | kill | no luck |" in page


def test_jobs_that_do_not_run_again_are_a_result_and_not_a_failure() -> None:
    figures = raw_results(treadle=[100.0], slower=[50.0])
    never = {"jobs": 2, "again": 0, "first": None, "seconds": None, "waited": 60.0}
    half = {"jobs": 2, "again": 1, "first": 5.0, "seconds": None, "waited": 60.0}
    for name, one in (("treadle", half), ("slower", never)):
        figures["peers"][name]["measures"]["kill"] = {"rounds": [one]}
    page = report.page(Summary(figures), [])
    assert "| **treadle** | not within 60 s (1 of 2 did, the first after 5.0 s) |" in page
    assert "| slower | not within 60 s |" in page
    assert "could not be measured" not in page


def test_a_cell_of_the_report_has_the_median_and_the_spread() -> None:
    page = report.page(Summary(raw_results(treadle=[100.0, 90.0, 110.0])), [])
    assert "| **treadle** | 100 (90 to 110) | - | - |" in page
