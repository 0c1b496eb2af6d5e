"""Renews the leases of workers from a process that runs none of the user's code, and sees to what they leave behind.

`treadle worker` has a supervisor that does this for the processes it starts. A worker inside a program has a keeper
process of its own: it ends when the program does, however that ends, and then gives back what the worker held.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from treadle.db.queries import worker as work
from treadle.db.reconnecting import DatabaseAway, Line
from treadle.words.clock import now
from treadle.worker.job_slots import Board
from treadle.worker.options import Settings, renew_every

log = logging.getLogger("treadle")

# At each host of the URL: the least that libpq knows. Of two the first may be silent, and the lease is short.
CONNECT_SECONDS = 2
# How often what is left of a worker is looked for; after that any other worker finds it by and by.
BURIALS = 10
# On a busy machine a keeper of a short-lived worker may still be starting when it is told to end.
STOP_SECONDS = 15.0


class Keeper:
    """Looks after some workers of one database."""

    def __init__(self, url: str, schema: str, lease: timedelta, crash_limit: int) -> None:
        # Short, so that there is time to try again on another connection before the worker has to stop.
        self._line = Line(url, schema, "treadle keeper", lease.total_seconds() / 5, CONNECT_SECONDS)
        self._lease = lease
        self._crash_limit = crash_limit
        self.wards: dict[str, Board] = {}

    async def renew(self) -> None:
        """Again and again. What fails is tried again soon: the workers count the time themselves."""
        every = renew_every(self._lease)
        while True:
            boards = dict(self.wards)
            began = now()
            try:
                if boards:
                    await self._line.run(work.renew(list(boards), self._lease))
            except Exception as error:
                if not isinstance(error, DatabaseAway):
                    log.exception("the lease could not be renewed; it will be tried again")
                await asyncio.sleep(every / 10)
                continue
            for board in boards.values():
                # The time before it was sent: the lease lasts from then on for certain.
                board.renewed_at = began
            await asyncio.sleep(max(0.0, every - (now() - began)))

    async def bury(
        self,
        worker_id: str,
        reason: str,
        crashed: Sequence[UUID] = (),
        overdue: Sequence[UUID] = (),
        keep: bool = True,
    ) -> list[work.Recovered]:
        """Give back what a worker that has ended still held, and say what it was. Waits while the database is away."""
        self.wards.pop(worker_id, None)
        query = work.recover_worker(worker_id, reason, crashed, overdue, self._crash_limit, keep)
        recovered = await self._line.persist(query)
        # A statement of a worker that was killed may still be under way, and hold what it was about.
        for _ in range(BURIALS):
            if not await self._line.persist(work.held(worker_id)):
                break
            await asyncio.sleep(0.1)
            again = await self._line.persist(query)
            recovered += again
        return recovered

    async def close(self) -> None:
        await self._line.close()


class KeeperProcess:
    """A keeper for one worker inside a program."""

    def __init__(self, worker_id: str, url: str, schema: str, board: Board, chosen: Settings) -> None:
        self._board = board
        self._order = {
            "worker_id": worker_id,
            "url": url,
            "schema": schema,
            "slots": board.slots,
            "board": board.descriptor,
            "lease": chosen.lease.total_seconds(),
            "crash_limit": chosen.crash_limit,
            "parent": os.getpid(),
        }

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from treadle.worker.keeper import main; main()",
            stdin=subprocess.PIPE,
            pass_fds=[self._board.descriptor],
            start_new_session=True,  # Ctrl-C in a terminal is for the program
        )
        self._say(self._order)
        self._watch = asyncio.create_task(self._restart())

    async def stop(self, wait: bool) -> None:
        """The worker has ended, or (without waiting) all of it but a thread that does not stop."""
        self._watch.cancel()
        if not wait:
            return
        with contextlib.suppress(OSError):
            self._say({"bye": True})
        self._pipe.close()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:
            log.warning("the keeper of the worker's lease does not end; it is left alone")

    async def _restart(self) -> None:
        """A keeper that dies is replaced: without one the worker would have to stop."""
        code = await self._process.wait()
        log.warning("the keeper of the worker's lease ended with exit code %s; it is started again", code)
        await asyncio.sleep(0.2)
        await self.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def _pipe(self) -> asyncio.StreamWriter:
        pipe = self._process.stdin
        if pipe is None:
            raise RuntimeError("the keeper was started without a pipe")
        return pipe

    def _say(self, message: dict[str, Any]) -> None:
        self._pipe.write(json.dumps(message).encode() + b"\n")


async def keep() -> None:
    """The inside of a keeper process: the order comes on standard input, whose end is the program's."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    order = json.loads(await reader.readline() or b"{}")
    if not order:
        return
    board = Board(order["board"], order["slots"])
    keeper = Keeper(order["url"], order["schema"], timedelta(seconds=order["lease"]), order["crash_limit"])
    keeper.wards[order["worker_id"]] = board
    renewing = asyncio.create_task(keeper.renew())
    # The end of the pipe is not enough: a process that the program forked may hold it open.
    last, orphaned = asyncio.create_task(reader.readline()), asyncio.create_task(_orphaned(order["parent"]))
    await asyncio.wait([last, orphaned], return_when=asyncio.FIRST_COMPLETED)
    clean = last.done() and bool(last.result())
    last.cancel()
    orphaned.cancel()
    renewing.cancel()
    await asyncio.gather(renewing, return_exceptions=True)
    crashed = [] if clean else [entry.id for entry in board.entries() if not entry.process]
    burial = keeper.bury(order["worker_id"], "its program ended while it ran", crashed, keep=not clean)
    # If the database is away for longer, others give its jobs back: the lease runs out by itself.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(burial, 2 * order["lease"])
    await keeper.close()


async def _orphaned(parent: int) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110 - the kernel sets no event
        await asyncio.sleep(0.2)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(keep())
