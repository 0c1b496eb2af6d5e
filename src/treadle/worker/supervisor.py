"""Starts and supervises worker processes: renews their leases, restarts them when they die, gives back their jobs, and
kills what runs past its deadline. It imports none of the user's code, so nothing that a handler does can block it.
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
from treadle.worker.exit_codes import USAGE_ERROR, End, died
from treadle.worker.job_slots import JobSlots
from treadle.worker.keeper import Keeper
from treadle.worker.options import FLUSH_SECONDS, STOP_SECONDS, WorkerOptions, settings
from treadle.worker.services import within

log = logging.getLogger("treadle")

ENFORCE_SECONDS = 0.2
# A process that dies sooner than this after its start is restarted with a growing delay.
HEALTHY_SECONDS = 10.0


class WorkerProcess:
    """A worker process, as its supervisor sees it."""

    def __init__(self, process: asyncio.subprocess.Process, slots: JobSlots) -> None:
        self.process = process
        self.slots = slots
        self.worker_id: str | None = None
        self.began = time.monotonic()
        self.overdue: list[UUID] = []
        self.killed_for: str | None = None

    def kill(self) -> None:
        """Kill it and its child processes, which belong to its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def send(self, message: dict[str, Any]) -> None:
        if self.process.stdin is not None:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")


def restart_delay(failures: int) -> float:
    """Seconds to wait after this many failed starts in a row: exponential, 0.2 s doubling to at most 15 s."""
    return min(0.1 * 2**failures, 15) if failures else 0.0


class Supervisor:
    def __init__(self, app: str, processes: int, options: WorkerOptions, log_level: str, log_style: str) -> None:
        self._count = processes
        # Only the worker processes know which job types there are.
        self._settings = settings(options.get("types") or ["any"], os.cpu_count() or 1, **options)
        self._order = {"app": app, "options": options, "log_level": log_level, "log_style": log_style}
        self._keeper: Keeper | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._processes: set[WorkerProcess] = set()
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()
        self._worked = False
        self._recovered: list[Recovered] = []  # for the next worker process, which emits the events

    async def run(self) -> int:
        """Supervise until stopped, or until all worker processes have drained the queue. Returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        enforcing = asyncio.create_task(self._enforce())
        codes = await asyncio.gather(*(self._supervise() for _ in range(self._count)))
        enforcing.cancel()
        if self._renewing is not None:
            self._renewing.cancel()
        if self._keeper is not None:
            await self._keeper.close()
        return max(codes)

    def stop(self) -> None:
        """Stop the worker processes; called a second time, kill them."""
        if self._stopping.is_set():
            self._hurried.set()
            for worker in self._processes:
                worker.kill()
            return
        self._stopping.set()
        for worker in self._processes:
            with contextlib.suppress(ProcessLookupError):
                worker.process.terminate()
        # A process whose event loop is blocked does not react to the signal: it is killed after a while.
        seconds = self._settings.grace + STOP_SECONDS + FLUSH_SECONDS + 1
        asyncio.get_running_loop().call_later(seconds, self.stop)

    async def _supervise(self) -> int:
        """Run one worker process after the other."""
        failures = 0
        while not self._stopping.is_set():
            try:
                worker = await self._start()
            except OSError as error:  # no memory, no processes left
                log.error("a worker process could not be started; retrying: %s", error)  # noqa: TRY400
                failures += 1
                await self._pause(failures)
                continue
            code = await worker.process.wait()
            self._processes.discard(worker)
            worker.kill()  # processes that it left behind
            hopeless = code == USAGE_ERROR and not self._worked
            restarts = not (self._stopping.is_set() or code == End.DRAINED.value or hopeless)
            if restarts:
                log.error("a worker process %s; it is restarted", worker.killed_for or died(code))
            await self._recover(worker, code)
            worker.slots.close()
            if hopeless and not self._stopping.is_set():
                self.stop()  # the other processes fail in the same way
                return 1
            if not restarts:
                return 0
            healthy = time.monotonic() - worker.began > HEALTHY_SECONDS or code == End.STUCK.value
            failures = 0 if healthy else failures + 1
            await self._pause(failures)
        return 0

    async def _pause(self, failures: int) -> None:
        if seconds := restart_delay(failures):
            await within(self._stopping.wait(), seconds)

    async def _start(self) -> WorkerProcess:
        slots = JobSlots.create(self._settings.slots)
        theirs_to_write, ours_to_read = os.pipe()[::-1]
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                "from treadle.worker.process import main; main()",
                stdin=subprocess.PIPE,
                pass_fds=[slots.descriptor, theirs_to_write],
                start_new_session=True,  # signals from a terminal are for the supervisor, which passes them on
                env=os.environ | {"TREADLE_SUPERVISOR": str(os.getpid())},
            )
        except OSError:
            os.close(ours_to_read)
            slots.close()
            raise
        finally:
            os.close(theirs_to_write)
        worker = WorkerProcess(process, slots)
        self._processes.add(worker)
        worker.send(
            {**self._order, "slots_descriptor": slots.descriptor, "slots": slots.count, "pipe": theirs_to_write}
        )
        if self._stopping.is_set():
            worker.process.terminate()
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_to_read, "rb")
        )
        started = await reader.readline()
        transport.close()
        if started:
            await self._keep(worker, **json.loads(started))
        return worker

    async def _keep(self, worker: WorkerProcess, worker_id: str, url: str, schema: str, embedded: bool) -> None:
        """The worker has started: renew its lease from now on."""
        if embedded:
            # Registers as a user of the embedded server, so that it does not stop with the worker: the worker's jobs
            # are given back after that. Imported here: most supervisors do not need it.
            from treadle.db.embedded import embedded_url

            await asyncio.to_thread(embedded_url, quiet=True)
        if self._keeper is None:
            chosen = self._settings
            self._keeper = Keeper(url, schema, chosen.lease, chosen.crash_limit)
            self._renewing = asyncio.create_task(self._keeper.renew())
        worker.worker_id = worker_id
        self._worked = True
        self._keeper.workers[worker_id] = worker.slots
        while self._recovered:
            some, self._recovered = self._recovered[:100], self._recovered[100:]
            worker.send({"recovered": [[str(each.id), each.job_type, each.worker_id, each.status] for each in some]})

    async def _recover(self, worker: WorkerProcess, code: int) -> None:
        """Give back the jobs of a worker process that has ended. Those that were running in a process that died by
        itself are counted as crashed; no others are."""
        if self._keeper is None or worker.worker_id is None:
            return
        expected = code in (End.STOPPED.value, End.DRAINED.value, End.STUCK.value)
        crashed: list[UUID] = []
        if not (self._stopping.is_set() or expected or worker.killed_for):
            crashed = [entry.id for entry in worker.slots.entries() if not entry.process]
        reason = f"its worker process {died(code)}"
        recovery = asyncio.ensure_future(
            self._keeper.recover(worker.worker_id, reason, crashed, worker.overdue, keep=not expected)
        )
        # Waits while the database is unavailable, but not forever once the supervisor stops: other workers then give
        # the jobs back, when the lease has run out.
        hurry = asyncio.ensure_future(self._stop_waiting())
        await asyncio.wait([recovery, hurry], return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if recovery.done():
            self._recovered += recovery.result()
        else:
            recovery.cancel()
            log.error("the database is unavailable: the jobs of this worker are recovered when its lease expires")

    async def _stop_waiting(self) -> None:
        await self._stopping.wait()
        await within(self._hurried.wait(), self._settings.lease.total_seconds() / 2)
        await asyncio.sleep(1)

    async def _enforce(self) -> None:
        """Kill what runs past its deadline, and workers that continue without a lease."""
        while True:
            await asyncio.sleep(ENFORCE_SECONDS)
            moment = now()
            for worker in list(self._processes):
                entries = worker.slots.entries()
                for entry in entries:
                    if entry.deadline and moment > entry.deadline:
                        if entry.process > 0:
                            with contextlib.suppress(ProcessLookupError):
                                os.kill(entry.process, signal.SIGKILL)
                        elif entry.process == 0:
                            worker.overdue.append(entry.id)
                if worker.overdue and worker.killed_for is None:
                    worker.killed_for = "was killed because a job ran past its deadline"
                    worker.kill()
                if (
                    worker.worker_id is not None
                    and entries
                    and moment - worker.slots.renewed_at > self._settings.kill_after
                    and worker.killed_for is None
                ):
                    worker.killed_for = "was killed because its lease could not be renewed"
                    worker.kill()
