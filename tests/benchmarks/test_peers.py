"""The harness that benchmarks other job queues (benchmarks/peers): its protocol and its figures."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import benchmarks.peers.bench
import psutil
import psycopg
import pytest
from benchmarks.peers import __main__ as run
from benchmarks.peers import install
from benchmarks.peers.bench import Bench
from benchmarks.peers.figures import quantiles
from benchmarks.peers.measures import Measure, growing, held, idle, trickle
from benchmarks.peers.peer import Failed, LeftOut, Peer
from benchmarks.peers.program import end_group, signal_group, start
from benchmarks.peers.results import Results
from benchmarks.peers.servers import Postgres
from benchmarks.processor import cpu_seconds

from tests.support.workers import until

ADAPTER = install.ADAPTERS / "bare" / "adapter.py"
BENCH = Bench(Postgres(0), None, seconds=2.5, most=50_000)


@pytest.fixture(scope="module")
def bare() -> Peer:
    """The peer without a job queue. It needs only psycopg, so it runs in this environment."""
    peer = Peer("bare", [sys.executable, str(ADAPTER)])
    peer.about = peer.ask({}, "about")
    return peer


def test_a_drain_ends_when_no_jobs_are_left(bare: Peer, empty_url: str) -> None:
    place = {"BENCH_URL": empty_url}
    bare.ask(place, "setup")
    assert bare.ask(place, "bulk", 50)["jobs"] == 50
    assert bare.ask(place, "left") == {"left": 50}
    drained = BENCH.drain(bare, place, 50)
    assert drained.jobs == 50
    assert drained.rate > 0
    assert bare.ask(place, "left") == {"left": 0}


def test_processes_are_suspended_with_those_that_they_started() -> None:
    """Also those that have a process group of their own, like the worker processes of Treadle."""
    child = "import time; time.sleep(60)"
    parent = f"""if True:
        import subprocess, sys, time
        started = subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True)
        print(started.pid, flush=True)
        time.sleep(60)"""
    program = start([sys.executable, "-c", parent], {})
    assert program.stdout
    process = psutil.Process(int(program.stdout.readline()))
    try:
        signal_group(program, signal.SIGSTOP)
        until(lambda: process.status() == psutil.STATUS_STOPPED)
        signal_group(program, signal.SIGCONT)
        until(lambda: process.status() != psutil.STATUS_STOPPED)
    finally:
        end_group(program)
        program.wait()
        program.stdout.close()
    until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


def test_ten_job_types_are_drained_by_processes_that_begin_together(bare: Peer, empty_url: str) -> None:
    place = {"BENCH_URL": empty_url}
    bare.ask(place, "setup")
    assert BENCH.drain_together(bare, place, 2_000, "ten", 2).jobs == 2_000
    with psycopg.connect(empty_url) as connection:
        rows = connection.execute("select job_type, count(*) from jobs group by 1 order by 1").fetchall()
    assert rows == [(f"noop{nth}", 200) for nth in range(10)]


def test_workers_run_nothing_while_they_are_suspended(bare: Peer, empty_url: str) -> None:
    place = {"BENCH_URL": empty_url}
    bare.ask(place, "setup")
    with bare.working(place, "noop", 2) as workers:
        with workers.suspended():
            bare.ask(place, "bulk", 100)
            time.sleep(0.3)
            assert workers.ran == 0
        workers.await_ran(100, 30)


def test_jobs_with_large_payloads_are_neither_counted_nor_timed(bare: Peer, empty_url: str) -> None:
    place = {"BENCH_URL": empty_url}
    bare.ask(place, "setup")
    with bare.working(place, "mixed") as workers:
        bare.ask(place, "produce", 20, 0.5, "large")
        bare.ask(place, "produce", 20, 0.5, "stamp")
        workers.await_ran(30, 30)
        until(lambda: bare.ask(place, "left") == {"left": 0})
    # Nor are those of the producer's first second timed.
    assert workers.ran == 30
    assert 0 < len(workers.latencies) <= 10


def test_a_queue_with_a_supervisor_starts_one_program_for_all_processes() -> None:
    program = """
import os, sys, time
for _ in range(int(os.environ["BENCH_PROCESSES"])):
    print('{"ready": true}', flush=True)
time.sleep(60)
"""
    supervised = Peer("supervised", [sys.executable, "-c", program], {"supervises": True})
    with supervised.working({}, "noop", 8) as workers:
        assert (len(workers.processes), workers.ready) == (1, 8)
    separate = Peer("separate", [sys.executable, "-c", program], {})
    with separate.working({}, "noop", 3) as workers:
        assert (len(workers.processes), workers.ready) == (3, 3)


def test_work_without_a_pause_has_a_backlog_until_its_time_is_over(
    bare: Peer, empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"BENCH_URL": empty_url}
    bare.ask(place, "setup")
    bench = Bench(Postgres(0), None, seconds=2.0, most=3_000)
    for name, seconds in {"SECONDS": 2.4, "INTERVAL": 0.4, "AT_ONCE": 1.0}.items():
        monkeypatch.setattr(growing, name, seconds)
    monkeypatch.setattr(bench, "fresh", lambda *_: place)
    found = growing.measure(bench, bare, 1_000.0)
    assert len(found["rates"]) == 6
    assert found["jobs"] >= 2_000  # more than were enqueued at the beginning
    assert (found["first"], found["last"]) == (found["rates"][0], found["rates"][-1])
    assert bare.ask(place, "left") == {"left": 0}


@pytest.fixture(scope="module")
def apart() -> Iterator[Bench]:
    """A bench whose measurements share one server of its own."""
    bench = Bench(Postgres(0), None, seconds=2.0, most=300, quick=True, settle=1.0, window=2.0)
    with bench.apart(Peer("bare", [], {"store": "postgresql"}), idle.SETTINGS) as own:
        own.apart = lambda *_: nullcontext(own)  # type: ignore[assignment, method-assign]
        yield own


def test_the_processor_time_of_a_job_is_that_of_server_worker_and_producer(bare: Peer, apart: Bench) -> None:
    found = trickle.measure(apart, bare, 0.0)
    assert 100 < found["jobs"] <= 300
    assert 0 < found["p50"] <= found["p99"]
    assert all(0 < found["cpu_ms"][name] < 20 for name in ("server", "worker", "producer"))
    assert found["cpu_ms"]["all"] == pytest.approx(sum(found["cpu_ms"].values()) / 2)


def test_an_idle_worker_is_compared_with_a_server_without_one(bare: Peer, apart: Bench) -> None:
    found = idle.measure(apart, bare, 0.0)
    # Without work, it polls every 5 ms, and writes nothing.
    assert found["statements_per_minute"] > 60 * 20
    assert found["cpu_percent"]["worker"] > 0
    assert found["control"]["statements_per_minute"] == 0
    assert found["control"]["cpu_percent"]["worker"] == 0


def test_processes_that_have_ended_are_counted_by_the_one_that_started_them() -> None:
    burn = "import time; [None for _ in iter(lambda: time.process_time() < {}, False)]"
    child = burn.format(0.3)
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); {burn.format(0.2)}"
    program = start([sys.executable, "-c", f"{parent}; print(flush=True); time.sleep(60)"], {})
    try:
        assert program.stdout
        program.stdout.readline()
        assert 0.45 < cpu_seconds([program.pid]) < 5
    finally:
        end_group(program)
        program.communicate()


def test_measurements_that_wait_end_when_the_run_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    def waits() -> None:
        with pytest.raises(Failed, match="interrupted"):
            bench.rest(5)
        ended.append(True)

    bench, ended = Bench(Postgres(0), None, seconds=2.0, most=300), list[bool]()
    monkeypatch.setattr(benchmarks.peers.bench, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.together([waits], 1)
    assert ended == [True]


class PeerWithLateOutcomes:
    """A peer that writes its outcomes some time after its last job ran. It stands for the worker and the watch."""

    first, last = 10.0, 12.0

    def __init__(self) -> None:
        self.looks = [(30, 12.1), (5, 12.4), (0, 13.0)]

    def await_ran(self, jobs: int, seconds: float) -> None:
        pass

    def memory(self) -> float:
        return 0.0

    def look(self) -> tuple[int, float]:
        return self.looks.pop(0)


def test_a_drain_includes_outcomes_that_are_written_late() -> None:
    peer: Any = PeerWithLateOutcomes()
    assert BENCH.finish(peer, peer, 300).seconds == pytest.approx(3.0)
    peer.looks = [(0, 12.1)]  # no outcome was late, so the time of the query itself does not count
    assert BENCH.finish(peer, peer, 300).seconds == pytest.approx(2.0)


def test_a_failed_command_is_reported_with_the_end_of_its_output(bare: Peer) -> None:
    with pytest.raises(Failed, match=r"bulk 5 failed: .*OperationalError: "):
        bare.ask({"BENCH_URL": "postgresql://127.0.0.1:1/nowhere"}, "bulk", 5)


def test_workers_that_exit_too_early_are_reported_with_the_end_of_their_output(bare: Peer) -> None:
    with pytest.raises(Failed, match=r"ended before the workers are ready .*OperationalError: "):
        with bare.working({"BENCH_URL": "postgresql://127.0.0.1:1/nowhere"}, "noop"):
            pass


def test_the_last_job_is_reported_and_a_forked_child_counts_its_own_jobs() -> None:
    program = """
import os, time, peer
peer.ran.one()
if os.fork() == 0:
    peer.ran.one()
    peer.ran.one()
    time.sleep(0.3)
    os._exit(0)
os.wait()
peer.ran.stamp(time.monotonic())
peer.ran.end()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=os.environ | {"PYTHONPATH": str(install.ADAPTERS)},
        capture_output=True,
        text=True,
        check=True,
    )
    reported = [json.loads(line) for line in done.stdout.splitlines()]
    last = {line["pid"]: line["ran"] for line in reported}
    assert sorted(last.values()) == [2, 2]
    assert sum(len(line.get("latencies_ms", [])) for line in reported) == 1


def test_a_command_that_hangs_is_killed_and_counts_as_failed() -> None:
    hanging = Peer("hanging", [sys.executable, "-c", "import time; time.sleep(600)"])
    with pytest.raises(Failed, match="it took more than 1 s and was ended"):
        with hanging.limited(1):
            hanging.ask({}, "about")
    with pytest.raises(Failed, match="about took more than 0 s"):  # the limit of a single command
        with hanging.limited(60):
            hanging.ask({}, "about", seconds=0.2)


def test_subprocesses_and_late_commands_of_a_hanging_peer_are_killed(tmp_path: Path) -> None:
    wait = "import sys, subprocess, time; {} time.sleep(600)"
    child = ["-c", wait.format(""), str(tmp_path)]
    program = wait.format(f"subprocess.Popen([sys.executable, *{child!r}]);")
    hanging = Peer("hanging", [sys.executable, "-c", program])
    with hanging.limited(1):
        for _ in range(2):
            with pytest.raises(Failed, match="about failed"):
                hanging.ask({}, "about", seconds=60)
    until(lambda: not any(str(tmp_path) in (each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])))


def measured(results: Results, measure: Any, nth: int = 0, end: float = float("inf")) -> Any:
    peer = Peer("some", [], {"store": "postgresql", "history": True})
    run._measure(BENCH, peer, Measure("drain", measure, rounds=3, limit=60), nth, 1.0, results, end)
    return results.measure("some", "drain")


def test_a_failure_is_recorded_and_the_run_continues(tmp_path: Path) -> None:
    def fails(*_: Any) -> Any:
        raise Failed("the peer said no")

    def does_not_apply(*_: Any) -> Any:
        raise LeftOut("there is nothing to measure")

    results = Results(tmp_path / "benchmarks.json", resume=False)
    assert measured(results, fails) == {"rounds": [], "failed": "the peer said no"}
    # The second round succeeded, but one round is missing.
    assert measured(results, lambda *_: {"jobs": 1}, nth=1) == {"rounds": [{"jobs": 1}], "failed": "the peer said no"}
    # --resume adds the missing round.
    assert measured(results, lambda *_: {"jobs": 2}, nth=1) == {"rounds": [{"jobs": 1}, {"jobs": 2}]}
    late = measured(results, lambda *_: {"jobs": 3}, nth=2, end=time.monotonic() - 1)
    assert late == {"rounds": [{"jobs": 1}, {"jobs": 2}], "left_out": run.LATE}
    assert measured(results, does_not_apply, nth=2)["left_out"] == "there is nothing to measure"


def test_drains_that_become_too_slow_under_an_open_snapshot_are_a_result() -> None:
    rates = iter([100.0, 90.0, 45.0])  # without a snapshot, then two rounds with one

    def drain(*_: Any) -> Any:
        rate = next(rates, None)
        if rate is None:
            raise Failed("waited 90 s until 300 jobs ran (20 ran)")
        return SimpleNamespace(rate=rate)

    bench: Any = SimpleNamespace(
        most=300,
        quick=False,
        size=lambda rate: 300,
        fresh=lambda *_: {"BENCH_URL": "server/database"},
        drain=drain,
        postgres=SimpleNamespace(connect=lambda *_: nullcontext(SimpleNamespace(execute=lambda *_: None))),
    )
    peer: Any = SimpleNamespace(ask=lambda *_: {})
    found = held.measure(bench, peer, 50.0)
    assert (found["free"], found["held"]) == ([100.0], [90.0, 45.0])
    assert found["stopped"] == "round 3: waited 90 s until 300 jobs ran (20 ran)"


def test_the_number_of_jobs_depends_on_the_speed_of_the_peer() -> None:
    assert BENCH.size(20_000.0) == 50_000
    assert BENCH.size(1_010.0) == 2_500
    assert BENCH.size(10.0) == 300


def test_percentiles_are_measured_values() -> None:
    assert quantiles([float(n) for n in range(1, 101)]) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}
    assert quantiles([7.0]) == {"p50": 7.0, "p95": 7.0, "p99": 7.0}


def test_an_interrupted_run_continues_from_its_saved_results(tmp_path: Path) -> None:
    first = Results(tmp_path / "benchmarks.json", resume=False)
    first.measure("treadle", "drain")["rounds"].append({"jobs": 1})
    first.save()
    assert Results(tmp_path / "benchmarks.json", resume=True).measure("treadle", "drain")["rounds"] == [{"jobs": 1}]
    assert Results(tmp_path / "benchmarks.json", resume=False).measure("treadle", "drain")["rounds"] == []


def test_every_adapter_pins_its_versions() -> None:
    assert {"bare", "treadle"} <= set(install.names())
    for name in install.names():
        folder = install.ADAPTERS / name
        wanted = folder / "requirements.txt"
        if wanted.exists():
            lines = [line for line in wanted.read_text().splitlines() if line and not line.startswith("#")]
            assert all("==" in line or line.startswith("-e ") for line in lines), name
        else:
            assert json.loads((folder / "package.json").read_text())["dependencies"], name
