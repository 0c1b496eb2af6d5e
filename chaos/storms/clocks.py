"""Sets the clock of workers and producers forward and back, as an administrator or a wrong time server would."""

from pathlib import Path
from random import Random

from chaos.scene import Scene
from chaos.storms.storm import Storm


def library() -> Path | None:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return found[0] if found else None


class Clocks(Storm):
    name = "clocks"
    about = "the clock of workers and producers jumps by 2 s to a day, forward and back (libfaketime)"
    every = (0.5, 2.0)

    def missing(self) -> str | None:
        return None if library() else "libfaketime is not installed (Debian: apt-get install faketime)"

    def before_server(self, scene: Scene) -> None:
        self._file = scene.folder / "clock"
        self._file.write_text("+0\n")
        scene.environment |= {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            # Only the time of day jumps on real machines; the monotonic clock does not.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def inject(self, scene: Scene, rng: Random) -> None:
        scene.ledger.note("fault", did="clock set")
        self._set(rng.choice([2, 30, 3600, 86400]) * rng.choice([1, -1]))

    def end(self, scene: Scene) -> None:
        self._set(0)

    def _set(self, seconds: int) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{seconds:+d}\n")
        draft.rename(self._file)
