"""The clock of workers and producers is set forward and back, by hours, as by a hand or by a wrong time server."""

from pathlib import Path

from chaos.scene import Scene
from chaos.storms.storm import Chance, Storm


def library() -> Path | None:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return found[0] if found else None


class Clocks(Storm):
    name = "clocks"
    about = "the time of day of workers and producers jumps, by seconds, an hour or a day, both ways (libfaketime)"
    every = (0.5, 2.0)

    def missing(self) -> str | None:
        return None if library() else "libfaketime is not installed (Debian: apt-get install faketime)"

    def prepare(self, scene: Scene) -> None:
        self._file = scene.folder / "clock"
        self._file.write_text("+0\n")
        scene.environment |= {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            # A step of the time of day is what happens to machines; the uptime goes on.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def strike(self, scene: Scene, chance: Chance) -> None:
        scene.ledger.note("fault", did="clock set")
        self._set(chance.choice([2, 30, 3600, 86400]) * chance.choice([1, -1]))

    def cease(self, scene: Scene) -> None:
        self._set(0)

    def _set(self, seconds: int) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{seconds:+d}\n")
        draft.rename(self._file)
