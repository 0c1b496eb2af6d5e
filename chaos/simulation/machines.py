"""A machine: a worker, and the keeper beside it that renews its lease and gives its jobs back when it has died."""

import asyncio
from datetime import timedelta

from chaos.simulation.app import CRASH_LIMIT
from chaos.simulation.loop import Process, SimulatedLoop
from chaos.simulation.network import Network
from chaos.simulation.plan import LEASE
from chaos.simulation.record import Record
from treadle import Treadle
from treadle.worker.job_slots import JobSlots
from treadle.worker.keeper import Keeper
from treadle.worker.tasks import Tasks
from treadle.worker.worker import Worker

SLOTS = 1000
CONCURRENCY = 3
RESTART_SECONDS = 1.0


class Machine:
    def __init__(
        self, number: int, app: Treadle, url: str, poll: float, loop: SimulatedLoop, network: Network, record: Record
    ) -> None:
        self.name = f"machine {number}"
        self._number = number
        self._app, self._url, self._poll = app, url, poll
        self._loop, self._network, self._record = loop, network, record
        self._generation = 0
        self.start()

    def start(self) -> None:
        self._generation += 1
        name = f"{self._number}.{self._generation}"
        self._slots = JobSlots.create(SLOTS)
        self._ended = asyncio.Event()
        self._clean = False
        self._worker: Worker | None = None
        self._worker_process = Process(f"worker {name}", self.name, self._loop, self.kill)
        self._keeper_process = Process(f"keeper {name}", self.name, self._loop)
        self._worker_process.start(self._work(name))

    async def _work(self, name: str) -> None:
        worker = Worker(
            self._app.workload,
            slots=self._slots,
            concurrency=CONCURRENCY,
            lease=LEASE,
            poll=self._poll,
            crash_limit=CRASH_LIMIT,
        )
        worker.worker_id = f"worker {name}"
        await worker.start()
        self._worker = worker
        self._keeper_process.start(self._keep(worker.worker_id, self._slots, self._ended))

    async def _keep(self, worker_id: str, slots: JobSlots, ended: asyncio.Event) -> None:
        """As a keeper process does, which is told of the end of its worker by a pipe."""
        keeper = Keeper(self._url, self._app.schema, timedelta(seconds=LEASE), CRASH_LIMIT)
        keeper.add(worker_id, slots)
        tasks = Tasks()
        for part in (keeper.renew, keeper.watch, keeper.watch_claims):
            tasks.start(part)
        await ended.wait()
        await tasks.cancel(1.0)
        crashed = [] if self._clean else slots.blamed()
        await keeper.recover(worker_id, "its process ended", crashed, keep=not self._clean)
        await keeper.close()

    # Faults: a method for each of plan.FAULTS

    def kill(self) -> None:
        """The worker dies, as by kill -9; its keeper lives."""
        self._end([self._worker_process])
        self._ended.set()

    def lose_machine(self) -> None:
        self._end([self._worker_process, self._keeper_process])

    def freeze(self, seconds: float) -> None:
        both = [self._worker_process, self._keeper_process]
        if not self._worker_process.alive or self._worker_process.frozen:
            return
        self._record.note("frozen", process=self._worker_process.name)
        for each in both:
            each.freeze()

        def thaw() -> None:
            self._record.note("thawed", process=both[0].name)
            for each in both:
                each.thaw()

        self._loop.outside(seconds, thaw)

    def deploy(self) -> None:
        """The worker is stopped, and started again."""
        process, ended, worker = self._worker_process, self._ended, self._worker
        if worker is None or not process.alive:
            return

        async def stop() -> None:
            await worker.stop(grace=1.0)
            self._clean = True
            ended.set()
            self._loop.outside(0.0, self._end, [process])

        process.start(stop())

    def cut(self) -> None:
        self._network.cut_all(self.name)

    def lose_replies(self, number: int) -> None:
        self._network.weather(self.name).replies_to_lose = number

    def silence(self, seconds: float) -> None:
        self._network.weather(self.name).silent_until = self._network.now + seconds

    def slow(self, seconds: float) -> None:
        self._network.weather(self.name).slow_until = self._network.now + seconds

    def break_logging(self, seconds: float) -> None:
        """A filter of the log raises, as one of an application that needs a request."""
        both = [self._worker_process, self._keeper_process]

        def set_to(raises: bool) -> None:
            for each in both:
                each.logging_raises = raises

        set_to(True)
        self._loop.outside(seconds, set_to, False)

    def _end(self, processes: list[Process]) -> None:
        if not processes[0].alive:
            return
        self._record.note("killed", process=processes[0].name)
        for each in processes:
            each.kill()
            self._network.forget(each)
        self._loop.outside(RESTART_SECONDS, self.start)
