"""Sets clocks forward and back, as an administrator, a wrong time server or a failover would."""

from random import Random

from chaos.fake_clock import MISSING, FakeClock, library
from chaos.scene import Scene
from chaos.storms.storm import Storm


class Clocks(Storm):
    name = "clocks"
    about = "the clock of workers and producers jumps by 2 s to a day, forward and back (libfaketime)"
    every = (0.5, 2.0)

    def missing(self) -> str | None:
        return None if library() else MISSING

    def before_server(self, scene: Scene) -> None:
        self._clock = FakeClock(scene.folder / "clock", FAKETIME_CACHE_DURATION="1")
        scene.environment |= self._clock.environment

    def inject(self, scene: Scene, rng: Random) -> None:
        scene.ledger.note("fault", did="clock set")
        self._clock.set(rng.choice([2, 30, 3600, 86400]) * rng.choice([1, -1]))

    def end(self, scene: Scene) -> None:
        self._clock.set(0)


class ServerClock(Storm):
    name = "server-clock"
    about = "the clock of the server jumps by 2 s to a day, forward and back (libfaketime)"
    every = (0.5, 6.0)

    def missing(self) -> str | None:
        return None if library() else MISSING

    def before_server(self, scene: Scene) -> None:
        # Without a cache: all processes of a real server have the same clock.
        self._clock = FakeClock(scene.folder / "server-clock", FAKETIME_NO_CACHE="1")
        scene.server_environment |= self._clock.environment

    def inject(self, scene: Scene, rng: Random) -> None:
        seconds = rng.choice([2, 30, 3600, 86400]) * rng.choice([1, -1])
        scene.ledger.note("fault", did=f"clock of the server set to {seconds:+d} s", clock=True)
        self._clock.set(seconds)

    def end(self, scene: Scene) -> None:
        # Jobs that were enqueued with a delay obey the clock: by then all of them are due.
        self._clock.set(3 * 86400)
