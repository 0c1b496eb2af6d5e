"""An application whose worker processes fail to start, as files in a folder tell them."""

import os
import time
from pathlib import Path

from treadle import Treadle

app = Treadle()

STARTS = "TREADLE_TEST_STARTS"


@app.job
async def light() -> int:
    return os.getpid()


def _start() -> None:
    """What happens while a worker process imports this module."""
    if STARTS in os.environ and "TREADLE_SUPERVISOR" in os.environ:
        starts = Path(os.environ[STARTS])
        if (starts / "broken").exists():
            raise ImportError("broken for a while")
        for name in ("crash", "mistake", "wait"):
            try:
                (starts / name).rename(starts / f"{name} taken")
            except FileNotFoundError:
                continue
            if name == "crash":
                os._exit(3)
            if name == "mistake":
                raise ImportError("a mistake")
            time.sleep(60)
        # Of two processes the first works; the other waits, and cannot import unless it was healed.
        if (starts / "second").exists():
            try:
                (starts / "first").rename(starts / "first taken")
            except FileNotFoundError:
                while not (starts / "go").exists():
                    time.sleep(0.02)
                if not (starts / "healed").exists():
                    raise ImportError("a mistake of one") from None


_start()
