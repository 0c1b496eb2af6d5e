"""Between the processes and the server: every statement passes here, and arrives at a time that the seed decides.

The server executes one statement at a time. A statement takes no time there; it takes time on its way, and so does its
reply. Connections are those of production (db/reconnecting.py), with this network instead of a wait for a socket.
"""

import asyncio
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import psycopg
from psycopg import waiting
from psycopg.pq import PGconn, TransactionStatus

from chaos.simulation.database import SimulatedDatabase
from chaos.simulation.loop import Process, SimulatedLoop, running_in
from chaos.simulation.record import Record
from treadle.db import notifications, reconnecting
from treadle.db.notifications import NotificationListener
from treadle.db.own_connection import NoAnswer, OwnAsyncConnection
from treadle.db.reconnecting import Abandonable

# What a connection has instead of its session once it is closed.
_NOWHERE = PGconn.connect_start(b"host=/nowhere")
_NOWHERE.finish()

USUAL, LATE, SLOW = 0.0008, (0.02, 0.3), 60.0
_FUNCTION = re.compile(rb'"treadle"\.(\w+)')


@dataclass
class Weather:
    """What the network does to the connections of one machine."""

    silent_until: float = 0.0
    slow_until: float = 0.0
    replies_to_lose: int = 0


class SimulatedConnection(Abandonable):
    network: "Network"
    process: Process
    name: str
    random: random.Random
    answer: asyncio.Future[Any] | None = None
    """Of the statement that is on its way, or whose reply is."""
    hears: Callable[[str], None] | None = None
    """Set on a connection that listens, with what it does if it breaks and in whose context it hears."""
    lost: Callable[[], None]
    context: Context
    heard_at = 0.0
    notifications: list[str]
    executed_at = 0.0
    rolls_back = False
    committed: Callable[[], None] | None = None
    """Called once, when its next transaction has been committed, whether or not its reply arrives."""

    async def wait(self, gen: Any, interval: float = 0.0, *_: Any, **__: Any) -> Any:
        return await self.network.send(self, gen)

    def noticed(self, notice: psycopg.errors.Diagnostic) -> None:
        """A notification is raised as a notice (database.py)."""
        if notice.message_primary == "simulated notification" and (notice.message_detail or "").endswith("_work"):
            self.notifications.append(notice.message_hint or "")

    async def cancel_safe(self, **_: Any) -> None:
        await asyncio.sleep(self.random.uniform(0.0, 0.5))

    async def close(self) -> None:
        self.network.close(self)


class Network:
    def __init__(self, loop: SimulatedLoop, database: SimulatedDatabase, record: Record, seed: int) -> None:
        self._loop = loop
        self._database = database
        self._record = record
        self._seed = seed
        self._weather: dict[str, Weather] = {}
        self._open: list[SimulatedConnection] = []
        self._opened: Counter[str] = Counter()

    @property
    def now(self) -> float:
        return self._loop.elapsed

    def weather(self, machine: str) -> Weather:
        return self._weather.setdefault(machine, Weather())

    @contextmanager
    def used(self) -> Iterator[None]:
        """Whoever opens a connection gets one of this network."""
        with (
            patch.object(reconnecting, "open_connection", self.connect),
            patch.object(notifications, "open_connection", self.connect),
            patch.object(NotificationListener, "_read_from", _hear),
        ):
            yield

    async def connect(self, url: str, name: str, seconds: int = 0, kind: Any = None) -> OwnAsyncConnection:
        process = running_in.get()
        assert process is not None
        self._opened[process.name] += 1
        nth = f"{process.name}/{self._opened[process.name]}"
        chance = random.Random(f"{self._seed} {nth}")
        weather = self.weather(process.machine)
        await asyncio.sleep(self._latency(chance, weather))
        if weather.silent_until > self._loop.elapsed:
            await asyncio.sleep(seconds)
            raise psycopg.OperationalError("connection timeout expired")
        connection = SimulatedConnection(self._database.open(chance.random()))
        connection._autocommit, connection.prepare_threshold = True, None
        connection.network, connection.process, connection.name, connection.random = self, process, nth, chance
        connection.notifications = []
        connection.add_notice_handler(connection.noticed)
        self._open.append(connection)
        return connection

    async def send(self, connection: SimulatedConnection, statement: Any) -> Any:
        loop, chance, weather = self._loop, connection.random, self.weather(connection.process.machine)
        answer = connection.answer = loop.create_future()
        there, back = self._latency(chance, weather), self._latency(chance, weather)
        deadline = loop.time() + (connection.answer_seconds or math.inf)
        self._answer_within(there, deadline, answer)
        loop.outside(there, self._arrive, connection, statement, answer, back, deadline)
        try:
            return await answer
        finally:
            connection.answer = None

    def _answer_within(self, seconds: float, deadline: float, answer: asyncio.Future[Any]) -> None:
        """If what takes so long ends after the deadline, nobody waits for it."""
        left = deadline - self._loop.time()
        if seconds > left:
            self._loop.outside(left, _settle, answer, None, NoAnswer("no answer in time"))

    def _arrive(
        self,
        connection: SimulatedConnection,
        statement: Any,
        answer: asyncio.Future[Any],
        back: float,
        deadline: float,
    ) -> None:
        weather = self.weather(connection.process.machine)
        if connection.closed:
            return
        result, error = self._execute(connection, statement)
        if weather.replies_to_lose and not isinstance(error, psycopg.Error):
            weather.replies_to_lose -= 1
            self._record.line(connection.name, "reply lost")
            self.cut(connection)
        else:
            back += max(0.0, weather.silent_until - self.now)
            self._answer_within(back, deadline, answer)
            self._loop.outside(back, _settle, answer, result, error)

    def _execute(self, connection: SimulatedConnection, statement: Any) -> tuple[Any, Exception | None]:
        self._loop.steps += 1
        name = _name(statement)
        connection.executed_at = self.now
        self._database.move(self.now)
        result, error = None, None
        try:
            result = waiting.wait(statement, connection.fileno(), 1.0)
        except Exception as raised:
            error = raised
        self._record.line(
            connection.name, name, TransactionStatus(connection.pgconn.transaction_status).name, _shown(result, error)
        )
        if connection.pgconn.transaction_status == TransactionStatus.IDLE:
            messages = list(connection.notifications)
            connection.notifications.clear()
            kept = error is None and not connection.rolls_back
            connection.rolls_back = False
            committed, connection.committed = connection.committed, None
            if kept:
                if committed is not None:
                    committed()
                for message in messages:
                    self._notify(message)
        return result, error

    def _notify(self, message: str) -> None:
        for each in self._open:
            if each.hears is not None and not each.closed:
                weather = self.weather(each.process.machine)
                delay = self._latency(each.random, weather) + max(0.0, weather.silent_until - self._loop.elapsed)
                each.heard_at = max(each.heard_at, self._loop.time() + delay)
                self._loop.call_at(each.heard_at, _receive, each, each.hears, message, context=each.context)

    def cut(self, connection: SimulatedConnection) -> None:
        """The connection is gone, and its client notices."""
        self.close(connection)
        if connection.answer is not None:
            error = psycopg.OperationalError("server closed the connection unexpectedly")
            _settle(connection.answer, None, error)
        if connection.hears is not None:
            connection.lost()

    def cut_all(self, machine: str) -> None:
        for each in [each for each in self._open if each.process.machine == machine]:
            self.cut(each)

    def forget(self, process: Process) -> None:
        """The process has died: what it has sent may still arrive, or not."""
        for each in self._open:
            if each.process is process:
                self._loop.outside(each.random.uniform(0.0, 0.005), self.close, each)

    def close(self, connection: SimulatedConnection) -> None:
        if not connection.closed:
            session, connection.pgconn = connection.pgconn, _NOWHERE
            self._database.close(session)
        self._open = [each for each in self._open if not each.closed]

    def close_all(self) -> None:
        for each in list(self._open):
            self.close(each)

    def _latency(self, chance: random.Random, weather: Weather) -> float:
        usual = chance.expovariate(1 / USUAL) if chance.random() > 0.03 else chance.uniform(*LATE)
        return usual * (SLOW if weather.slow_until > self._loop.elapsed else 1.0) + max(
            0.0, weather.silent_until - self._loop.elapsed
        )


def _hear(self: NotificationListener, connection: Any) -> None:
    """Instead of NotificationListener._read_from, which reads from a socket."""
    connection.hears, connection.lost, connection.context = self.received, self._ended.set, copy_context()


def _receive(connection: SimulatedConnection, hears: Callable[[str], None], message: str) -> None:
    if not connection.closed:
        hears(message)


def _settle(answer: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)


def _name(statement: Any) -> str:
    """Of a generator of the driver."""
    known = statement.gi_frame.f_locals
    text = known.get("query") or known.get("text")
    if not isinstance(text, bytes):
        return str(statement.__name__ if text is None else text)
    found = _FUNCTION.search(text)
    return found[1].decode() if found else " ".join(text.decode().split())[:40]


def _shown(result: Any, error: Exception | None) -> str:
    return type(error).__name__ if error is not None else "" if result is None else f"{len(result)} rows"
