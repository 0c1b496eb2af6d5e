"""`python -m treadle.cli.program PID …` is `treadle …`, started by the process PID, and stopped when that ends."""

import ctypes
import os
import signal
import sys

from treadle.cli import main


def stop_with(parent: int) -> None:
    """Get SIGTERM when the parent process ends, even if it was killed. Only Linux offers that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    stop_with(int(sys.argv.pop(1)))
    main(prog_name="treadle")
