"""Runs one storm, or several at the same time; then stops the load, waits for the jobs to finish, and checks."""

import random
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from chaos.checker import Verdict
from chaos.judge import Violation
from chaos.scene import Scene
from chaos.storms.storm import Storm

RESTART_SECONDS = 0.3
RUNS_SECONDS = 0.3
RUNS_TIMEOUT = 60.0


def run(
    storms: Sequence[Storm],
    seconds: float,
    seed: int,
    folder: Path,
    *,
    pause: float = 0.15,
    lease: float = 5.0,
    fsync: bool = True,
    runs: int = 0,
) -> Verdict:
    """`pause` is the average time between two calls of one producer thread; `fsync` is the PostgreSQL setting.

    The storm lasts for `seconds`, or for longer if fewer than `runs` handlers have started by then: on a busy machine
    little happens within a few seconds.
    """
    scene = Scene(folder, seed, pause=pause, lease=lease, fsync=fsync)
    violations: list[Violation] = []
    over = threading.Event()
    try:
        for storm in storms:
            storm.before_server(scene)
        scene.start_server()
        for storm in storms:
            storm.before_workers(scene)
        scene.start_workers_and_producers()
        threads = [threading.Thread(target=_inject, args=(each, scene, seed, over, violations)) for each in storms]
        threads.append(threading.Thread(target=_restart_dead_processes, args=(scene, over)))
        for thread in threads:
            thread.start()
        over.wait(seconds)
        end = time.monotonic() + RUNS_TIMEOUT
        while scene.runs() < runs and time.monotonic() < end and not over.wait(RUNS_SECONDS):
            pass
        over.set()
        for thread in threads:
            thread.join()
        for storm in storms:
            storm.end(scene)
        scene.stop_producers()
        if not scene.drain():
            violations.append(Violation("lost", f"after {folder.name}, some jobs did not finish"))
        scene.stop_workers()
        verdict = scene.check_ledgers()
    finally:
        over.set()
        scene.close()
    return Verdict(violations + verdict.violations, verdict.counts)


def _inject(storm: Storm, scene: Scene, seed: int, over: threading.Event, violations: list[Violation]) -> None:
    rng = random.Random(f"{seed} {storm.name}")
    try:
        # Each storm injects at least one fault, also in a short run.
        over.wait(rng.uniform(*storm.every))
        storm.inject(scene, rng)
        while not over.wait(rng.uniform(*storm.every)):
            storm.inject(scene, rng)
    except Exception:
        # A storm that stopped early would prove nothing, so its error counts as a violation.
        violations.append(Violation("storm", f"{storm.name}: {traceback.format_exc()}"))
        over.set()


def _restart_dead_processes(scene: Scene, over: threading.Event) -> None:
    while not over.wait(RESTART_SECONDS):
        scene.restart_dead_processes()
