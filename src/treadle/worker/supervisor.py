"""Starts worker processes and looks after them: renews their leases, starts them again when they die, gives back what
they held, and kills what runs past its deadline. It imports none of the user's code, so nothing that a handler does can
keep it from doing so.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from typing import Any
from uuid import UUID

from treadle.db.queries.worker import Recovered
from treadle.words.clock import now
from treadle.worker.exit_codes import MISTAKE, End, died
from treadle.worker.job_slots import Board
from treadle.worker.keeper import Keeper
from treadle.worker.options import FLUSH_SECONDS, STOP_SECONDS, WorkerOptions, settings
from treadle.worker.services import within

log = logging.getLogger("treadle")

ENFORCE_SECONDS = 0.2
# A process that dies sooner than this after its start is started again ever more slowly.
HEALTHY_SECONDS = 10.0


class Ward:
    """A worker process."""

    def __init__(self, process: asyncio.subprocess.Process, board: Board) -> None:
        self.process = process
        self.board = board
        self.worker_id: str | None = None
        self.began = time.monotonic()
        self.overdue: list[UUID] = []
        self.killed_for: str | None = None

    def kill(self) -> None:
        """With its children: they are of its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def say(self, message: dict[str, Any]) -> None:
        if self.process.stdin is not None:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")


class Supervisor:
    def __init__(self, app: str, processes: int, options: WorkerOptions, log_level: str, log_style: str) -> None:
        self._processes = processes
        # Which types there are, only the worker processes know.
        self._settings = settings(options.get("types") or ["any"], os.cpu_count() or 1, **options)
        self._order = {"app": app, "options": options, "log_level": log_level, "log_style": log_style}
        self._keeper: Keeper | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._wards: set[Ward] = set()
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()
        self._worked = False
        self._news: list[Recovered] = []

    async def run(self) -> int:
        """Until told to stop, or until all have drained. Returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        enforcing = asyncio.create_task(self._enforce())
        codes = await asyncio.gather(*(self._look_after() for _ in range(self._processes)))
        enforcing.cancel()
        if self._renewing is not None:
            self._renewing.cancel()
        if self._keeper is not None:
            await self._keeper.close()
        return max(codes)

    async def _look_after(self) -> int:
        """One process after the other."""
        failures = 0
        while not self._stopping.is_set():
            try:
                ward = await self._start()
            except OSError as error:  # no memory, no processes left
                log.error("no worker process could be started, trying again: %s", error)  # noqa: TRY400
                failures += 1
                await self._pause(failures)
                continue
            code = await ward.process.wait()
            self._wards.discard(ward)
            ward.kill()  # whatever it left behind
            mistaken = code == MISTAKE and not self._worked
            going_on = not (self._stopping.is_set() or code == End.DRAINED.value or mistaken)
            if going_on:
                log.error("a worker process %s; it is started again", ward.killed_for or died(code))
            await self._bury(ward, code)
            ward.board.close()
            if mistaken and not self._stopping.is_set():
                self._stop()  # the others make the same mistake
                return 1
            if not going_on:
                return 0
            healthy = time.monotonic() - ward.began > HEALTHY_SECONDS or code == End.STUCK.value
            failures = 0 if healthy else failures + 1
            await self._pause(failures)
        return 0

    async def _pause(self, failures: int) -> None:
        if failures:
            await within(self._stopping.wait(), min(0.1 * 2**failures, 15))

    async def _start(self) -> Ward:
        board = Board.make(self._settings.concurrency + self._settings.children)
        theirs_to_write, ours_to_read = os.pipe()[::-1]
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                "from treadle.worker.process import main; main()",
                stdin=subprocess.PIPE,
                pass_fds=[board.descriptor, theirs_to_write],
                start_new_session=True,  # signals from a terminal are for the supervisor, which passes them on
                env=os.environ | {"TREADLE_SUPERVISOR": str(os.getpid())},
            )
        except OSError:
            os.close(ours_to_read)
            board.close()
            raise
        finally:
            os.close(theirs_to_write)
        ward = Ward(process, board)
        self._wards.add(ward)
        ward.say({**self._order, "board": board.descriptor, "slots": board.slots, "pipe": theirs_to_write})
        if self._stopping.is_set():
            ward.process.terminate()
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_to_read, "rb")
        )
        told = await reader.readline()
        transport.close()
        if told:
            await self._keep(ward, **json.loads(told))
        return ward

    async def _keep(self, ward: Ward, worker_id: str, url: str, schema: str, embedded: bool) -> None:
        if embedded:
            # As a user of it, so that it does not stop with the worker: there is something to write after that.
            from treadle.db.embedded import embedded_url

            await asyncio.to_thread(embedded_url, quiet=True)
        if self._keeper is None:
            chosen = self._settings
            self._keeper = Keeper(url, schema, chosen.lease, chosen.crash_limit)
            self._renewing = asyncio.create_task(self._keeper.renew())
        ward.worker_id = worker_id
        self._worked = True
        self._keeper.wards[worker_id] = ward.board
        while self._news:
            some, self._news = self._news[:100], self._news[100:]
            ward.say({"recovered": [[str(each.id), each.job_type, each.worker_id, each.status] for each in some]})

    async def _bury(self, ward: Ward, code: int) -> None:
        """Whoever was running in a process that died by itself is counted as crashed; nobody else is."""
        if self._keeper is None or ward.worker_id is None:
            return
        told = code in (End.TOLD.value, End.DRAINED.value, End.STUCK.value)
        crashed: list[UUID] = []
        if not (self._stopping.is_set() or told or ward.killed_for):
            crashed = [entry.id for entry in ward.board.entries() if not entry.process]
        reason = f"its worker process {died(code)}"
        burial = asyncio.ensure_future(self._keeper.bury(ward.worker_id, reason, crashed, ward.overdue, keep=not told))
        # Waits while the database is away; but who wants to stop does not wait for ever. Others give the jobs back
        # then, when the lease has run out.
        hurry = asyncio.ensure_future(self._stop_waiting())
        await asyncio.wait([burial, hurry], return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if burial.done():
            self._news += burial.result()
        else:
            burial.cancel()
            log.error("the database is away: the jobs of this worker are given back when its lease has run out")

    async def _stop_waiting(self) -> None:
        await self._stopping.wait()
        await within(self._hurried.wait(), self._settings.lease.total_seconds() / 2)
        await asyncio.sleep(1)

    async def _enforce(self) -> None:
        """Kill what runs past its deadline, and workers that went on without a lease."""
        while True:
            await asyncio.sleep(ENFORCE_SECONDS)
            moment = now()
            for ward in list(self._wards):
                entries = ward.board.entries()
                for entry in entries:
                    if entry.deadline and moment > entry.deadline:
                        if entry.process > 0:
                            with contextlib.suppress(ProcessLookupError):
                                os.kill(entry.process, signal.SIGKILL)
                        elif entry.process == 0:
                            ward.overdue.append(entry.id)
                if ward.overdue and ward.killed_for is None:
                    ward.killed_for = "was killed because a job ran past its deadline"
                    ward.kill()
                if (
                    ward.worker_id is not None
                    and entries
                    and moment - ward.board.renewed_at > self._settings.kill_after
                    and ward.killed_for is None
                ):
                    ward.killed_for = "was killed because its lease could not be renewed"
                    ward.kill()

    def _stop(self) -> None:
        if self._stopping.is_set():
            self._hurried.set()
            for ward in self._wards:
                ward.kill()
            return
        self._stopping.set()
        for ward in self._wards:
            with contextlib.suppress(ProcessLookupError):
                ward.process.terminate()
        # Who does not even hear the signal, because its loop is blocked, is not waited for any longer.
        patience = self._settings.grace + STOP_SECONDS + FLUSH_SECONDS + 1
        asyncio.get_running_loop().call_later(patience, self._stop)
