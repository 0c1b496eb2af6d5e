"""A terminal to run things in: what is on its screen, and Ctrl-C."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyte

from tests.support.workers import ROOT, until

# With this as the terminal of its session, so that Ctrl-C reaches it as a key does.
IN_FRONT = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    def __init__(self, command: list[str], columns: int, rows: int, **environment: str) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self.raw = b""
        # Its size is the terminal's own, not that of whoever runs the tests.
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", IN_FRONT, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=ROOT,
            start_new_session=True,
            env={**inherited, "TERM": "xterm-256color", "LANG": "C.UTF-8", **environment},
        )
        os.close(theirs)
        self._ours = ours
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def lines(self) -> list[str]:
        """What stands there now, with what has scrolled away left out."""
        with self._lock:
            return [line.rstrip() for line in self._screen.display]

    def text(self) -> str:
        return "\n".join(self.lines()).strip()

    def shows(self, *texts: str, seconds: float = 60) -> str:
        """Wait until all of these stand there at once."""
        until(lambda: all(each in self.text() for each in texts), lambda: f"{texts} in:\n{self.text()}", seconds)
        return self.text()

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def press_ctrl_c(self) -> None:
        self.press("\x03")

    def resize(self, columns: int, rows: int) -> None:
        with self._lock:
            self._screen.resize(rows, columns)
            fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """As when a window is closed."""
        os.close(self._ours)
        self._reading.join(30)

    def echoes(self) -> bool:
        """As a terminal does for a shell: what is typed is seen."""
        return bool(termios.tcgetattr(self._ours)[3] & termios.ECHO)

    def ended(self, seconds: float = 45) -> int:
        """Its exit code, once everything it wrote is on the screen."""
        code = self.process.wait(seconds)
        self._reading.join(seconds)
        return code

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reading.join(10)
        with suppress(OSError):
            os.close(self._ours)

    def _read(self) -> None:
        while True:
            try:
                some = os.read(self._ours, 65536)
            except OSError:  # nobody has the other end any more
                return
            if not some:
                return
            with self._lock:
                self.raw += some
                self._stream.feed(some)


@contextmanager
def terminal(*arguments: str, columns: int = 80, rows: int = 24, **environment: str) -> Iterator[Terminal]:
    """`treadle …` in a terminal."""
    command = [str(Path(sys.executable).parent / "treadle"), *arguments]
    made = Terminal(command, columns, rows, **environment)
    try:
        yield made
    finally:
        made.close()
