"""Renews the leases of workers from a process that runs none of the user's code, notices workers that are stuck, and
gives back the jobs of dead ones.

`treadle worker` has a supervisor that does this for the processes it starts. A worker inside a program has a keeper
process of its own: it ends with the program, however that ends, and then gives back the jobs of the worker.
"""

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection, RowLocked
from treadle.words.clock import now
from treadle.worker.job_slots import JobSlots
from treadle.worker.options import ASLEEP_LEASE, Settings, renew_every
from treadle.worker.pulse import ASLEEP_CHECK_SECONDS, CHECK_SECONDS, ChildWatch, Kind, PulseWatch, StoppedChild, Stuck
from treadle.worker.services import within

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
        self._watches: dict[str, PulseWatch] = {}
        self._unreported: set[str] = set()
        self._child_watches: dict[str, ChildWatch] = {}
        self._unreported_children: set[str] = set()
        self._changed = asyncio.Event()
        self._asleep: set[str] = set()
        """The workers that sleep, as their rows say."""

    async def run(self) -> None:
        """Renew the leases, and watch the workers, until cancelled."""
        await asyncio.gather(self.renew(), self.watch())

    async def renew(self) -> None:
        """Renew the leases until cancelled: of workers that sleep, only once. A failed renewal is soon retried."""
        every = renew_every(self._lease)
        while True:
            workers = {name: slots for name, slots in self.workers.items() if not slots.asleep}
            asleep = set(self.workers) - set(workers)
            began = now()
            try:
                if workers:
                    await self.connection.run(worker_queries.renew(list(workers), self._lease))
                if fell_asleep := asleep - self._asleep:
                    await self.connection.run(worker_queries.renew(list(fell_asleep), ASLEEP_LEASE, asleep=True))
            except Exception as error:
                if not isinstance(error, DatabaseUnavailable):
                    log.exception("the lease could not be renewed; retrying")
                await asyncio.sleep(every / 10)
                continue
            for slots in workers.values():
                # The time before the statement was sent: the lease certainly lasts from then on.
                slots.renewed_at = began
            self._asleep = asleep
            if any(name in self.workers and not self.workers[name].asleep for name in fell_asleep):
                continue  # it woke up, and its renewal may have come before
            self._changed.clear()
            await self._report()
            await within(self._changed.wait(), every - (now() - began))

    def report_again(self, worker_id: str) -> None:
        """An earlier keeper of this worker may have reported that it is stuck, or that its children were stopped."""
        self._watches[worker_id] = PulseWatch(self.workers[worker_id])
        self._unreported.add(worker_id)
        self._child_watches[worker_id] = ChildWatch(self.workers[worker_id])
        self._unreported_children.add(worker_id)

    async def watch(self) -> None:
        """Notice when a worker is stuck, or a child of it is stopped, and when that ends. The next renewal, which comes
        at once, reports it."""
        while True:
            await asyncio.sleep(ASLEEP_CHECK_SECONDS if all_asleep(self.workers.values()) else CHECK_SECONDS)
            moment = now()
            for worker_id, slots in list(self.workers.items()):
                try:
                    self._check(worker_id, slots, moment)
                except Exception:
                    log.exception("the processes of worker %s could not be checked", worker_id)

    def _check(self, worker_id: str, slots: JobSlots, moment: float) -> None:
        watch = self._watches.setdefault(worker_id, PulseWatch(slots))
        before = watch.stuck
        if watch.check(moment):
            _log(worker_id, before, watch.stuck, moment)
            self._unreported.add(worker_id)
            self._changed.set()
        children = self._child_watches.setdefault(worker_id, ChildWatch(slots))
        stopped = children.stopped
        if children.check(moment):
            _log_children(worker_id, stopped, children.stopped)
            self._unreported_children.add(worker_id)
            self._changed.set()

    async def _report(self) -> None:
        """Write which workers are stuck, if that has changed. If it fails, it is written after the next renewal."""
        for worker_id in list(self._unreported):
            self._unreported.discard(worker_id)
            stuck = self._watches[worker_id].stuck
            try:
                await self.connection.run(worker_queries.report_stuck(worker_id, *_described(stuck)))
            except Exception as error:
                if not isinstance(error, DatabaseUnavailable | RowLocked):
                    log.exception("it could not be reported that worker %s is stuck, or no longer is", worker_id)
                if worker_id in self._watches:
                    self._unreported.add(worker_id)

        for worker_id in list(self._unreported_children):
            self._unreported_children.discard(worker_id)
            stopped, moment = self._child_watches[worker_id].stopped, now()
            processes, jobs = [each.process for each in stopped], [each.job for each in stopped]
            seconds = [moment - each.since for each in stopped]
            try:
                query = worker_queries.report_stopped_children(worker_id, processes, jobs, seconds)
                await self.connection.run(query)
            except Exception as error:
                if not isinstance(error, DatabaseUnavailable | RowLocked):
                    log.exception("the stopped child processes of worker %s could not be reported", worker_id)
                if worker_id in self._child_watches:
                    self._unreported_children.add(worker_id)

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
        self._watches.pop(worker_id, None)
        self._unreported.discard(worker_id)
        self._child_watches.pop(worker_id, None)
        self._unreported_children.discard(worker_id)
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


def all_asleep(workers: Collection[JobSlots]) -> bool:
    """Whether there are workers, and all of them sleep."""
    return bool(workers) and all(each.asleep for each in workers)


def _log(worker_id: str, before: Stuck | None, after: Stuck | None, moment: float) -> None:
    if after is None:
        seconds = 0.0 if before is None else moment - before.since
        log.warning("worker %s is no longer stuck: its event loop runs again, after %.1f seconds", worker_id, seconds)
    elif after.kind is Kind.STOPPED:
        log.warning("worker %s is stuck: its process has been stopped, by a signal or a debugger", worker_id)
    else:
        job = f" by job {after.job}" if after.job else ""
        job += f" ({after.job_type})" if after.job_type else ""
        where = f", here:\n{after.stack.rstrip()}" if after.stack else "; its stack is not available"
        seconds = moment - after.since
        log.warning(
            "worker %s is stuck: its event loop has been blocked for %.1f seconds%s%s", worker_id, seconds, job, where
        )


def _log_children(worker_id: str, before: Sequence[StoppedChild], after: Sequence[StoppedChild]) -> None:
    for each in after:
        if each not in before:
            log.warning(
                "child process %s of worker %s has been stopped, by a signal or a debugger; job %s waits for it",
                each.process,
                worker_id,
                each.job,
            )
    for each in before:
        if each not in after:
            log.warning("child process %s of worker %s is no longer stopped", each.process, worker_id)


def _described(stuck: Stuck | None) -> tuple[str | None, float | None, UUID | None, str | None]:
    if stuck is None:
        return None, None, None, None
    return stuck.kind.value, now() - stuck.since, stuck.job, stuck.stack


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
            "import gc; gc.disable(); from treadle.worker.keeper import main; main()",
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
        self._order["restarted"] = True
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
    if order.get("restarted"):
        keeper.report_again(order["worker_id"])
    renewing = asyncio.create_task(keeper.run())
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
    # What was imported is never garbage. The process is started without the collector: see cli/commands.py.
    gc.freeze()
    gc.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(keep())
