"""A machine: a worker, and the keeper beside it that renews its lease and gives its jobs back when it has died."""

import asyncio
from collections.abc import Callable
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
        self._worker_process = Process(f"worker {name}", self.name, self._loop, self.kill)
        self._keeper_process = Process(f"keeper {name}", self.name, self._loop)
        self._worker_process.start(self._work(name))

    async def _work(self, name: str) -> None:
        worker = self._worker = Worker(
            self._app.workload,
            slots=self._slots,
            concurrency=CONCURRENCY,
            lease=LEASE,
            poll=self._poll,
            crash_limit=CRASH_LIMIT,
        )
        worker.worker_id = f"worker {name}"
        await worker.start()
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

    # Faults

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
        if not self._worker_process.alive:
            return
        process, ended, worker = self._worker_process, self._ended, self._worker

        async def stop() -> None:
            await worker.stop(grace=1.0)
            self._clean = True
            ended.set()
            self._loop.outside(0.0, self._end, [process])

        process.start(stop())

    def _end(self, processes: list[Process]) -> None:
        if not processes[0].alive:
            return
        self._record.note("killed", process=processes[0].name)
        for each in processes:
            each.kill()
            self._network.forget(each)
        self._loop.outside(RESTART_SECONDS, self.start)


def break_out(machine: Machine, what: str, network: Network, **how: float) -> None:
    """Let this fault happen to the machine."""
    weather = network.weather(machine.name)
    actions: dict[str, Callable[[], None]] = {
        "kill": machine.kill,
        "lose machine": machine.lose_machine,
        "deploy": machine.deploy,
        "cut": lambda: network.cut_all(machine.name),
    }
    if what in actions:
        actions[what]()
    elif what == "freeze":
        machine.freeze(how["seconds"])
    elif what == "silence":
        weather.silent_until = network.now + how["seconds"]
    elif what == "slow":
        weather.slow_until = network.now + how["seconds"]
    else:
        weather.replies_to_lose = int(how["number"])
