"""A network that breaks, falls silent, is slow, or loses just the answer."""

import time

from chaos.scene import Scene
from chaos.storms.storm import Chance, Storm


class Cuts(Storm):
    name = "cuts"
    about = "all connections cut at once, by the proxy"
    every = (0.5, 2.5)

    def strike(self, scene: Scene, chance: Chance) -> None:
        scene.ledger.note("fault", did="connections cut")
        scene.proxy.cut()


class LostAnswers(Storm):
    name = "lost-answers"
    about = "statements carried out and committed, and the connection cut instead of the answer (COMMIT, or any other)"
    every = (0.1, 0.6)

    def strike(self, scene: Scene, chance: Chance) -> None:
        before = scene.proxy.lost
        scene.proxy.lose_answers(chance.randint(1, 4), chance.choice(["COMMIT", "", "SELECT"]))
        time.sleep(0.1)
        for _ in range(scene.proxy.lost - before):
            scene.ledger.note("fault", did="answer lost")

    def cease(self, scene: Scene) -> None:
        scene.proxy.lose_answers(0)


class Silence(Storm):
    name = "silence"
    about = "connections that are black-holed: those there are, or new ones too, for longer than a lease"
    every = (2.0, 5.0)

    def strike(self, scene: Scene, chance: Chance) -> None:
        scene.proxy.give_up_the_silent()
        if chance.random() < 0.5:
            scene.ledger.note("fault", did="connections fallen silent")
            scene.proxy.go_silent()
            return
        scene.ledger.note("fault", did="network gone")
        scene.proxy.swallow_everything(True)
        time.sleep(chance.choice([0.3, 0.7, 1.5]) * scene.lease)
        scene.proxy.swallow_everything(False)

    def cease(self, scene: Scene) -> None:
        scene.proxy.swallow_everything(False)
        scene.proxy.give_up_the_silent()


class Slow(Storm):
    name = "slow"
    about = "everything takes up to a second longer, each way"
    every = (1.0, 3.0)

    def strike(self, scene: Scene, chance: Chance) -> None:
        scene.ledger.note("fault", did="slow")
        scene.proxy.delay = chance.choice([0.02, 0.2, 1.0])
        time.sleep(chance.uniform(1, 4))
        scene.proxy.delay = 0.0

    def cease(self, scene: Scene) -> None:
        scene.proxy.delay = 0.0
