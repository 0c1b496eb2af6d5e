"""Renews the leases of workers from a process that runs none of the user's code, and gives back their jobs.

`treadle worker` has a supervisor that does this for the processes it starts. A worker inside a program has a keeper
process of its own: it ends with the program, however that ends, and then gives back the jobs of the worker.
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

from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection
from treadle.words.clock import now
from treadle.worker.job_slots import JobSlots
from treadle.worker.options import Settings, renew_every

log = logging.getLogger("treadle")

# At each host of the URL; the minimum of libpq. The first of two hosts may not respond, and the lease is short.
CONNECT_SECONDS = 2
# How many more times the jobs of a dead worker are recovered, 0.1 s apart. After that any other worker does it.
RECOVERIES = 10
# On a busy machine the keeper of a short-lived worker may still be starting when it has to stop.
STOP_SECONDS = 15.0


class Keeper:
    """Keeps the leases of some workers on one database."""

    def __init__(self, url: str, schema: str, lease: timedelta, crash_limit: int) -> None:
        # A short timeout, so that there is time for another connection before the worker has to stop.
        self.connection = ReconnectingConnection(
            url, schema, "treadle keeper", lease.total_seconds() / 5, CONNECT_SECONDS
        )
        self._lease = lease
        self._crash_limit = crash_limit
        self.workers: dict[str, JobSlots] = {}
        """The job slots of each worker whose lease is renewed, by worker id."""

    async def renew(self) -> None:
        """Renew the leases until cancelled. A failed renewal is soon retried."""
        every = renew_every(self._lease)
        while True:
            workers = dict(self.workers)
            began = now()
            try:
                if workers:
                    await self.connection.run(worker_queries.renew(list(workers), self._lease))
            except Exception as error:
                if not isinstance(error, DatabaseUnavailable):
                    log.exception("the lease could not be renewed; retrying")
                await asyncio.sleep(every / 10)
                continue
            for slots in workers.values():
                # The time before the statement was sent: the lease certainly lasts from then on.
                slots.renewed_at = began
            await asyncio.sleep(max(0.0, every - (now() - began)))

    async def recover(
        self,
        worker_id: str,
        reason: str,
        crashed: Sequence[UUID] = (),
        overdue: Sequence[UUID] = (),
        keep: bool = True,
    ) -> list[worker_queries.Recovered]:
        """Give back the jobs of a worker that has ended, and return them. Waits while the database is unavailable."""
        self.workers.pop(worker_id, None)
        await self.connection.persist(worker_queries.announce_leaving(worker_id))
        query = worker_queries.recover_worker(worker_id, reason, crashed, overdue, self._crash_limit, keep)
        recovered = await self.connection.persist(query)
        # A statement of a worker that was killed may still be running, and have locked some of its jobs.
        for _ in range(RECOVERIES):
            if not await self.connection.persist(worker_queries.find_claimed(worker_id)):
                break
            await asyncio.sleep(0.1)
            again = await self.connection.persist(query)
            recovered += again
        return recovered

    async def close(self) -> None:
        await self.connection.close()


class KeeperProcess:
    """A keeper for one worker inside a program."""

    def __init__(self, worker_id: str, url: str, schema: str, slots: JobSlots, chosen: Settings) -> None:
        self._slots = slots
        self._order = {
            "worker_id": worker_id,
            "url": url,
            "schema": schema,
            "slots": slots.count,
            "slots_descriptor": slots.descriptor,
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
            pass_fds=[self._slots.descriptor],
            start_new_session=True,  # Ctrl-C in a terminal is for the program
        )
        self._send(self._order)
        self._watch = asyncio.create_task(self._restart())

    async def stop(self, wait: bool) -> None:
        """The worker has ended. Without `wait`, a thread of it still runs and its lease must still be renewed."""
        self._watch.cancel()
        if not wait:
            return
        with contextlib.suppress(OSError):
            self._send({"bye": True})
        self._pipe.close()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:
            log.warning("the process that renews the worker's lease does not stop; it is left running")

    async def _restart(self) -> None:
        """Replace a keeper that died: without one the worker would have to stop."""
        code = await self._process.wait()
        log.warning("the process that renews the worker's lease exited with code %s; it is restarted", code)
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

    def _send(self, message: dict[str, Any]) -> None:
        self._pipe.write(json.dumps(message).encode() + b"\n")


async def keep() -> None:
    """Run a keeper process. Its order comes on standard input, which is closed when the program ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    order = json.loads(await reader.readline() or b"{}")
    if not order:
        return
    slots = JobSlots(order["slots_descriptor"], order["slots"])
    keeper = Keeper(order["url"], order["schema"], timedelta(seconds=order["lease"]), order["crash_limit"])
    keeper.workers[order["worker_id"]] = slots
    renewing = asyncio.create_task(keeper.renew())
    # The end of the pipe is not enough: a process that the program has forked may keep it open.
    last, orphaned = asyncio.create_task(reader.readline()), asyncio.create_task(_orphaned(order["parent"]))
    await asyncio.wait([last, orphaned], return_when=asyncio.FIRST_COMPLETED)
    clean = last.done() and bool(last.result())
    last.cancel()
    orphaned.cancel()
    renewing.cancel()
    await asyncio.gather(renewing, return_exceptions=True)
    crashed = [] if clean else [entry.id for entry in slots.entries() if not entry.process]
    recovery = keeper.recover(order["worker_id"], "its program ended while it ran", crashed, keep=not clean)
    # If the database is unavailable for longer, other workers give the jobs back when the lease has run out.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(recovery, 2 * order["lease"])
    await keeper.close()


async def _orphaned(parent: int) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110 - the kernel sets no event
        await asyncio.sleep(0.2)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(keep())
