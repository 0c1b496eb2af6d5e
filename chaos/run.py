"""One storm, or several at once, over a scene; then the calm, and the verdict."""

import random
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path

from chaos.checker import Verdict, Violation
from chaos.scene import Scene
from chaos.storms.storm import Storm

GUARD_SECONDS = 0.3


def run(
    storms: Sequence[Storm],
    seconds: float,
    seed: int,
    folder: Path,
    *,
    pause: float = 0.15,
    lease: float = 5.0,
    fsync: bool = True,
) -> Verdict:
    """`pause` is how long each caller of the load rests between two calls; `fsync`, as PostgreSQL has it."""
    scene = Scene(folder, seed, pause=pause, lease=lease, fsync=fsync)
    broken: list[Violation] = []
    calm = threading.Event()
    try:
        for storm in storms:
            storm.prepare(scene)
        scene.begin()
        for storm in storms:
            storm.join(scene)
        scene.populate()
        raging = [threading.Thread(target=_rage, args=(each, scene, seed, calm, broken)) for each in storms]
        guard = threading.Thread(target=_replace_the_dead, args=(scene, calm))
        for thread in (*raging, guard):
            thread.start()
        calm.wait(seconds)
        calm.set()
        for thread in (*raging, guard):
            thread.join()
        for storm in storms:
            storm.cease(scene)
        scene.stop_the_load()
        if not scene.drain():
            broken.append(Violation("lost", f"after {folder.name} not every job came to its end"))
        scene.stop_the_workers()
        verdict = scene.judge()
    finally:
        calm.set()
        scene.close()
    return Verdict(broken + verdict.violations, verdict.counts)


def _rage(storm: Storm, scene: Scene, seed: int, calm: threading.Event, broken: list[Violation]) -> None:
    chance = random.Random(f"{seed} {storm.name}")
    try:
        while not calm.wait(chance.uniform(*storm.every)):
            storm.strike(scene, chance)
    except Exception:
        # A storm that cannot go on shows nothing: better red than quiet.
        broken.append(Violation("storm", f"{storm.name}: {traceback.format_exc()}"))
        calm.set()


def _replace_the_dead(scene: Scene, calm: threading.Event) -> None:
    while not calm.wait(GUARD_SECONDS):
        scene.replace_the_dead()
