"""A process that follows all events and appends each, with its cursor, to a file in one write.

It can be killed at any time; when it is started again, it continues after the last event in its file.

    python -m tests.support.listener URL FILE
"""

import os
import sys
from pathlib import Path

from treadle import Treadle


def last_cursor(file: Path) -> str | None:
    lines = file.read_text().splitlines() if file.exists() else []
    return lines[-1].split()[0] if lines else None


def main(url: str, name: str) -> None:
    descriptor = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for event in Treadle(url).events(after=last_cursor(Path(name))):
        os.write(descriptor, f"{event.cursor} {event.job_id} {event.number}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
