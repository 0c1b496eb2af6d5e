"""A peer, as the harness sees it: a program that is asked, and workers that tell what they ran."""

import json
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.program import Program, end, start
from benchmarks.peers.workers import Watch, Workers

SECONDS = 120  # for a command; a slow one is a failure with a reason, and the run goes on
CONCURRENCY = 100

Answer = dict[str, Any]
Place = dict[str, str]  # the environment that says where its database is


class Failed(Exception):
    """A sentence for the report."""


class LeftOut(Exception):
    """A sentence for the report, of something that does not apply."""


@dataclass
class Peer:
    name: str
    command: list[str]
    about: Answer = field(default_factory=dict)
    _started: list[Program] = field(default_factory=list)
    _over: bool = False

    @property
    def store(self) -> str:
        return str(self.about["store"])

    @property
    def processes(self) -> int:
        return int(self.about["processes"])

    def ask(self, place: Place, *words: Any, seconds: float = SECONDS) -> Answer:
        """Run one command and return the last line that it said."""
        with start([*self.command, *map(str, words)], place, stderr=subprocess.PIPE) as program:
            self._note(program)
            try:
                told, said = program.communicate(timeout=seconds)
            except subprocess.TimeoutExpired as error:
                raise Failed(f"{' '.join(map(str, words))} took more than {seconds:.0f} s") from error
            finally:
                end(program)
        lines = [line for line in told.splitlines() if line.startswith("{")]
        if program.returncode:
            raise Failed(f"{' '.join(map(str, words))} failed: {last_words(said)}")
        return dict(json.loads(lines[-1])) if lines else {}

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Whatever hangs in here, in the peer or in a server, ends when its processes are killed, and is a failure."""
        self._started, self._over = [], False
        timer = threading.Timer(seconds, self._end_all)
        timer.start()
        try:
            yield
        except Exception as error:
            if self._over:
                raise Failed(f"it took more than {seconds:.0f} s and was ended") from error
            raise
        finally:
            timer.cancel()

    def _end_all(self) -> None:
        self._over = True
        for program in list(self._started):
            end(program)

    def _note(self, program: Program) -> None:
        self._started.append(program)
        if self._over:
            end(program)

    @contextmanager
    def asking(self, place: Place, *words: Any) -> Iterator[list[Answer]]:
        """The same beside something else; the answer is in the list at the end."""
        answers: list[Answer] = []
        errors: list[Exception] = []

        def ask() -> None:
            try:
                answers.append(self.ask(place, *words))
            except Failed as error:
                errors.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield answers
        finally:
            thread.join()
        if errors:
            raise errors[0]

    @contextmanager
    def working(self, place: Place, kind: str, processes: int | None = None) -> Iterator[Workers]:
        with tempfile.TemporaryFile() as said:
            workers = Workers(said, self._note)
            try:
                for _ in range(processes or self.processes):
                    workers.start([*self.command, "work", kind, str(CONCURRENCY)], place)
                workers.await_ready()
                yield workers
            except TimeoutError as error:
                said.seek(0)
                words = last_words(said.read().decode(errors="replace"))
                raise Failed(f"{error}; {words}") from error
            finally:
                workers.stop()

    @contextmanager
    def watching(self, place: Place) -> Iterator["Watch"]:
        watch = Watch([*self.command, "watch"], place, lambda: int(self.ask(place, "left")["left"]), self._note)
        try:
            yield watch
        finally:
            watch.stop()


def last_words(text: str) -> str:
    """The last error that it told, else its last line."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"(Error|error|Exception|Violation)\w*: ", line)]
    return (errors or lines or ["it said nothing"])[-1][:300]
