"""A peer is one of the queues that are compared: an adapter program that runs commands and workers."""

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

SECONDS = 120  # limit for a command; exceeding it is recorded as a failure, and the run continues
CONCURRENCY = 100

Answer = dict[str, Any]
Place = dict[str, str]  # environment variables with the address of the queue's database


class Failed(Exception):
    """A measurement failed. The message is shown in the report."""


class LeftOut(Exception):
    """A measurement does not apply to this queue. The message is shown in the report."""


@dataclass
class Asking:
    """A command that runs in the background."""

    pid: int = 0  # as soon as it has started
    answer: Answer = field(default_factory=dict)  # at the end of the block


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

    def ask(self, place: Place, *words: Any, seconds: float = SECONDS, asking: Asking | None = None) -> Answer:
        """Run one command of the adapter and return the last JSON object that it printed."""
        with start([*self.command, *map(str, words)], place, stderr=subprocess.PIPE) as program:
            self._note(program)
            if asking:
                asking.pid = program.pid
            try:
                output, errors = program.communicate(timeout=seconds)
            except subprocess.TimeoutExpired as error:
                raise Failed(f"{' '.join(map(str, words))} took more than {seconds:.0f} s") from error
            finally:
                end(program)
        lines = [line for line in output.splitlines() if line.startswith("{")]
        if program.returncode:
            raise Failed(f"{' '.join(map(str, words))} failed: {last_words(errors)}")
        return dict(json.loads(lines[-1])) if lines else {}

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Kill the peer's processes after this time, which ends whatever hangs, and raise Failed."""
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
    def asking(self, place: Place, *words: Any) -> Iterator[Asking]:
        """Like ask(), but in the background."""
        asking = Asking()
        errors: list[Exception] = []

        def ask() -> None:
            try:
                asking.answer = self.ask(place, *words, asking=asking)
            except Failed as error:
                errors.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield asking
        finally:
            thread.join()
            if errors:  # also if the block has failed, because this is why
                raise errors[0]

    @contextmanager
    def working(self, place: Place, kind: str, processes: int | None = None) -> Iterator[Workers]:
        """Start worker processes: with one command if the queue has one for several, otherwise with one each."""
        with tempfile.TemporaryFile() as stderr:
            workers = Workers(stderr, self._note)
            try:
                number = processes or self.processes
                each = number if self.about.get("supervises") else 1
                for _ in range(number // each):
                    command = [*self.command, "work", kind, str(CONCURRENCY)]
                    workers.start(command, place | {"BENCH_PROCESSES": str(each)}, each)
                workers.await_ready()
                yield workers
            except TimeoutError as error:
                stderr.seek(0)
                words = last_words(stderr.read().decode(errors="replace"))
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
    """Return the last error message in the output, or else its last line."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"(Error|error|Exception|Violation)\w*: ", line)]
    return (errors or lines or ["no output"])[-1][:300]
