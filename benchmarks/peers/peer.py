"""A peer, as the harness sees it: a program that is asked, and workers that tell what they ran."""

import json
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.workers import Watch, Workers

SECONDS = 120  # for a command; a slow one is a failure with a reason, and the run goes on
CONCURRENCY = 100

Answer = dict[str, Any]
Place = dict[str, str]  # the environment that says where its database is


class Failed(Exception):
    """A sentence for the report."""


@dataclass
class Peer:
    name: str
    command: list[str]
    about: Answer = field(default_factory=dict)

    @property
    def store(self) -> str:
        return str(self.about["store"])

    @property
    def processes(self) -> int:
        return int(self.about["processes"])

    def ask(self, place: Place, *words: Any, seconds: float = SECONDS) -> Answer:
        """Run one command and return the last line that it said."""
        command = [*self.command, *map(str, words)]
        try:
            done = subprocess.run(
                command, env=os.environ | place, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{' '.join(map(str, words))} took more than {seconds:.0f} s") from error
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode:
            raise Failed(f"{' '.join(map(str, words))} failed: {last_words(done.stderr)}")
        return dict(json.loads(lines[-1])) if lines else {}

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
            workers = Workers(said)
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
        watch = Watch([*self.command, "watch"], place, lambda: int(self.ask(place, "left")["left"]))
        try:
            yield watch
        finally:
            watch.stop()


def last_words(text: str) -> str:
    """The last error that it told, else its last line."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"(Error|error|Exception|Violation)\w*: ", line)]
    return (errors or lines or ["it said nothing"])[-1][:300]
