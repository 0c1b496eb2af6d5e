"""When a process has run enough jobs, or uses too much memory, and is to be replaced by a new one.

The limits have jitter, so that processes that were started together are not replaced together.
"""

import asyncio
import os
import random
from typing import NamedTuple, Self

import psutil

from treadle.words.errors import InvalidArgument
from treadle.words.size import Size, size
from treadle.worker.services import within

CHECK_MEMORY_SECONDS = 1.0
# The lowest share of a limit that is used.
JOBS_SHARE, MEMORY_SHARE = 0.8, 0.9


class Limits(NamedTuple):
    """Of one process; None: unlimited."""

    jobs: int | None
    memory: int | None

    @classmethod
    def drawn(cls, max_jobs: int | None, max_memory: Size | None) -> Self:
        """With jitter. Never above what was given."""
        jobs = None if max_jobs is None else max(1, round(max_jobs * random.uniform(JOBS_SHARE, 1)))  # noqa: S311
        memory = None
        if max_memory is not None:
            memory = round(size(max_memory, "max_memory") * random.uniform(MEMORY_SHARE, 1))  # noqa: S311 - jitter
        return cls(jobs, memory)

    def reached(self, jobs: int, process: int) -> str | None:
        """Why a process that has run so many jobs is to be replaced, or None."""
        if self.jobs is not None and jobs >= self.jobs:
            return f"it has run {jobs:,} jobs"
        if self.memory is not None and jobs and (used := memory_used(process)) > self.memory:
            return f"it uses {shown(used)} of memory"
        return None


UNLIMITED = Limits(None, None)


class Recycling:
    """The jobs and the memory of a worker process. Each of its child processes has limits of its own."""

    def __init__(self, max_jobs: int | None, max_memory: Size | None) -> None:
        self.given = (max_jobs, max_memory)
        self._limits = Limits.drawn(max_jobs, max_memory)
        self._jobs = 0
        self._allowed = True
        self.due = asyncio.Event()
        self.reason = ""
        """Why, once it is due."""

    def check_room(self) -> None:
        """Raise InvalidArgument if the process uses too much memory before its first job: the next one would, too."""
        limit = self.given[1]
        used = memory_used(os.getpid())
        if limit is not None and used > size(limit, "max_memory") * MEMORY_SHARE:
            raise InvalidArgument(
                f"max_memory is {limit}, but the application uses {shown(used)} before its first job; "
                "it needs more, or the process would be replaced again and again"
            )

    def count_job(self) -> bool:
        """A job starts. Returns whether it is the last one."""
        self._jobs += 1
        if self._limits.jobs is not None and self._jobs >= self._limits.jobs:
            self._look()
        return self.due.is_set()

    def postpone(self) -> None:
        """Run more jobs than allowed, until resume(): the process that this one has replaced still has jobs to finish.
        If both only finished jobs, nobody would claim any."""
        self._allowed = False

    def resume(self) -> None:
        self._allowed = True
        self._look()

    async def wait(self) -> None:
        """Wait until it is due."""
        while not self.due.is_set():
            self._look()
            await within(self.due.wait(), CHECK_MEMORY_SECONDS)

    def _look(self) -> None:
        if self._allowed and not self.due.is_set() and (reason := self._limits.reached(self._jobs, os.getpid())):
            self.reason = reason
            self.due.set()


def memory_used(process: int) -> int:
    try:
        return int(psutil.Process(process).memory_info().rss)
    except psutil.Error:
        return 0


def shown(number: int) -> str:
    return f"{number / 2**20:.0f} MB"
