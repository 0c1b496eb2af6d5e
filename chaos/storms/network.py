"""Faults of the network: cut connections, lost replies, black holes and delays."""

import time
from random import Random

from chaos.scene import Scene
from chaos.storms.storm import Storm


class Cuts(Storm):
    name = "cuts"
    about = "all connections reset at the same time, by the proxy"
    every = (0.5, 2.5)

    def inject(self, scene: Scene, rng: Random) -> None:
        scene.ledger.note("fault", did="connections cut")
        scene.proxy.cut()


class LostReplies(Storm):
    name = "lost-answers"
    about = "a statement is executed and committed, but the connection breaks before the reply (COMMIT, or any other)"
    every = (0.1, 0.6)

    def __init__(self) -> None:
        self._noted = 0

    def inject(self, scene: Scene, rng: Random) -> None:
        scene.proxy.lose_replies(rng.randint(1, 4), rng.choice(["COMMIT", "", "SELECT"]))
        time.sleep(0.1)
        self._note(scene)

    def end(self, scene: Scene) -> None:
        scene.proxy.lose_replies(0)
        self._note(scene)

    def _note(self, scene: Scene) -> None:
        """Record the replies lost since the last time, also those that were lost between two calls of inject."""
        lost = scene.proxy.replies_lost
        for _ in range(lost - self._noted):
            scene.ledger.note("fault", did="reply lost")
        self._noted = lost


class Silence(Storm):
    name = "silence"
    about = "connections black-holed: the existing ones, or new ones too, for up to 1.5 leases"
    every = (2.0, 5.0)

    def inject(self, scene: Scene, rng: Random) -> None:
        scene.proxy.close_silent_connections()
        if rng.random() < 0.5:
            scene.ledger.note("fault", did="existing connections black-holed")
            scene.proxy.go_silent()
            return
        scene.ledger.note("fault", did="network down")
        scene.proxy.black_hole_everything(True)
        time.sleep(rng.choice([0.3, 0.7, 1.5]) * scene.lease)
        scene.proxy.black_hole_everything(False)

    def end(self, scene: Scene) -> None:
        scene.proxy.black_hole_everything(False)
        scene.proxy.close_silent_connections()


class Slow(Storm):
    name = "slow"
    about = "all data delayed by up to 1 s in each direction"
    every = (1.0, 3.0)

    def inject(self, scene: Scene, rng: Random) -> None:
        scene.ledger.note("fault", did="slow")
        scene.proxy.delay = rng.choice([0.02, 0.2, 1.0])
        time.sleep(rng.uniform(1, 4))
        scene.proxy.delay = 0.0

    def end(self, scene: Scene) -> None:
        scene.proxy.delay = 0.0
