"""Starts and supervises worker processes: renews their leases, restarts them when they die, gives back their jobs, and
kills what runs past its deadline. It imports none of the user's code, so nothing that a handler does can block it.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any
from uuid import UUID

from treadle.db.queries.worker import Recovered
from treadle.text.log import log
from treadle.words.clock import now
from treadle.words.size import size
from treadle.worker.exit_codes import USAGE_ERROR, End, died
from treadle.worker.health import Answer, Handler, HealthServer
from treadle.worker.job_slots import JobSlots
from treadle.worker.keeper import Keeper, all_asleep
from treadle.worker.metrics import MetricsEndpoint
from treadle.worker.options import FLUSH_SECONDS, STOP_SECONDS, WorkerOptions, settings
from treadle.worker.pulse import ASLEEP_CHECK_SECONDS, STUCK_SECONDS
from treadle.worker.services import within
from treadle.worker.tasks import Tasks

ENFORCE_SECONDS = 0.2
# The exit codes of processes that did not die.
EXPECTED = {each.value for each in (End.STOPPED, End.DRAINED, End.STUCK, End.RECYCLED)}
# A process that dies sooner than this after its start is restarted with a growing delay.
HEALTHY_SECONDS = 10.0


class WorkerProcess:
    """A worker process, as its supervisor sees it."""

    def __init__(self, process: asyncio.subprocess.Process, slots: JobSlots) -> None:
        self.process = process
        self.slots = slots
        self.worker_id: str | None = None
        self.retiring = asyncio.Event()
        """It claims no more jobs, and ends when those that run have finished."""
        self.began = time.monotonic()
        self.overdue: list[UUID] = []
        self.killed_for: str | None = None
        self.listening: asyncio.Task[None] | None = None  # the event loop keeps only a weak reference

    def kill(self) -> None:
        """Kill it and its child processes, which belong to its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def send(self, message: dict[str, Any]) -> None:
        if self.process.stdin is not None:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")


async def _listen(worker: WorkerProcess, reader: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
    """Receive what the worker process says after its start."""
    try:
        while line := await reader.readline():
            reason = json.loads(line)["retiring"]
            log.info("a worker process is replaced, because %s; its running jobs finish", reason)
            worker.retiring.set()
    finally:
        transport.close()


def restart_delay(failures: int) -> float:
    """Seconds to wait after this many failed starts in a row: exponential, 0.2 s doubling to at most 15 s."""
    return min(0.1 * 2**failures, 15) if failures else 0.0


class Supervisor:
    def __init__(
        self,
        app: str,
        processes: int,
        options: WorkerOptions,
        log_level: str,
        log_style: str,
        max_jobs: int | None = None,
        max_memory: str | None = None,
        health: tuple[str | None, int] | None = None,
    ) -> None:
        """A process that has run `max_jobs` jobs, or uses `max_memory`, is replaced. `health` is the address and the
        port of the server for probes."""
        if max_memory is not None:
            size(max_memory, "max_memory")
        self._count = processes
        self._health = health
        self._metrics = MetricsEndpoint()
        self.routes: dict[str, Handler] = {
            "/live": self._live,
            "/ready": self._ready,
            "/metrics": self._metrics.answer,
        }
        """What the server for probes answers, by path."""
        # Only the worker processes know which job types there are.
        self._settings = settings(options.get("types") or ["any"], os.cpu_count() or 1, **options)
        self._order = {
            "app": app,
            "options": options,
            "log_level": log_level,
            "log_style": log_style,
            "recycling": [max_jobs, max_memory],
        }
        self._keeper: Keeper | None = None
        self._tasks = Tasks()
        self._processes: set[WorkerProcess] = set()
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()
        self._worked = False
        self._recovered: list[Recovered] = []  # for the next worker process, which emits the events

    async def run(self) -> int:
        """Supervise until stopped, or until all worker processes have drained the queue. Returns the exit code."""
        server = None
        if self._health is not None:
            server = HealthServer(self.routes)
            try:
                port = await server.start(*self._health)
            except OSError as error:
                print(f"Error: the health port {self._health[1]} cannot be used: {error}", file=sys.stderr)
                return 1
            log.info("probes are answered on port %s", port)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        self._tasks.start(self._enforce)
        codes = await asyncio.gather(*(self._supervise() for _ in range(self._count)))
        if server is not None:
            server.close()
            await self._metrics.close()
        await self._tasks.cancel(STOP_SECONDS)
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
        """Run one worker process after the other. One that is replaced ends beside its successor."""
        while True:
            replaced: list[asyncio.Task[int]] = []
            code = await self._succeed(replaced)
            left = [each for each in replaced if not each.done()]
            await asyncio.gather(*replaced)
            if not left or code or self._stopping.is_set():
                return code
            # It found nothing to run, but what its predecessor ran to the end may have enqueued more.

    async def _succeed(self, replaced: list[asyncio.Task[int]]) -> int:
        failures = 0
        while not self._stopping.is_set():
            try:
                worker = await self._start(replaced[-1] if replaced else None)
            except OSError as error:  # no memory, no processes left
                log.error("a worker process could not be started; retrying: %s", error)
                failures += 1
                await self._pause(failures)
                continue
            ending = asyncio.create_task(self._end_of(worker))
            retiring = asyncio.create_task(worker.retiring.wait())
            await asyncio.wait([ending, retiring], return_when=asyncio.FIRST_COMPLETED)
            retiring.cancel()
            if not ending.done():
                replaced[:] = [*(each for each in replaced if not each.done()), ending]
                failures = 0
                continue
            code = ending.result()
            if self._is_hopeless(code) and not self._stopping.is_set():
                self.stop()  # the other processes fail in the same way
                return 1
            if not self._restarts(code):
                return 0
            healthy = time.monotonic() - worker.began > HEALTHY_SECONDS or code in (End.STUCK.value, End.RECYCLED.value)
            failures = 0 if healthy else failures + 1
            await self._pause(failures)
        return 0

    async def _end_of(self, worker: WorkerProcess) -> int:
        """Wait until the process has ended, and give back its jobs. Returns its exit code."""
        code = await worker.process.wait()
        how = died(code)
        if code in EXPECTED and code != worker.slots.ending:
            code = End.BROKEN.value  # a handler has ended it, with this code
        self._processes.discard(worker)
        worker.kill()  # processes that it left behind
        if self._restarts(code) and code != End.RECYCLED.value:
            log.error("a worker process %s; it is restarted", worker.killed_for or how)
        await self._recover(worker, code, how)
        worker.slots.close()
        return code

    def _is_hopeless(self, code: int) -> bool:
        return code == USAGE_ERROR and not self._worked

    def _restarts(self, code: int) -> bool:
        return not (self._stopping.is_set() or code == End.DRAINED.value or self._is_hopeless(code))

    async def _pause(self, failures: int) -> None:
        if seconds := restart_delay(failures):
            await within(self._stopping.wait(), seconds)

    async def _start(self, former: asyncio.Task[int] | None) -> WorkerProcess:
        """Start a worker process. While its predecessor, if there is one, finishes its jobs, it is not replaced."""
        slots = JobSlots.create(self._settings.slots)
        theirs_to_write, ours_to_read = os.pipe()[::-1]
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                "import gc; gc.disable(); from treadle.worker.process import main; main()",
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
        postponed = former is not None and not former.done()
        worker.send(
            {
                **self._order,
                "slots_descriptor": slots.descriptor,
                "slots": slots.count,
                "pipe": theirs_to_write,
                "postponed": postponed,
            }
        )
        if self._stopping.is_set():
            worker.process.terminate()
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_to_read, "rb")
        )
        started = await reader.readline()
        if started:
            await self._keep(worker, **json.loads(started))
            worker.listening = asyncio.create_task(_listen(worker, reader, transport))
            if postponed and former is not None:
                former.add_done_callback(lambda _: worker.send({"resume_recycling": True}))
        else:
            transport.close()
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
            self._tasks.start(self._keeper.renew)
            self._tasks.start(self._keeper.watch)
            self._tasks.start(self._keeper.watch_claims)
        worker.worker_id = worker_id
        self._metrics.database = url, schema
        self._worked = True
        self._keeper.add(worker_id, worker.slots)
        while self._recovered:
            some, self._recovered = self._recovered[:100], self._recovered[100:]
            worker.send({"recovered": [[str(each.id), each.job_type, each.worker_id, each.status] for each in some]})

    async def _recover(self, worker: WorkerProcess, code: int, how: str) -> None:
        """Give back the jobs of a worker process that has ended. Those that may have ended it are counted as
        crashed, and no others."""
        if self._keeper is None or worker.worker_id is None:
            return
        expected = code in EXPECTED
        crashed: list[UUID] = []
        if not (self._stopping.is_set() or expected or worker.killed_for):
            crashed = worker.slots.blamed()
        reason = f"its worker process {how}"
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

    # Probes

    async def _live(self) -> Answer:
        """That it answers at all says that its event loop runs, and what runs on it is started again if it ends."""
        return Answer(200, "live\n")

    async def _ready(self) -> Answer:
        """Whether a worker process claims jobs."""
        if self._stopping.is_set():
            return Answer(503, "not ready: the worker is stopping\n")
        started = [each for each in self._processes if each.worker_id is not None]
        claiming = [each for each in started if not each.retiring.is_set()]
        if not claiming:
            return Answer(503, "not ready: no worker process has started\n")
        late = min(0.0 if each.slots.asleep else now() - each.slots.renewed_at for each in claiming)
        if late > self._settings.lease.total_seconds() / 2:
            return Answer(503, f"not ready: the lease was last renewed {late:.0f} seconds ago\n")
        # 0: it has not begun yet.
        stuck = min(now() - each.slots.pulse if each.slots.pulse else 0.0 for each in claiming)
        if stuck > STUCK_SECONDS:
            return Answer(503, f"not ready: no event loop has run for {stuck:.0f} seconds; see treadle doctor\n")
        refusals = [each.slots.refusal for each in claiming]
        if (refusal := refusals[0]) is not None and None not in refusals:
            return Answer(503, f"not ready: {refusal.sentence}\n")
        return Answer(200, "ready\n")

    async def _enforce(self) -> None:
        """Kill what runs past its deadline, and workers that continue without a lease."""
        while True:
            asleep = all_asleep([each.slots for each in self._processes])
            await asyncio.sleep(ASLEEP_CHECK_SECONDS if asleep else ENFORCE_SECONDS)
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
