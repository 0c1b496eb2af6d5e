"""Runs a command in a terminal, reads the screen and presses keys."""

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

import pyte

from tests.support.commands import command_line
from tests.support.workers import ROOT, until

# Makes the terminal the controlling one of the session, so that Ctrl-C sends SIGINT.
ATTACH_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    def __init__(self, command: list[str], columns: int, rows: int, **environment: str) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._lines: list[str] | None = None
        self._lock = threading.Lock()
        self.raw = b""
        # The size is that of this terminal, not of the one in which the tests run.
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", ATTACH_TERMINAL, *command],
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
        """The lines on the screen, without those that have scrolled out of it."""
        with self._lock:
            if self._lines is None:  # drawing them takes 10 ms
                self._lines = [line.rstrip() for line in self._screen.display]
            return self._lines

    def text(self) -> str:
        return "\n".join(self.lines()).strip()

    def wait_for(self, *texts: str, seconds: float = 60) -> str:
        """Wait until all of these texts are on the screen at the same time."""

        def found() -> bool:
            shown = self.text()
            return all(each in shown for each in texts)

        until(found, lambda: f"{texts} in:\n{self.text()}", seconds)
        return self.text()

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def press_ctrl_c(self) -> None:
        self.press("\x03")

    def resize(self, columns: int, rows: int) -> None:
        with self._lock:
            self._screen.resize(rows, columns)
            self._lines = None
            fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """Disconnect, as closing a terminal window does."""
        os.close(self._ours)
        self._reading.join(30)

    def echoes(self) -> bool:
        """Whether typed characters are shown, as in a shell."""
        return bool(termios.tcgetattr(self._ours)[3] & termios.ECHO)

    def wait_for_exit(self, seconds: float = 45) -> int:
        """The exit code, after all output has reached the screen."""
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
                received = os.read(self._ours, 65536)
            except OSError:  # the other end is closed
                return
            if not received:
                return
            with self._lock:
                self.raw += received
                self._stream.feed(received)
                self._lines = None


@contextmanager
def terminal(
    *arguments: str, columns: int = 80, rows: int = 24, before: str = "", **environment: str
) -> Iterator[Terminal]:
    """`treadle …` in a terminal. `before` is Python code that runs first in its process, for example to shorten time
    limits."""
    opened = Terminal(command_line(*arguments, before=before), columns, rows, **environment)
    try:
        yield opened
    finally:
        opened.close()
