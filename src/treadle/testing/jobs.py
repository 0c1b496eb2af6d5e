"""A Job for a direct call of a handler, without a queue: it records what the handler does with it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

from pydantic_core import from_json, to_json

from treadle.attempt.attempt import Attempt, running_attempt
from treadle.attempt.environment import Environment
from treadle.attempt.job import Job
from treadle.db.database import AsyncTransaction, Database, Source, Transaction
from treadle.db.query import Query, Result, Rows, statement
from treadle.jobs.function import JobFunction
from treadle.words.errors import InvalidArgument
from treadle.words.job import Claim
from treadle.words.naming import SCHEMA
from treadle.words.outcome import Interrupt
from treadle.words.payload import PAYLOAD_LIMIT, Json
from treadle.words.priority import Priority

_WORKER = "test"


class ReportedProgress(NamedTuple):
    percent: int
    stage: str | None


class PublishedEvent(NamedTuple):
    name: str
    data: dict[str, Json]


class RecordedJob(Job):
    """A Job that writes to no database, and shows what a handler did with it."""

    __slots__ = ()

    @property
    def reported(self) -> list[ReportedProgress]:
        """The progress, each time that it changed."""
        return list(self._recorded.reported)

    @property
    def events(self) -> list[PublishedEvent]:
        """The events, in order."""
        return [PublishedEvent(each.name, json.loads(each.data)) for each in self._attempt.outbox.events]

    @property
    def saved(self) -> list[Json]:
        """The checkpoints, in order; `checkpoint` is the last."""
        return list(self._recorded.memory_of.saved)

    @property
    def steps(self) -> dict[str, Json]:
        """The results of the finished steps, by name: those that were given, and those of this call."""
        steps = self._recorded.memory_of.steps.values()
        return {name: None if text is None else from_json(text) for name, text in steps}

    @property
    def completed_with(self) -> Json:
        """The result that the handler gave to complete(), in a transaction."""
        return self._recorded.memory_of.result

    def cancel(self) -> None:
        """Cancel the job, as an operator would: `cancelled` is true from now on, and check(), progress() and the other
        methods raise JobInterrupted."""
        self._attempt.interrupt(Interrupt.CANCELLED)

    @contextmanager
    def running(self) -> Iterator["RecordedJob"]:
        """While the block runs, this is the current_job()."""
        token = running_attempt.set(self._attempt)
        try:
            yield self
        finally:
            running_attempt.reset(token)

    @property
    def _recorded(self) -> "_Attempt":
        assert isinstance(self._attempt, _Attempt)  # noqa: S101 - for the type checker
        return self._attempt


def make_job(
    function: "JobFunction[..., Any, ..., Any] | None" = None,
    *,
    attempt: int = 1,
    max_attempts: int = 3,
    priority: int = Priority.DISCOVERED,
    queue: str = "default",
    key: str | None = None,
    checkpoint: Json = None,
    steps: Mapping[str, Json] | None = None,
    scheduled_for: datetime | None = None,
    previously_scheduled_for: datetime | None = None,
    headers: Mapping[str, str] | None = None,
    connection: Source | None = None,
) -> RecordedJob:
    """Make a Job for a direct call of a handler: `import_rows("a.csv", job=make_job(checkpoint=40))`.

    `checkpoint` and `steps` (results by name, in their order) are what an earlier attempt has left behind. A handler
    that uses job.transaction() needs `connection`, a connection or pool of psycopg; nothing of the job is written
    there.
    """
    origin = None
    if scheduled_for is not None:
        before = None if previously_scheduled_for is None else previously_scheduled_for.isoformat()
        origin = json.dumps({"schedule": "test", "for": scheduled_for.isoformat(), "before": before})
    saved = None if checkpoint is None else to_json(checkpoint).decode()
    claim = Claim(
        uuid4(), 1, function.name if function else "test", "{}", attempt, max_attempts, 0, queue, priority, key, saved,
        datetime.now().timestamp(), origin, json.dumps(dict(headers)) if headers else None,
    )  # fmt: skip
    left = {
        position: (name, None if result is None else to_json(result).decode())
        for position, (name, result) in enumerate((steps or {}).items(), start=1)
    }
    database = _Nowhere(connection, left)
    encode = function.encode_result if function else _encode
    limit = function.backend.payload_limit if function else PAYLOAD_LIMIT
    state = _Attempt(claim, Environment(_WORKER, database, limit, encode, False, False), database)
    state.job = job = RecordedJob(state)
    return job


class _Writer:
    """Writes nothing: the outbox keeps what it has."""

    def notify(self, attempt: Attempt) -> None:
        pass

    def flush_now(self, attempt: Attempt) -> None:
        pass


class _Attempt(Attempt):
    __slots__ = ("memory_of", "reported")

    def __init__(self, claim: Claim, environment: Environment, database: "_Nowhere") -> None:
        super().__init__(claim, environment, _Writer())
        self.reported: list[ReportedProgress] = []
        self.memory_of = database

    def progress_not_written(self) -> None:
        super().progress_not_written()
        if self._progress is not None:
            percent, stage, _ = self._progress.report()
            if self.reported[-1:] != [(percent, stage)]:
                self.reported.append(ReportedProgress(percent, stage))


class _Nowhere(Database):
    """Accepts what a job keeps for its next attempt, and shows it."""

    def __init__(self, connection: Source | None, steps: dict[int, tuple[str, str | None]]) -> None:
        super().__init__(connection, SCHEMA)
        self._has_connection = connection is not None
        self.steps = steps
        self.saved: list[Json] = []
        self.result: Json = None

    def persist(self, query: Query[Result]) -> Result:
        return query.read(self._rows(query))

    async def apersist(self, query: Query[Result]) -> Result:
        return query.read(self._rows(query))

    def run_in(self, transaction: Transaction, query: Query[Result]) -> Result:
        return query.read(self._rows(query))

    async def arun_in(self, transaction: AsyncTransaction, query: Query[Result]) -> Result:
        return query.read(self._rows(query))

    def transaction(self) -> AbstractContextManager[Transaction]:
        self._require_connection()
        return super().transaction()

    def atransaction(self) -> AbstractAsyncContextManager[AsyncTransaction]:
        self._require_connection()
        return super().atransaction()

    def _require_connection(self) -> None:
        if not self._has_connection:
            raise InvalidArgument(
                "this handler uses a transaction: give make_job(connection=…), or test it with drain()"
            )

    def _rows(self, query: Query[Any]) -> Rows:
        if query.text == statement("get_steps"):
            return [(position, *step) for position, step in self.steps.items()]
        given = query.params
        if "position" in given:
            self.steps[given["position"]] = (given["name"], given["result"])
        elif "checkpoint" in given:
            self.saved.append(from_json(given["checkpoint"]))
        elif given.get("result") is not None:
            self.result = from_json(given["result"])
        return [(True,)]


def _encode(result: Any) -> str | None:
    return None if result is None else to_json(result).decode()
