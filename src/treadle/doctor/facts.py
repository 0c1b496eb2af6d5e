"""What the rules are applied to. All times are the server's; durations are in seconds."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.words.stuck import StoppedChild, Stuck


class Server(NamedTuple):
    now: datetime
    version: int
    """As 180006."""
    user: str
    in_recovery: bool
    """It is a standby."""
    sees_all: bool
    """Whether this role sees the connections of others (pg_read_all_stats)."""
    settings: Mapping[str, str]
    """As a new connection of ours gets them, in their base units."""
    notifications: float
    """The part of the notification queue that is in use, from 0 to 1."""


class ConnectionUse(NamedTuple):
    """Connections in use against a limit: of the server, of the database or of the role."""

    scope: str
    used: int
    ours: int
    """Those of Treadle."""
    allowed: int


class DatabaseAge(NamedTuple):
    """How many transaction ids and multixact ids a database has used since it was last frozen."""

    database: str
    transactions: int
    multixacts: int


class VacuumBlocker(NamedTuple):
    """Something that keeps vacuum from removing dead rows: it holds back the xmin horizon."""

    kind: str
    """session, slot, prepared or standby"""
    name: str
    """The process id, or the name of the slot or the prepared transaction."""
    user: str | None
    application: str | None
    client: str | None
    state: str | None
    query: str | None
    seconds: float | None
    """Since when, if the server knows."""
    transactions: int
    """How many have begun since."""
    here: bool
    """In this database. One in another database keeps no dead rows here, but delays what is read in commit order."""


class ReplicationSlot(NamedTuple):
    name: str
    kind: str
    active: bool
    catalog_transactions: int | None
    bytes: int | None
    """The write-ahead log that it retains."""
    status: str | None


class Table(NamedTuple):
    name: str
    unlogged: bool
    options: Mapping[str, str]
    rows: float
    """As of the last vacuum or analyze; -1: there was none."""
    bytes: int
    live: int
    dead: int
    vacuumed: float | None
    """Since the last vacuum."""
    age: float | None
    """Since the schema was created."""
    heap: int = 0
    """The bytes of its rows alone, without indexes and large values."""
    width: float | None = None
    """The average bytes of a row; None: it was never analyzed."""


class RowSecurity(NamedTuple):
    """A table with row level security."""

    table: str
    owner: str
    forced: bool
    """It applies to the owner, too."""
    policies: int
    users: list[str]
    """The users that it applies to, up to 100: they have rights on the table."""


class Index(NamedTuple):
    name: str
    table: str
    usable: bool
    """Valid and ready."""
    unique: bool
    rows: float
    width: float
    """Of the columns of one entry, from the statistics."""
    bytes: int


class Trigger(NamedTuple):
    name: str
    table: str
    enabled: bool


class Function(NamedTuple):
    name: str
    digest: str
    """MD5 of its body."""
    security_definer: bool
    """It runs with the rights of its owner."""
    settings: list[str]
    """As search_path=pg_catalog, pg_temp."""


class MigrationRecords(NamedTuple):
    """What the schema records about its own version."""

    version: int
    incompatible: int
    """The last version that is not compatible with the versions of Treadle before it."""
    functions: Mapping[str, str]
    """The name and digest of each function as it was last applied."""


class ExpectedIndex(NamedTuple):
    table: str
    statement: str
    """Creates it."""

    @property
    def unique(self) -> bool:
        return "unique index" in self.statement or "primary key" in self.statement


class ExpectedFunction(NamedTuple):
    bodies: frozenset[str]
    """MD5 of the bodies in its file."""
    security_definer: bool
    settings: frozenset[str]


class ExpectedSchema(NamedTuple):
    """What the migrations and functions of this version create."""

    version: int
    functions: Mapping[str, str]
    definitions: Mapping[str, ExpectedFunction]
    indexes: Mapping[str, ExpectedIndex]
    triggers: Mapping[str, str]
    """Name and table."""
    options: Mapping[str, Mapping[str, str]]
    """By table."""


class AutovacuumWorker(NamedTuple):
    """One autovacuum process at work."""

    table: str | None
    seconds: float | None


class Worker(NamedTuple):
    worker_id: str
    host: str | None
    pid: int | None
    started: float
    """Seconds ago."""
    seen: float
    """Seconds ago; negative if it is in the future."""
    lease: float | None
    lost: float | None
    """Seconds ago that it was declared lost."""
    job_types: list[str] | None
    queues: list[str] | None
    version: str | None
    """Of Treadle; None for a client that sends heartbeats through the SQL functions."""
    has_jobs: bool
    outdated: bool
    """It was started before the functions of the schema last changed."""
    concurrency: int | None = None
    """0: an operator has set it so, and it claims nothing."""
    stuck: Stuck | None = None
    now: datetime | None = None
    stopped_children: Sequence[StoppedChild] = ()
    handlers: list[str | None] | None = None
    """The functions of its job types."""

    @property
    def live(self) -> bool:
        return self.lost is None and self.seen <= (600 if self.lease is None else self.lease)


class DueLane(NamedTuple):
    queue: str
    job_type: str
    priority: int
    due: float
    """How long its oldest due job has waited."""


class OverdueJob(NamedTuple):
    """The first job of a lane that a worker could claim now, and that has been due for some time."""

    id: str
    queue: str
    job_type: str
    due: float


class QuietWorker(NamedTuple):
    """A live worker process that has neither claimed nor finished a job for some time."""

    id: str
    host: str | None
    pid: int | None
    job_types: list[str] | None
    queues: list[str] | None
    process_types: list[str]
    """Those that run in child processes."""
    quiet: float
    """Since its last claim that has not finished, or since its start."""
    concurrency: int
    """Slots on the event loop and threads."""
    running: int
    unstarted: int
    """Claimed, but not started."""
    children: int
    """Slots in child processes."""
    in_children: int
    """Jobs that run in one, or wait for one."""


class Tick(NamedTuple):
    seconds: float | None
    """Since the last one; None: there was none yet."""
    missed: float | None
    """Since a claim that a tick should have followed, and none did."""


class AbandonedClaim(NamedTuple):
    """A job claimed by a client without a lease that has sent no heartbeat for a long time."""

    id: str
    job_type: str
    worker_id: str | None
    silent: float


class CrashingJob(NamedTuple):
    id: str
    job_type: str
    status: str
    crashes: int
    error: str | None


class FailingKey(NamedTuple):
    """A job that keeps failing while other jobs with its key wait for it."""

    id: str
    job_type: str
    key: str
    attempts: int
    max_attempts: int
    failing: float
    """Since its first failure."""
    waiting: int
    """Jobs that wait for it, counted up to 1,000."""
    error: str | None


class UnclaimableJob(NamedTuple):
    """A pending job whose attempts < max_attempts is not true."""

    id: str
    job_type: str
    attempts: int | None
    max_attempts: int | None
    key: str | None
    waiting: int
    """Jobs with its key that wait for it, counted up to 1,000."""


class UndecidedCheck(NamedTuple):
    """Jobs that wait for others, about which nothing was decided."""

    first: UUID
    jobs: int
    age: float


class ForgottenBatch(NamedTuple):
    """An open batch all of whose jobs have ended."""

    id: UUID
    jobs: int
    age: float
    """Since the last one ended, or since it was opened."""


class LateSchedule(NamedTuple):
    """A schedule that is due, or whose next time no worker has computed."""

    name: str
    in_code: bool
    declared: float | None
    """Since a worker last declared it."""
    late: float
    """Since it is due, or since it was changed."""
    error: str | None
    retry: float | None
    """Until a worker tries again after the error."""


class ScheduledType(NamedTuple):
    """A job type in a queue that schedules will enqueue."""

    job_type: str
    queue: str
    schedules: int
    name: str
    """Of one of the schedules."""
    seconds: float
    """Until the first of them is due; negative if it is."""


class WaitingLimit(NamedTuple):
    """A limit, or one key of it, that due jobs wait for."""

    name: str
    per: str | None
    key: str | None
    """None: it has no keys."""
    amount: int | None
    seconds: float | None
    """The period; None: the limit is for jobs that run at once."""
    in_code: bool
    for_key: bool
    """The amount was set for this key only."""
    usual_amount: int | None
    """What it would be if the change at run time were undone."""
    usual_seconds: float | None
    changed_by: str | None
    changed: float | None
    """Since it was changed at run time; None: it was not."""
    waiting: int
    """How many jobs wait, as far as they were counted."""
    exact: bool
    due: float
    """How long the oldest of them has waited."""


class UnopenedLimit(NamedTuple):
    """A limit that has room although lanes have waited for it for some time."""

    name: str
    key: str
    version: int
    """Changes when a job is claimed under it."""
    lanes: int
    seconds: float
    """Since the first of them waits."""
    job: str
    """The id of a job that waits."""

    @property
    def id(self) -> tuple[str, str, int, int]:
        """The same at two looks if nothing happened in between."""
        return self[:4]


class ClockJump(NamedTuple):
    before: datetime
    """What the clock would have shown."""
    after: datetime
    seconds: float
    """Negative: it was set back."""


class ClockOffset(NamedTuple):
    seconds: float
    """The server's clock minus this machine's."""
    uncertainty: float
    """Half of the round trip."""


class HiddenJob(NamedTuple):
    """The first due job of a lane that lies where no claim looks."""

    queue: str
    job_type: str
    priority: int
    partition: str
    due: float
    floor: datetime | None
    """Claims of the lane begin here. None: the lane is not searched at all."""
    id: str


class UntriggeredJob(NamedTuple):
    """A job that lacks what a trigger would have set."""

    kind: str
    """finished: it has ended without finished_at; key, dependency: nothing is left that would unblock it;
    workflow: its counts are not those of its jobs."""
    id: str
    job_type: str
    detail: str | None
    """Its key, or the counts of the workflow."""


class FailureRate(NamedTuple):
    """Attempts of a job type: in the last minutes, and in the time before."""

    job_type: str
    completed: int
    errors: int
    """Failed attempts, including those that are retried."""
    failed: int
    """Jobs that have no attempt left."""
    past_completed: int
    past_errors: int

    @property
    def attempts(self) -> int:
        return self.completed + self.errors

    @property
    def share(self) -> float:
        """The share of attempts that failed lately."""
        return self.errors / self.attempts if self.attempts else 0.0

    @property
    def past_attempts(self) -> int:
        return self.past_completed + self.past_errors

    @property
    def past_share(self) -> float:
        return self.past_errors / self.past_attempts if self.past_attempts else 0.0


class TableBlocker(NamedTuple):
    """A session, or a prepared transaction."""

    pid: int
    """0: a prepared transaction."""
    prepared: str | None
    """Its global identifier."""
    user: str | None
    application: str | None
    client: str | None
    state: str | None
    query: str | None
    seconds: float | None
    """Since its transaction began. None: this role may not see it."""
    tables: list[str]
    whole_table: bool
    """It locks a table, not only rows."""
    stops_reading: bool
    """Nobody else can even read the table."""
    waiting: int
    """How many sessions wait for it; counted up to a limit."""
    waited: float | None
    """How long the first of them has waited."""
    waits: bool
    """It waits for a lock itself: it is in the way because others wait behind it."""
    confirmed: bool = False
    """It was seen twice, some time apart."""

    @property
    def id(self) -> tuple[int, str | None]:
        return self.pid, self.prepared
