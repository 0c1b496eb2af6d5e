"""Renews the leases of workers from a process that runs none of the user's code, notices workers that are stuck, and
gives back the jobs of dead ones.

`treadle worker` has a supervisor that does this for the processes it starts. A worker inside a program has a keeper
process of its own: it ends with the program, however that ends, and then gives back the jobs of the worker.
"""

import asyncio
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from treadle.db.queries import worker as worker_queries
from treadle.db.query import Query
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection, RowLocked
from treadle.text.log import log
from treadle.words.clock import now
from treadle.worker import unbegun
from treadle.worker.job_slots import JobSlots
from treadle.worker.options import ASLEEP_LEASE, Settings, renew_every
from treadle.worker.pulse import ASLEEP_CHECK_SECONDS, CHECK_SECONDS, ChildWatch, Kind, PulseWatch, StoppedChild, Stuck
from treadle.worker.services import within
from treadle.worker.tasks import Tasks
from treadle.worker.unbegun import ClaimWatch

# At each host of the URL; the minimum of libpq. The first of two hosts may not respond, and the lease is short.
CONNECT_SECONDS = 2
# How many more times the jobs of a dead worker are recovered, 0.1 s apart. After that any other worker does it.
RECOVERIES = 10
# On a busy machine the keeper of a short-lived worker may still be starting when it has to stop.
STOP_SECONDS = 15.0


class Watched:
    """A worker whose lease is renewed, and what its row does not say yet."""

    def __init__(self, worker_id: str, slots: JobSlots) -> None:
        self.worker_id = worker_id
        self.slots = slots
        self.asleep = False
        """Whether it sleeps, as its row says."""
        self.unreported: set[Callable[[], Query[None]]] = set()
        """The statements to be sent, below."""
        self._pulse = PulseWatch(slots)
        self._children = ChildWatch(slots)
        self._claims = ClaimWatch(worker_id, slots)

    def check(self, moment: float) -> bool:
        """Notice when it is stuck, or a child of it is stopped, and when that ends. Returns whether there is news."""
        before, stopped = self._state, self._children.stopped
        if is_news := self._pulse.check(moment):
            self._has_changed(before, moment)
        if self._children.check(moment):
            _log_children(self.worker_id, stopped, self._children.stopped)
            self.unreported.add(self.stopped_children)
            is_news = True
        return is_news

    async def check_claims(self, connection: ReconnectingConnection) -> bool:
        """Notice when it does not begin the jobs that it has claimed, and when that ends. Returns whether there is
        news."""
        if self._pulse.stuck:  # nothing begins, and it is known why
            self._claims = ClaimWatch(self.worker_id, self.slots)
            return False
        before = self._state
        if is_news := await self._claims.check(connection):
            self._has_changed(before, now())
        return is_news

    @property
    def _state(self) -> Stuck | None:
        # If its event loop does not run, that is why nothing begins.
        return self._pulse.stuck or self._claims.stuck

    def _has_changed(self, before: Stuck | None, moment: float) -> None:
        _log(self.worker_id, before, self._state, moment)
        self.unreported.add(self.stuck)

    def stuck(self) -> Query[None]:
        return worker_queries.report_stuck(self.worker_id, *_described(self._state))

    def stopped_children(self) -> Query[None]:
        moment = now()
        stopped = [(each.process, each.job, moment - each.since, each.starting) for each in self._children.stopped]
        return worker_queries.report_stopped_children(self.worker_id, stopped)


class Keeper:
    """Keeps the leases of some workers on one database."""

    def __init__(self, url: str, schema: str, lease: timedelta, crash_limit: int) -> None:
        # A short timeout, so that there is time for another connection before the worker has to stop.
        self.connection = ReconnectingConnection(
            url, schema, "treadle keeper", lease.total_seconds() / 5, CONNECT_SECONDS
        )
        self._lease = lease
        self._crash_limit = crash_limit
        self._workers: dict[str, Watched] = {}
        self._changed = asyncio.Event()

    def add(self, worker_id: str, slots: JobSlots, restarted: bool = False) -> Watched:
        """Keep the lease of this worker. The one before a keeper that was `restarted` may have reported that the worker
        is stuck, or that its children were stopped: that is written anew."""
        worker = self._workers[worker_id] = Watched(worker_id, slots)
        if restarted:
            worker.unreported |= {worker.stuck, worker.stopped_children}
        return worker

    async def renew(self) -> None:
        """Renew the leases until cancelled: of workers that sleep, only once. A failed renewal is soon retried."""
        every = renew_every(self._lease)
        while True:
            workers = [each for each in self._workers.values() if not each.slots.abandoned]
            awake = [each for each in workers if not each.slots.asleep]
            fell_asleep = [each for each in workers if each not in awake and not each.asleep]
            began = now()
            try:
                if awake:
                    await self.connection.run(worker_queries.renew(_ids(awake), self._lease))
                if fell_asleep:
                    await self.connection.run(worker_queries.renew(_ids(fell_asleep), ASLEEP_LEASE, asleep=True))
            except Exception as error:
                if not isinstance(error, DatabaseUnavailable):
                    log.exception("the lease could not be renewed; retrying")
                await asyncio.sleep(every / 10)
                continue
            for each in awake:
                # The time before the statement was sent: the lease certainly lasts from then on.
                each.slots.renewed_at = began
                each.asleep = False
            for each in fell_asleep:
                each.asleep = True
            if any(each.worker_id in self._workers and not each.slots.asleep for each in fell_asleep):
                continue  # it woke up, and its renewal may have come before
            self._changed.clear()
            await self.report()
            await within(self._changed.wait(), every - (now() - began))

    async def watch(self) -> None:
        """Look at the workers until cancelled. The next renewal, which comes at once if there is news, reports it."""
        while True:
            asleep = all_asleep([each.slots for each in self._workers.values()])
            await asyncio.sleep(ASLEEP_CHECK_SECONDS if asleep else CHECK_SECONDS)
            moment = now()
            for worker in list(self._workers.values()):
                try:
                    if worker.check(moment):
                        self._changed.set()
                except Exception:
                    log.exception("the processes of worker %s could not be checked", worker.worker_id)

    async def watch_claims(self) -> None:
        """Look at the jobs that the workers have claimed until cancelled."""
        while True:
            await asyncio.sleep(unbegun.CHECK_SECONDS)
            for worker in list(self._workers.values()):
                try:
                    if await worker.check_claims(self.connection):
                        self._changed.set()
                except Exception as error:
                    if not isinstance(error, DatabaseUnavailable):
                        log.exception("the claims of worker %s could not be checked", worker.worker_id)

    async def report(self) -> None:
        """Write the news of the workers. What could not be written is written after the next renewal."""
        for worker in list(self._workers.values()):
            for statement in list(worker.unreported):
                worker.unreported.discard(statement)  # before it is sent: there may be more news meanwhile
                try:
                    await self.connection.run(statement())
                except Exception as error:
                    if not isinstance(error, DatabaseUnavailable | RowLocked):
                        log.exception("it could not be reported that worker %s is stuck, or is not", worker.worker_id)
                    worker.unreported.add(statement)

    async def recover(
        self,
        worker_id: str,
        reason: str,
        crashed: Sequence[UUID] = (),
        overdue: Sequence[UUID] = (),
        keep: bool = True,
    ) -> list[worker_queries.Recovered]:
        """Give back the jobs of a worker that has ended, and return them. Waits while the database is unavailable."""
        self._workers.pop(worker_id, None)
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


def _ids(workers: Sequence[Watched]) -> list[str]:
    return [each.worker_id for each in workers]


def all_asleep(workers: Collection[JobSlots]) -> bool:
    """Whether there are workers, and all of them sleep."""
    return bool(workers) and all(each.asleep for each in workers)


def _log(worker_id: str, before: Stuck | None, after: Stuck | None, moment: float) -> None:
    if after is None:
        seconds = 0.0 if before is None else moment - before.since
        if before is not None and before.kind is Kind.UNBEGUN:
            log.warning("worker %s begins its jobs again, after %.1f seconds", worker_id, seconds)
            return
        log.warning("worker %s is no longer stuck: its event loop runs again, after %.1f seconds", worker_id, seconds)
    elif after.kind is Kind.UNBEGUN:
        seconds = moment - after.since
        message = "worker %s is stuck: it has not begun job %s, which it claimed %.1f seconds ago, although it has room"
        log.warning(message, worker_id, after.job, seconds)
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
        if each not in before and each.starting:
            log.warning("a child process of worker %s starts slowly; job %s waits for it", worker_id, each.job)
        elif each not in before:
            log.warning(
                "child process %s of worker %s has been stopped, by a signal or a debugger; job %s waits for it",
                each.process,
                worker_id,
                each.job,
            )
    for each in before:
        if each not in after and not each.starting:
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
            "restarted": False,
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
    keeper.add(order["worker_id"], slots, order["restarted"])
    tasks = Tasks()
    tasks.start(keeper.renew)
    tasks.start(keeper.watch)
    tasks.start(keeper.watch_claims)
    # The end of the pipe is not enough: a process that the program has forked may keep it open.
    last, orphaned = asyncio.create_task(reader.readline()), asyncio.create_task(_orphaned(order["parent"]))
    await asyncio.wait([last, orphaned], return_when=asyncio.FIRST_COMPLETED)
    clean = last.done() and bool(last.result())
    last.cancel()
    orphaned.cancel()
    await tasks.cancel(STOP_SECONDS)
    crashed = [] if clean else slots.blamed()
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
