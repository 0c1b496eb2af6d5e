-- The tables of the queue, by subject. The rules are in ../functions, one file per function, together with the triggers and
-- defaults that call it.
--
-- Every table that a publication can contain has a primary key: without one, a publication for all tables makes every DELETE
-- from it fail.

-- Jobs.

create table treadle.jobs (
    -- the contract, column for column; parts/new_id.sql sets the default of id
    id            uuid primary key,
    job_type      varchar(50) not null,
    priority      int not null default 100,
    status        varchar(20) not null default 'pending',
    data          jsonb not null default '{}',
    progress      int default 0,
    current_stage varchar(100),
    events_count  int default 0,
    worker_id     varchar(100),
    claimed_at    timestamptz,
    created_at    timestamptz default now(),
    started_at    timestamptz,
    completed_at  timestamptz,
    attempts      int default 0,
    max_attempts  int default 3,
    last_error    text,

    -- what the rest of the product needs: times and numbers first, the wide ones before the narrow ones, so that no space is
    -- lost by alignment. What is null takes none.
    run_at        timestamptz not null,
    expires_at    timestamptz,
    seen_at       timestamptz,
    finished_at   timestamptz,
    lease         bigint not null default 0,
    crashes       int not null default 0,
    losses        int,
    weight        int,
    holds         smallint not null default 0,
    flags         smallint not null default 0,
    queue         varchar(50) not null default 'default',
    partition     varchar(500) collate "C" not null default '',
    key           varchar(200),
    unique_key    varchar(200),
    unique_while  varchar(10),
    result        jsonb,
    pace          jsonb,
    checkpoint    jsonb,
    origin        jsonb,
    headers       jsonb,
    timeout       double precision[],

    -- PostgreSQL parses it again for every INSERT and UPDATE: a list that is one constant is parsed in half the time. A job that has
    -- ended may be without its time: while triggers are off, nothing sets it (doctor finds such jobs).
    constraint valid_status check (
        case
            when finished_at is null then status = any ('{pending,claimed,running,completed,failed,cancelled}'::text[])
            else status = any ('{completed,failed,cancelled}'::text[])
        end
    )
) with (
    -- Room for progress to be written in place (HOT), and a vacuum that keeps up with a queue.
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

comment on table treadle.jobs is 'One row per job, from enqueue until it is pruned.';
comment on column treadle.jobs.run_at is 'The job is not claimed before this time; also its place in its lane. If an insert leaves it out, it follows created_at.';
comment on column treadle.jobs.expires_at is 'If no worker has claimed the job by then, it is cancelled. A claim sets it to null.';
comment on column treadle.jobs.seen_at is 'The last report of the worker about this job, if there was one.';
comment on column treadle.jobs.finished_at is 'When the job became completed, failed or cancelled.';
comment on column treadle.jobs.lease is 'The lease number: each claim increments it, and nothing else does. It fences the writes of a worker.';
comment on column treadle.jobs.crashes is 'How often the process in which the job ran has died.';
comment on column treadle.jobs.losses is 'How often its worker was lost as a whole while the job ran, since an attempt last failed by itself; null: never.';
comment on column treadle.jobs.weight is 'How much of each of its limits the job uses. Null: 1.';
comment on column treadle.jobs.holds is 'What a pending job waits for besides its time, as bits: 1 = an earlier job with the same key, 2 = other jobs (dependencies), 4 = a signal. 0: nothing.';
comment on column treadle.jobs.flags is 'What else there is to know about this job, as bits: 1 = it has events, 2 = log lines, 4 = steps, 8 = dependencies, 16 = it takes results of other jobs, 32 = it is a workflow, 64 = it is part of a workflow, 128 = it was cancelled because it was not needed, 256 = it waits for a signal, 512 = it was claimed under a limit, 1024 = while it runs: its attempt must not be repeated. And what job_ended() does when it ends: 2048 = its limits may have room, 4096 = its workflow counts it, 8192 = jobs wait for it. Each bit has a function: flag_events() and so on.';
comment on column treadle.jobs.partition is 'The values that limits and fairness tell jobs apart by, as a JSON object ({"tenant": "acme"}); empty for most. Jobs of different partitions are in different lanes.';
comment on column treadle.jobs.key is 'Jobs with the same key run one at a time, in the order they were enqueued.';
comment on column treadle.jobs.unique_key is 'While this job is unfinished (or pending: see unique_while), no other job of its type with the same unique key is added.';
comment on column treadle.jobs.unique_while is '"pending": a claim removes the unique key. Null: the job has it until it is finished.';
comment on column treadle.jobs.pace is 'What the handler counts: done, total, rate per second and seconds left.';
comment on column treadle.jobs.checkpoint is 'What the handler saved last; the next attempt finds it.';
comment on column treadle.jobs.origin is 'Where the job comes from, if a schedule enqueued it: the schedule, the time for which it was enqueued, and the time before that.';
comment on column treadle.jobs.timeout is 'The seconds until the handler is interrupted, and until it is killed; each may be null. Null: as its function says.';
comment on column treadle.jobs.headers is 'Named strings that are stored with the job, for middleware: for example, the context of a trace. Null if there are none.';

-- Serves claims: one bounded range per lane. The predicate is what the function is_claimable() becomes when the planner
-- inlines it. It is written out, because an index must not depend on a function that can be replaced.
create index idx_jobs_claimable on treadle.jobs (queue, job_type, priority desc, partition, run_at)
    where status = 'pending' and holds = 0 and attempts < max_attempts;

-- Serves recover_stale_jobs, find_claimed_jobs, and the list of claimed and running jobs.
create index idx_jobs_worker on treadle.jobs (worker_id)
    where status in ('claimed', 'running');

-- Serves prune_jobs, count_minutes, the list of finished jobs, and the tick, which looks for busy lanes.
create index idx_jobs_finished on treadle.jobs (status, finished_at)
    where status in ('completed', 'failed', 'cancelled');

-- Serves the list of blocked jobs (find_jobs).
create index idx_jobs_blocked on treadle.jobs (id)
    where status = 'pending' and holds <> 0;

-- Serves order per key: the jobs of a key that run (0), wait for their turn (1) or are blocked (2), of each the oldest first.
-- The expression is what the function key_rank() becomes when the planner inlines it.
create index idx_jobs_key on treadle.jobs (key, (case status when 'pending' then 1 + (holds & 1) else 0 end), id)
    where key is not null and status in ('pending', 'claimed', 'running');

-- The last guard of order per key: whatever a statement does, two jobs of a key never run at once.
create unique index idx_jobs_key_running on treadle.jobs (key)
    where key is not null and status in ('claimed', 'running');

-- Of the unfinished jobs of a type, at most one has a given unique key. A job without one is not in this index.
create unique index idx_jobs_unique on treadle.jobs (unique_key, job_type)
    where unique_key is not null and status in ('pending', 'claimed', 'running');

-- Rows are only added and deleted, and the newest is read first: rows that an open snapshot keeps from being removed are not
-- in the way.
create table treadle.pruned (
    status  varchar(20) not null,
    reached timestamptz not null,
    primary key (status, reached)
);

comment on table treadle.pruned is 'Up to which finished_at workers have deleted finished jobs: they go on from there. See prune_jobs().';

create type treadle.enqueue_options as (
    -- of each job
    priority      int,
    queue         varchar,
    run_at        timestamptz,
    delay         interval,
    key           varchar,
    max_attempts  int,
    weight        int,
    timeout       double precision[],
    partition     text,
    headers       jsonb,
    expires       interval,
    expires_at    timestamptz,

    -- lists, with one element for each job
    keys          varchar[],
    partitions    text[],
    unique_keys   varchar[],

    -- what is unique, and what happens to a job that exists
    unique_while  varchar,
    period        interval,
    per_period    int,
    on_conflict   varchar[],
    latest        interval,
    all_or_none   boolean,

    -- what they wait for, and are part of
    after         jsonb,
    workflow      jsonb,

    -- the schedule that enqueues them: not of callers
    origin        jsonb
);

comment on type treadle.enqueue_options is 'The options of enqueue_with_options(), which describes them.';

create table treadle.unique_periods (
    job_type   varchar(50) not null,
    unique_key varchar(200) not null,
    slot       int not null,
    job_id     uuid,
    taken_at   timestamptz not null default '-infinity',
    ends_at    timestamptz not null default '-infinity',
    primary key (job_type, unique_key, slot)
);

comment on table treadle.unique_periods is 'For unique keys with a limit per period: one row for each job that may be enqueued per period.';
comment on column treadle.unique_periods.job_id is 'The last job that was enqueued in this place.';
comment on column treadle.unique_periods.ends_at is 'When this row is no longer needed.';

-- Serves prune_unique_periods.
create index idx_unique_periods_end on treadle.unique_periods (ends_at);

-- Serves expire_jobs: the jobs that may have expired, in the order in which it looks at them.
create table treadle.expiries (
    look_at timestamptz not null,
    job_id  uuid not null,
    primary key (look_at, job_id)
);

comment on table treadle.expiries is 'When to look whether a job has expired.';


-- What jobs publish and keep. It is deleted with the job (drop_belongings); jobs.flags says whether there is any.

create table treadle.events (
    job_id      uuid not null,
    number      int not null,
    job_type    varchar(50) not null,
    attempt     int not null,
    lease       bigint not null,
    sequence    int,
    phase       smallint not null default 3,
    happened_at timestamptz not null,
    name        varchar(100) not null,
    data        jsonb not null default '{}',
    transaction xid8 not null default pg_current_xact_id(),
    primary key (job_id, number)
);

comment on table treadle.events is 'The events that handlers published with job.event(), numbered per job. Deleted with their job.';
comment on column treadle.events.sequence is 'The number of the event within its lease number: an event that is written twice is found by it. Null for record_event().';
comment on column treadle.events.phase is 'The place of the event among the transitions of its lease number: see job_events().';
comment on column treadle.events.transaction is 'The transaction that wrote it. A reader of all events stops at the oldest transaction that still runs, and so skips none.';

-- Serves the reader of all events.
create index idx_events_transaction on treadle.events (transaction, job_id, number);

create table treadle.logs (
    job_id    uuid not null,
    number    int not null,
    attempt   int not null,
    lease     bigint not null,
    sequence  int not null,
    logged_at timestamptz not null,
    level     smallint not null,
    logger    text not null,
    message   text not null,
    primary key (job_id, number)
);

comment on table treadle.logs is 'What handlers logged: the first and the last lines of each job. Deleted with their job.';

create table treadle.steps (
    job_id   uuid not null,
    position int not null,
    name     varchar(200) not null,
    result   jsonb,
    lease    bigint not null,
    done_at  timestamptz not null default clock_timestamp(),
    primary key (job_id, position)
);

comment on table treadle.steps is 'Finished steps of jobs, with their results: they are not repeated. Deleted with their job.';

-- Every failed attempt; jobs.last_error is the newest of them. Of each job at most one attempt fails at a time.
create table treadle.errors (
    job_id     uuid not null,
    failed_at  timestamptz not null default clock_timestamp(),
    attempt    int not null,
    lease      bigint,
    worker_id  varchar(100),
    started_at timestamptz,
    error      text not null,
    traceback  text,
    primary key (job_id, failed_at)
);

comment on table treadle.errors is 'The failed attempts of jobs: when, on which worker, and why. Deleted with their job.';

-- Serves count_minutes and group_errors.
create index idx_errors_failed_at on treadle.errors (failed_at);


-- Stored values: large payloads and results by reference.

create table treadle.stored (
    id          uuid primary key,
    size        bigint,
    digest      text,
    name        varchar(200),
    place       text,
    created_at  timestamptz not null default clock_timestamp(),
    written_at  timestamptz not null default clock_timestamp(),
    removing_at timestamptz
) with (fillfactor = 70);

comment on table treadle.stored is 'One row per stored object: what Stored in a payload or a result refers to.';
comment on column treadle.stored.size is 'In bytes; null until all of them are written, and until then nothing can refer to the object.';
comment on column treadle.stored.digest is 'SHA-256, in hexadecimal.';
comment on column treadle.stored.place is 'The folder or object store (a URL) of its file; null: its bytes are in stored_parts.';
comment on column treadle.stored.written_at is 'When the object was last written to. It is not swept for some time after that.';
comment on column treadle.stored.removing_at is 'Set when the object is being removed and cannot be used any more: when the removal of its file last began.';

-- Serves sweep_stored: the objects that are being removed, few at any time.
create index idx_stored_removing on treadle.stored (removing_at)
    where removing_at is not null;

create table treadle.stored_parts (
    stored_id uuid not null references treadle.stored,
    part      int not null,
    bytes     bytea not null,
    primary key (stored_id, part)
);

-- Not compressed: large data mostly is already, and a part is always read and written whole.
alter table treadle.stored_parts alter column bytes set storage external;

comment on table treadle.stored_parts is 'The bytes of stored objects: 256 kB per part, numbered from 0, the last one shorter.';

create table treadle.stored_uses (
    stored_id uuid not null references treadle.stored,
    job_id    uuid not null,
    -- Serves sweep_stored: whether there is a use.
    primary key (stored_id, job_id)
);

comment on table treadle.stored_uses is 'Which jobs use which stored objects. A use is deleted with its job; an object without one is swept.';

-- Serves drop_belongings: the uses of a job.
create index idx_stored_uses_job on treadle.stored_uses (job_id);


-- Lanes, floors and ticks: where claims look for jobs, where they start there, and which transactions a tick has seen. See
-- decision 24.

create type treadle.lane as (
    queue     varchar,
    job_type  varchar,
    priority  int,
    partition varchar collate "C"
);

comment on type treadle.lane is 'What identifies a lane: its jobs are claimed in the order of their run_at.';

create type treadle.lane_range as (
    lane  treadle.lane,
    start timestamptz
);

comment on type treadle.lane_range is 'The jobs of a lane that are due at start or later.';

create type treadle.known_lanes as (
    lanes     treadle.lane_range[],
    limited   boolean,
    next_wake timestamptz
);

comment on type treadle.known_lanes is 'What a session keeps between its searches: the lanes to read, whether there are limits, and when a dormant lane wakes. See find_known_lanes().';

-- Transactions that add jobs to a lane only append rows, without a unique constraint: its check would wait for open
-- transactions of others. The tick merges rows of the same lane.
create table treadle.lanes (
    id          bigint generated always as identity primary key,
    queue       varchar(50) not null,
    job_type    varchar(50) not null,
    priority    int not null,
    partition   varchar(500) collate "C" not null default '',
    changed_at  timestamptz not null default clock_timestamp(),
    dormant_xid xid8,
    wakes_at    timestamptz,
    limit_name  varchar(100),
    limit_key   varchar(200) collate "C",

    -- The triggers prepare_job and check_identity check that of a job: a CHECK would be parsed for each statement.
    constraint valid_partition check (partition = '' or jsonb_typeof(partition::jsonb) = 'object'),
    constraint dormant_for_limit check (limit_name is null or dormant_xid is not null and limit_key is not null)
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 50,
    autovacuum_vacuum_cost_delay = 0
);

comment on table treadle.lanes is 'The lanes (queue, job type, priority, partition) that have or had jobs. A lane is listed more than once until the next tick.';
comment on column treadle.lanes.changed_at is 'When the lane last became active or dormant.';
comment on column treadle.lanes.dormant_xid is 'The transaction that made the lane dormant: claims do not search it until its first job is due, a job arrives, or its limit has room. Null: it is active.';
comment on column treadle.lanes.wakes_at is 'When the first job of a dormant lane is due; the lane becomes active before that.';
comment on column treadle.lanes.limit_name is 'The limit that a dormant lane waits for. Claims search it when the limit may have room: see limit_openings.';
comment on column treadle.lanes.limit_key is 'And the value of its "per".';

-- Serves whoever looks for one lane, such as register_lanes, and lists of lanes.
create index idx_lanes_type on treadle.lanes (job_type, queue, priority, partition);

-- Serve claims: the active lanes in the order in which they are needed, for workers of all queues, and for workers of some. (An
-- expression, because the planner would use the primary key for a range of ids, and read the lanes of all job types.)
create index idx_lanes_active on treadle.lanes (job_type, priority desc, (id + 0)) where dormant_xid is null;
alter index treadle.idx_lanes_active alter column 3 set statistics 0;

create index idx_lanes_active_queue on treadle.lanes (job_type, queue, priority desc, (id + 0)) where dormant_xid is null;
alter index treadle.idx_lanes_active_queue alter column 4 set statistics 0;

-- Serves the tick, which examines some lanes in turn. As is_listed().
create index idx_lanes_listed on treadle.lanes (id) where dormant_xid is null or limit_name is not null;

-- Serves the tick: lanes that became dormant while transactions ran that may not have seen it.
create index idx_lanes_dormant on treadle.lanes (dormant_xid) where dormant_xid is not null and limit_name is null;

-- Serves the tick and next_wake_after: dormant lanes whose first job is due soon; and delete_unused_lanes: those without any.
create index idx_lanes_wakes on treadle.lanes (wakes_at, dormant_xid) where dormant_xid is not null and limit_name is null;

-- Serves claims when a limit may have room: the lanes that wait for it. And find_limits.
create index idx_lanes_limit on treadle.lanes (limit_name, limit_key, job_type, priority desc, (id + 0))
    where limit_name is not null;
alter index treadle.idx_lanes_limit alter column 5 set statistics 0;

-- Moves whenever a lane is no longer active: see register_lanes.sql. A sequence, because it must be read as it is now, even on an
-- older snapshot.
create sequence treadle.lane_epoch no cycle;
select nextval('treadle.lane_epoch');

comment on sequence treadle.lane_epoch is 'Moves whenever a lane becomes dormant or is deleted: what a session has seen before that, it looks up again.';

-- The newest floor of each lane and as many older ones as running transactions may have seen. Rows are only added and deleted,
-- and the newest is read first, so rows that an open snapshot keeps from being removed are not in the way. A lane may get two
-- floors in one transaction, so the columns of the lane and xid are not unique.
create table treadle.floors (
    id        bigint generated always as identity primary key,
    queue     varchar(50) not null,
    job_type  varchar(50) not null,
    priority  int not null,
    partition varchar(500) collate "C" not null default '',
    floor     timestamptz not null,
    xid       xid8 not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_cost_delay = 0);

comment on table treadle.floors is 'Where claims start in each lane: the newest floor is the valid one.';
comment on column treadle.floors.id is 'For replication only.';
comment on column treadle.floors.floor is 'No claimable job has an earlier run_at, except of transactions that were running when the floor was written.';
comment on column treadle.floors.xid is 'The transaction id of the tick that wrote it.';

-- Serves lane_floor and safe_floor: the floors of a lane, the newest first.
create index idx_floors_lane on treadle.floors (job_type, queue, priority, partition, xid desc);

-- One row per tick, deleted when no running transaction is older. The newest is read first, for the same reason.
create table treadle.ticks (
    xid            xid8 primary key,
    ticked_at      timestamptz not null,
    next_xid       xid8 not null,
    running        xid8[] not null,
    look_after     timestamptz not null,
    sweep_after    timestamptz not null,
    swept          treadle.lane,
    examined       bigint not null default 0,
    set_back_from  timestamptz,
    set_back_seen  xid8,
    set_back_until xid8
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_cost_delay = 0);

comment on table treadle.ticks is 'The last ticks: the transactions that ran at each of them may still commit jobs below a floor.';
comment on column treadle.ticks.next_xid is 'Transactions with this id or a higher one may have started after the tick.';
comment on column treadle.ticks.running is 'The older transactions that were running.';
comment on column treadle.ticks.look_after is 'When a tick may next read the claimed jobs.';
comment on column treadle.ticks.sweep_after is 'When a tick may next compare the first job of a lane with its floor.';
comment on column treadle.ticks.swept is 'The lane for which that was done last.';
comment on column treadle.ticks.examined is 'The last lane that was examined in turn; 0: the next tick begins with the first.';
comment on column treadle.ticks.set_back_from is 'The clock before it was last set back: jobs up to this time were due then.';
comment on column treadle.ticks.set_back_seen is 'The last tick before that.';
comment on column treadle.ticks.set_back_until is 'Transactions with a lower id may have enqueued jobs by the clock before that.';

-- When the last tick ran, in microseconds since 1970. A sequence has no row versions: it stays one page however long a
-- snapshot is open.
create sequence treadle.tick_clock minvalue 0 start 0 no cycle;

-- When a lane last became active, a floor was raised by a claim, or a pause or a limit was added or removed, in
-- microseconds since 1970: see find_known_lanes().
create sequence treadle.lane_clock minvalue 0 start 0 no cycle;

-- One row per jump that was noticed; the newest hundred are kept. See decision 27.
create table treadle.clock_jumps (
    id     bigint generated always as identity primary key,
    before timestamptz not null,
    after  timestamptz not null
);

comment on table treadle.clock_jumps is 'Jumps of the server''s clock, as they were noticed.';
comment on column treadle.clock_jumps.before is 'What the clock would have shown without the jump; for a jump back that a tick noticed, what the last tick before it had read.';
comment on column treadle.clock_jumps.after is 'What the clock showed when the jump was noticed.';


-- Workers.

create table treadle.workers (
    worker_id        varchar(100) primary key,
    version          text,
    host             text,
    pid              int,
    job_types        varchar(50)[],
    queues           varchar(50)[],
    concurrency      int,
    process_types    varchar(50)[],
    children         int,
    handlers         text[],

    started_at       timestamptz not null default clock_timestamp(),
    seen_at          timestamptz not null default clock_timestamp(),
    lease            interval,
    asleep_at        timestamptz,

    stuck_since      timestamptz,
    stuck_kind       varchar(20),
    stuck_job        uuid,
    stuck_job_type   varchar(50),
    stuck_stack      text,
    stopped_children jsonb,

    lost_at          timestamptz,
    lost_because     text,
    jobs_given_back  int,
    jobs_failed      int
) with (fillfactor = 50);

comment on table treadle.workers is 'One row per worker. Heartbeats update it, so none is written per job.';
comment on column treadle.workers.version is 'The version of Treadle that the worker runs.';
comment on column treadle.workers.process_types is 'Those of its job types that run in child processes and do not count towards concurrency.';
comment on column treadle.workers.children is 'How many jobs run in child processes at once; concurrency is for the other jobs.';
comment on column treadle.workers.handlers is 'The functions of its job types, in the same order, as module.function. Null: unknown.';
comment on column treadle.workers.lease is 'How long the worker may go without renewing before other workers get its jobs; null for heartbeats by hand.';
comment on column treadle.workers.asleep_at is 'When it fell asleep, without jobs; its lease is long meanwhile. Null: it is awake. See renew_workers().';
comment on column treadle.workers.stuck_since is 'When its event loop last ran, if that is some seconds ago although its lease is renewed; or when it claimed the job that it does not begin. Null: all is well. See report_stuck().';
comment on column treadle.workers.stuck_kind is 'stopped: its process was stopped, by a signal or a debugger; blocked: something blocks its event loop; unbegun: it has claimed a job and does not begin it although it has room.';
comment on column treadle.workers.stuck_job is 'The job that blocks its event loop, if it is known, or that it does not begin.';
comment on column treadle.workers.stuck_stack is 'Where its event loop is blocked, if it is known.';
comment on column treadle.workers.stopped_children is 'Its child processes that were stopped, by a signal or a debugger, with the job that each one runs, and those that have been starting for long. Null: none. See report_stopped_children().';
comment on column treadle.workers.lost_at is 'When the worker was declared lost. Its row is kept for a day, so that a claim of it that arrives late is found.';
comment on column treadle.workers.jobs_given_back is 'How many of its jobs were pending again when it was lost.';
comment on column treadle.workers.jobs_failed is 'How many of its jobs ended when it was lost, because they have crashed too often or have no attempts left.';

-- How many jobs a live worker runs at once, as operators have set it. Not a column of workers: a transaction that stays open
-- after such a change would lock the worker's row, and the worker could not renew its lease.
create table treadle.worker_concurrency (
    worker_id   varchar(100) primary key,
    concurrency int not null check (concurrency between 0 and 10000),
    changed_by  text not null,
    changed_at  timestamptz not null
);

comment on table treadle.worker_concurrency is 'How many jobs a worker runs at once, if an operator has changed it; otherwise it is workers.concurrency. See set_concurrency().';
comment on column treadle.worker_concurrency.concurrency is '0: the worker claims nothing.';

create table treadle.worker_versions (
    worker_id     varchar(100) not null,
    registered_at timestamptz not null default clock_timestamp(),
    version       text not null,
    primary key (worker_id, registered_at)
);

comment on table treadle.worker_versions is 'The version of the application that a worker runs, if it has one. Kept for a week.';

-- The charts mark where a version of the application was first seen. worker_versions cannot tell: it is kept for a week.
create table treadle.deployments (
    version    text primary key,
    first_seen timestamptz not null default clock_timestamp()
);

comment on table treadle.deployments is 'When the first worker with a version of the application was started. Kept for 30 days, and as long as such a worker runs.';

-- Serves the marks of charts, and the deletion of old rows.
create index idx_deployments_first_seen on treadle.deployments (first_seen);

create table treadle.worker_starts (
    minute  timestamptz not null,
    version text not null,
    workers int not null,
    primary key (minute, version)
);

comment on table treadle.worker_starts is 'How many workers started in which minute, for the marks of charts; kept for 8 days. Workers that ran for less than 5 minutes may be missing.';


-- Notifications: see decision 9.

-- When workers were last notified, in microseconds since 1970. A sequence, because it is read and set at once, even if the
-- transaction fails.
create sequence treadle.wake_clock minvalue 0 start 0 no cycle;

comment on sequence treadle.wake_clock is 'When workers were last notified, in microseconds since 1970; 0 or 1: a worker has gone idle since, and is to be notified of the next job.';

-- A row here makes its transaction run notify_at_commit(): a deferred trigger is the only code that runs at commit, and it
-- needs a row. The transaction deletes the row again, and nobody reads it. Not logged: nothing of it has to survive a crash.
create unlogged table treadle.wake_requests (
);

comment on table treadle.wake_requests is 'Transactions that decide at commit whether to notify workers. Always empty.';

-- Until when a session waits for jobs to finish, in microseconds since 1970.
create sequence treadle.awaited minvalue 0 start 0 no cycle;

-- Until when a session watches jobs, in microseconds since 1970.
create sequence treadle.watched minvalue 0 start 0 no cycle;


-- Limits: see decisions 31 and 32.

create table treadle.limits (
    name           varchar(100) primary key,
    kind           varchar(11) not null,
    per            varchar(50) not null default '',
    amount         int check (amount >= 0),
    period         interval check (period > '0'),
    burst          int check (burst >= 1),
    when_full      varchar(10) check (when_full in ('refuse', 'drop')),
    declared       jsonb,
    digest         varchar,
    former_digests varchar[] not null default '{}',
    declared_at    timestamptz,
    changed_by     text,
    changed_at     timestamptz,
    constraint valid_kind check (
        kind in ('concurrency', 'rate', 'pending')
        and (kind = 'rate') = (period is not null)
        and (kind = 'rate' or burst is null)
        and (kind = 'pending') = (when_full is not null)
    )
);

comment on table treadle.limits is 'How many jobs may run at once, start per period, or wait.';
comment on column treadle.limits.kind is 'concurrency: how many run at once; rate: how many start per period; pending: how many may wait.';
comment on column treadle.limits.per is 'Each value of this part of the partition has the limit for itself. Empty: all jobs have it together.';
comment on column treadle.limits.amount is 'How many at once, per period, or waiting. 0: none. Null: not limited.';
comment on column treadle.limits.burst is 'Of a rate: how many may start at once after a quiet time. 1: evenly spaced. Null: the amount.';
comment on column treadle.limits.when_full is 'Of the kind pending: what happens when it is reached: refuse the new jobs, or drop (cancel) the oldest.';
comment on column treadle.limits.declared is 'Kind, amount, seconds, burst and when_full as the code declares them. Null: not declared in code.';
comment on column treadle.limits.changed_by is 'Who changed the values at run time: then they stay when the code declares others. Null: nobody.';

create table treadle.limit_targets (
    job_type    varchar(50) not null default '',
    queue       varchar(50) not null default '',
    name        varchar(100) not null,
    declared_at timestamptz,
    primary key (job_type, queue, name)
);

comment on table treadle.limit_targets is 'Which jobs a limit is for. Empty: all job types, all queues. A row without a name says that the job type is in type_settings: so one look at this table tells whether claims and enqueues have anything to obey.';

-- The row that a claim locks while it uses a limit.
create table treadle.limit_keys (
    name       varchar(100) not null,
    key        varchar(200) collate "C" not null,
    amount     int check (amount >= 0),
    changed_by text,
    changed_at timestamptz,
    primary key (name, key)
);

comment on table treadle.limit_keys is 'The values of "per" that are or were in use, one row with an empty key for limits without.';
comment on column treadle.limit_keys.amount is 'The limit for this value only. Null: as for the others.';

-- Serves find_limits.
create index idx_limit_keys_changed on treadle.limit_keys (name, key) where changed_by is not null;

-- Rows are only added and deleted, and the newest is read first: rows that an open snapshot keeps from being removed are not
-- in the way.
create table treadle.limit_holders (
    name         varchar(100) not null,
    key          varchar(200) collate "C" not null,
    version      bigint not null,
    jobs         uuid[] not null default '{}',
    leases       bigint[] not null default '{}',
    weights      int[] not null default '{}',
    weight       bigint not null default 0,
    found        int not null default 0,
    full_at      timestamptz not null default '-infinity',
    closed_until timestamptz not null default '-infinity',
    primary key (name, key, version)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

comment on table treadle.limit_holders is 'Which jobs use a limit. Only the newest row counts, and of its jobs only those that are still claimed or running under that lease.';
comment on column treadle.limit_holders.found is 'How many of the jobs still used the limit when that was last checked.';
comment on column treadle.limit_holders.full_at is 'Of a rate: when all of its burst can be used again.';
comment on column treadle.limit_holders.closed_until is 'A job was told to wait until then.';

create table treadle.unlisted_limits (
    id        bigint generated always as identity primary key,
    name      varchar(100) not null,
    noted_at  timestamptz not null default clock_timestamp(),
    claims    text[]
);

comment on table treadle.unlisted_limits is 'Limits that are new, or for other jobs or per something else than before, a row for each change: jobs may run under them that are not in limit_holders. See list_running_jobs().';
comment on column treadle.unlisted_limits.noted_at is 'When it was changed, and then, when a claim first listed the jobs that were running.';
comment on column treadle.unlisted_limits.claims is 'The transactions (pg_locks.virtualtransaction) that were claiming then: they may not know the limit. Null: no claim has looked.';

create table treadle.unlisted_jobs (
    id       bigint generated always as identity primary key,
    name     varchar(100) not null,
    key      varchar(200) collate "C" not null,
    job      uuid not null,
    lease    bigint not null,
    weight   int not null,
    noted_at timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

comment on table treadle.unlisted_jobs is 'Jobs that use a limit and were not claimed under it: they were running when it was added, or were claimed by a plain UPDATE. The next claim under the limit moves them to limit_holders.';

-- Serves claims under the limit. Not unique: nobody waits for whoever notes the same job.
create index idx_unlisted_jobs on treadle.unlisted_jobs (name, key);

-- With it make_room() seals what a session remembers. No role has the right to read it.
create table treadle.seal (
    only_row boolean primary key default true check (only_row),
    secret   uuid not null default gen_random_uuid()
);

comment on table treadle.seal is 'A secret of this schema: settings of sessions that are sealed with it are our own.';

insert into treadle.seal default values;

create table treadle.limit_openings (
    opens_at timestamptz not null,
    id       bigint generated always as identity,
    name     varchar(100) not null,
    key      varchar(200) collate "C" not null,
    primary key (opens_at, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

comment on table treadle.limit_openings is 'When a limit that lanes wait for may have room.';

-- Serves whoever looks whether a limit opens soon, and deletes its openings.
create index idx_limit_openings_key on treadle.limit_openings (name, key, opens_at);

-- What else a claim obeys: fairness and aging.

create table treadle.type_settings (
    job_type       varchar(50) primary key,
    fair_by        varchar(50),
    weights_of     varchar(50),
    aging_after    interval check (aging_after > '0'),
    aging_share    int check (aging_share between 0 and 100),
    declared       jsonb not null default '{}',
    digest         varchar,
    former_digests varchar[] not null default '{}',
    declared_at    timestamptz,
    changed_by     text,
    changed_at     timestamptz,
    constraint valid_fairness check ((fair_by is null) = (weights_of is null) and (fair_by <> '') = (job_type <> '')),
    constraint valid_aging check (aging_after is null or job_type = '')
);

comment on table treadle.type_settings is 'How claims choose among jobs of one priority and among priorities: settings of a job type, or, in the row with an empty one, of all.';
comment on column treadle.type_settings.fair_by is 'The values of this part of the partition take turns; empty, in the row for all: the job types do. Null: the oldest job comes first.';
comment on column treadle.type_settings.weights_of is 'By which job type the weights of these values are stored: its own, or, for an alias, the one that it is an alias of.';
comment on column treadle.type_settings.aging_after is 'A share of the claims begins with jobs that have waited for longer than this, whatever their priority. Null: none does.';
comment on column treadle.type_settings.aging_share is 'How many of a hundred claims.';
comment on column treadle.type_settings.declared is 'The seconds and the share of aging as the code declares them.';
comment on column treadle.type_settings.changed_by is 'Who changed aging at run time: then it stays when the code declares other values. Null: nobody.';

create table treadle.fair_weights (
    job_type   varchar(50) not null,
    key        varchar(200) collate "C" not null,
    weight     int not null check (weight >= 0),
    changed_by text not null,
    changed_at timestamptz not null,
    primary key (job_type, key)
);

comment on table treadle.fair_weights is 'How many turns a value gets where values take turns, set at run time. Others get one.';

-- Whose turn it is next, where values or job types take turns.
create sequence treadle.fair_turns cycle;


-- Jobs that wait for others, and workflows: see decisions 33 and 34.

create table treadle.dependencies (
    job_id    uuid not null,
    after_id  uuid not null,
    needs     varchar(20) not null default 'completed' check (needs in ('completed', 'ended', 'failed', 'member')),
    watched   boolean not null default false,
    stopped   boolean not null default false,
    grows     boolean not null default false,
    arguments varchar(100)[],
    nth       int,
    step      varchar(100),
    effort    int not null default 1,
    primary key (job_id, after_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

comment on table treadle.dependencies is 'Which jobs wait for which others (using(after=…)). Kept until the job that waits is deleted.';
comment on column treadle.dependencies.needs is 'What that job has to be: completed; ended, then it may also have failed, or was cancelled or deleted; failed, then it must not have completed; or a member, then the job that waits is a workflow, and fails if this one does not complete.';
comment on column treadle.dependencies.watched is 'The end of that job is, or was, noticed. Of all jobs that a job waits for, one is watched at a time.';
comment on column treadle.dependencies.stopped is 'This one did not complete, and so the job was cancelled, or the workflow fails. If this one is retried, the other waits again.';
comment on column treadle.dependencies.grows is 'The arguments are the results of a group: those of jobs that the other one adds while it runs are added to them.';
comment on column treadle.dependencies.arguments is 'The arguments of the job that get the result of the other.';
comment on column treadle.dependencies.nth is 'The argument is a list, and this is the position of the result in it. Null: the argument is the result.';
comment on column treadle.dependencies.step is 'What the workflow calls this job.';
comment on column treadle.dependencies.effort is 'Of a member: how much of the work of the workflow it is.';

-- Serves check_ended: the jobs that wait for one that did not end as they need it, and the workflow of a job.
create index idx_dependencies_after on treadle.dependencies (after_id, job_id);

-- Serves check_ended: the jobs that watch one.
create index idx_dependencies_watched on treadle.dependencies (after_id, job_id) where watched;

-- Serves describe_end and end_workflows: why a job was cancelled, or a workflow fails.
create index idx_dependencies_stopped on treadle.dependencies (job_id, after_id) where stopped;

create table treadle.dependency_checks (
    id       bigint generated always as identity primary key,
    noted_at timestamptz not null,
    look_at  timestamptz not null default clock_timestamp(),
    jobs     uuid[] not null,
    ended    boolean not null,
    past     uuid,
    error    text
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

comment on table treadle.dependency_checks is 'What could not be decided at commit (see dependency_requests), for the next claim or tick.';
comment on column treadle.dependency_checks.look_at is 'Not before. What could not be decided is looked at after all others.';
comment on column treadle.dependency_checks.ended is 'These have ended, or were retried, and others may wait for them. False: these wait for others.';
comment on column treadle.dependency_checks.past is 'Those that they wait for have ended up to this one; or, if they have ended, those that wait for them were looked at up to this one. Null: none is known.';
comment on column treadle.dependency_checks.error is 'Why it could not be decided: it is tried again later.';

-- Serves claim_work: whether something was noted lately.
create index idx_dependency_checks_noted on treadle.dependency_checks (noted_at);

-- Serves advance_waiting.
create index idx_dependency_checks_look on treadle.dependency_checks (look_at);

-- A row here makes its transaction run check_at_commit(), as with wake_requests. Most is decided then, and leaves no entry in an
-- index that claims and ticks would read while a snapshot is open.
create unlogged table treadle.dependency_requests (
    jobs  uuid[] not null,
    ended boolean not null,
    past  uuid
);

comment on table treadle.dependency_requests is 'Jobs that were enqueued to wait, or have ended, or were retried: at commit, what this means for jobs that wait is decided. Always empty.';

create table treadle.workflows (
    id        uuid primary key,
    is_open   boolean not null default false,
    plan      jsonb,
    has_plan  boolean not null generated always as (plan is not null) stored,
    jobs      int not null default 0,
    completed int not null default 0,
    failed    int not null default 0,
    cancelled int not null default 0,
    work      bigint not null default 0,
    done      bigint not null default 0
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

comment on table treadle.workflows is 'What is known of workflows and batches besides their rows in jobs. The counts are those of the last tick: member_changes has what came since.';
comment on column treadle.workflows.id is 'The job that is the workflow.';
comment on column treadle.workflows.is_open is 'It does not end, even if all of its jobs have ended: more are to be added.';
comment on column treadle.workflows.plan is 'Which jobs are added when it begins: one for each element of a list, or those that undo others. Null: none, or they were added.';
comment on column treadle.workflows.has_plan is 'For roles that may not read the plan, which contains payloads.';
comment on column treadle.workflows.completed is 'How many have completed, or were not needed.';
comment on column treadle.workflows.cancelled is 'How many were cancelled, or deleted before they ended.';
comment on column treadle.workflows.work is 'The efforts of its jobs, for its progress.';
comment on column treadle.workflows.done is 'The efforts of those that have ended.';

-- Serves find_forgotten_batches.
create index idx_workflows_open on treadle.workflows (id) where is_open;

create table treadle.member_changes (
    id          bigint generated always as identity primary key,
    workflow_id uuid not null,
    noted_at    timestamptz not null default clock_timestamp(),
    jobs        int not null default 0,
    completed   int not null default 0,
    failed      int not null default 0,
    cancelled   int not null default 0,
    work        bigint not null default 0,
    done        bigint not null default 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0);

comment on table treadle.member_changes is 'By how much the counts of a workflow change: a row for each job that was added, failed, was cancelled or retried, and for each statement that completed some. A tick adds them up, so that no row is updated by every job.';

-- Serves roll_up_workflow, and whoever reads the counts of a workflow.
create index idx_member_changes_workflow on treadle.member_changes (workflow_id, noted_at);

-- Serves roll_up_workflows: which workflows have changed.
create index idx_member_changes_noted on treadle.member_changes (noted_at);


-- Schedules: what is enqueued again and again, and which of its times were dealt with. See decision 29.

create table treadle.schedules (
    name           varchar(100) primary key,

    -- the job
    job_type       varchar(50) not null,
    data           jsonb not null default '{}',
    priority       int not null default 100,
    queue          varchar(50) not null default 'default',
    max_attempts   int not null default 3,
    key            varchar(200),
    options        jsonb,

    -- the times
    expression     varchar(1000) not null,
    timezone       varchar(100) not null default 'UTC',
    clocks_forward varchar(10) not null default 'run_late',
    clocks_back    varchar(10) not null default 'run_once',
    missed         varchar(10) not null default 'latest',
    missed_limit   int not null default 100,
    overlap        varchar(10) not null default 'allow',
    jitter         interval not null default '0',
    starts_at      timestamptz,
    ends_at        timestamptz,

    -- what became of them
    next_at        timestamptz,
    last_at        timestamptz,
    last_job       uuid,
    error          text,
    retry_at       timestamptz,
    paused_at      timestamptz,

    -- where it was declared
    digest         varchar(64),
    former_digests varchar(64)[] not null default '{}',
    declared_at    timestamptz,
    retired_at     timestamptz,
    created_at     timestamptz not null default now(),
    changed_at     timestamptz not null default now(),

    constraint valid_clocks_forward check (clocks_forward in ('run_late', 'skip')),
    constraint valid_clocks_back check (clocks_back in ('run_once', 'run_twice')),
    constraint valid_missed check (missed in ('skip', 'latest', 'all')),
    constraint valid_missed_limit check (missed_limit between 1 and 10000),
    constraint valid_overlap check (overlap in ('allow', 'skip', 'wait')),
    constraint valid_jitter check (jitter >= interval '0')
);

comment on table treadle.schedules is 'What is enqueued again and again. Workers compute the times and enqueue the jobs.';
comment on column treadle.schedules.expression is 'Cron with five or six fields, @hourly and the like, or "every 90s".';
comment on column treadle.schedules.clocks_forward is 'What happens at a local time that does not exist because clocks are set forward: run_late or skip.';
comment on column treadle.schedules.clocks_back is 'What happens at a local time that comes twice because clocks are set back: run_once or run_twice.';
comment on column treadle.schedules.missed is 'What is enqueued after nobody could enqueue for some time: skip (nothing), latest, or all (up to missed_limit).';
comment on column treadle.schedules.overlap is 'What happens while the job of the time before has not finished: allow, skip, or wait (one after the other).';
comment on column treadle.schedules.jitter is 'The job is due up to this much later, at random.';
comment on column treadle.schedules.next_at is 'The next time; null until a worker has computed it, infinity if there is none.';
comment on column treadle.schedules.error is 'Why the last try to compute or enqueue failed.';
comment on column treadle.schedules.retry_at is 'When to try again after an error.';
comment on column treadle.schedules.digest is 'Of the declaration in code that is in force; null: added at run time.';
comment on column treadle.schedules.former_digests is 'Of declarations that a later one has replaced.';
comment on column treadle.schedules.declared_at is 'When a worker last declared it.';
comment on column treadle.schedules.retired_at is 'When it was found that no worker declares it any longer.';

-- Serves find_due_schedules: what is due, or has no time yet, comes first.
create index idx_schedules_next on treadle.schedules (next_at nulls first)
    where paused_at is null and retired_at is null;

-- One row per time that was dealt with. The primary key is what makes sure that no time is enqueued twice. The rows outlive
-- their schedule and their job, so that this also holds if a schedule is deleted and added again.
create table treadle.occurrences (
    schedule      varchar(100) not null,
    scheduled_for timestamptz not null,
    job_id        uuid,
    skipped       varchar(10),
    decided_at    timestamptz not null default now(),
    primary key (schedule, scheduled_for)
);

comment on table treadle.occurrences is 'The times of schedules, and the jobs that were enqueued for them.';
comment on column treadle.occurrences.skipped is 'Why no job was enqueued: missed, overlap or unique.';

-- Serves prune_schedules.
create index idx_occurrences_decided on treadle.occurrences (decided_at);


-- Operators: what they pause, and what they changed.

create table treadle.pauses (
    job_type  varchar(50) not null default '',
    queue     varchar(50) not null default '',
    paused_at timestamptz not null default clock_timestamp(),
    paused_by text,
    reason    text,
    primary key (job_type, queue)
);

comment on table treadle.pauses is 'What is not claimed for now: a job type, a queue, a job type in a queue, or (both empty) everything.';

create table treadle.audit (
    id       bigint generated always as identity primary key,
    act      uuid,
    begins   boolean not null default true,
    at       timestamptz not null default clock_timestamp(),
    actor    text not null,
    db_user  text not null default session_user,
    action   varchar(50) not null,
    job_id   uuid,
    job_type varchar(50),
    queue    varchar(50),
    reason   text,
    details  jsonb not null default '{}'
);

comment on table treadle.audit is 'What operators changed, one row per job, written in the transaction of the change.';
comment on column treadle.audit.act is 'The act that this row belongs to: a change of several jobs has one for all of them, also if it is made in several transactions. Null: the row is an act of its own.';
comment on column treadle.audit.begins is 'Whether this is the first row of its act. The audit page lists those.';
comment on column treadle.audit.actor is 'Who made the change, according to the program that made it.';
comment on column treadle.audit.db_user is 'The database user of that program.';
comment on column treadle.audit.details is 'The state before the change, and the arguments of the change.';

-- Serves operate: a form that is submitted twice is carried out once.
create unique index idx_audit_acts on treadle.audit (act) where begins and act is not null;

-- Serves the audit page: the newest acts.
create index idx_audit_begins on treadle.audit (id) where begins;

-- Serves the rows of an act.
create index idx_audit_act on treadle.audit (act, id) where act is not null;

-- Serves the audit of one job.
create index idx_audit_job on treadle.audit (job_id) where job_id is not null;

-- Serves the marks of charts: changes of types and queues.
create index idx_audit_queue on treadle.audit (id) where job_id is null;


-- Statistics: what has finished, and how many jobs wait.

create table treadle.minutes (
    minute        timestamptz not null,
    queue         varchar(50) not null,
    job_type      varchar(50) not null,
    completed     bigint not null default 0,
    failed        bigint not null default 0,
    cancelled     bigint not null default 0,
    errors        bigint not null default 0,
    waited        double precision not null default 0,
    waited_most   double precision not null default 0,
    waited_counts bigint[] not null default '{}',
    ran           double precision not null default 0,
    ran_most      double precision not null default 0,
    ran_counts    bigint[] not null default '{}',
    slowest_id    uuid,
    primary key (minute, queue, job_type)
) with (fillfactor = 70);

comment on table treadle.minutes is 'What finished in each minute, for charts. Workers count it a few seconds later; it is kept for a week.';
comment on column treadle.minutes.errors is 'Failed attempts, including those that were retried.';
comment on column treadle.minutes.waited is 'How long the completed jobs waited after they were due, in seconds, summed.';
comment on column treadle.minutes.waited_counts is 'How many of the completed jobs waited how long: one count for each bucket of time_buckets(), and one for longer times.';
comment on column treadle.minutes.ran is 'How long the completed jobs ran, in seconds, summed.';
comment on column treadle.minutes.ran_counts is 'How many of the completed jobs ran how long, in the same buckets.';
comment on column treadle.minutes.slowest_id is 'The completed job that ran for the longest time. It may have been deleted since.';

-- One row for each type and queue of which something finished. The windows of the charts read at most 100 spans of each:
-- a week of minutes would be 10,080.
create table treadle.spans (
    step          int not null,
    job_type      varchar(50) not null,
    queue         varchar(50) not null,
    at            timestamptz not null,
    completed     bigint not null,
    failed        bigint not null,
    cancelled     bigint not null,
    errors        bigint not null,
    waited        double precision not null,
    waited_most   double precision not null,
    waited_counts bigint[] not null,
    ran           double precision not null,
    ran_most      double precision not null,
    ran_counts    bigint[] not null,
    slowest_id    uuid,
    primary key (step, job_type, queue, at)
);

comment on table treadle.spans is 'The rows of minutes, with the same columns, summed over spans of step seconds: 300 for 7 hours, 900 for 25 hours, 7200 for 8 days. Workers add a span after it has ended.';
comment on column treadle.spans.at is 'When the span begins.';

create table treadle.totals (
    queue         varchar(50) not null,
    job_type      varchar(50) not null,
    completed     bigint not null,
    failed        bigint not null,
    cancelled     bigint not null,
    errors        bigint not null,
    waited        double precision not null,
    waited_counts bigint[] not null,
    ran           double precision not null,
    ran_counts    bigint[] not null,
    counted_at    timestamptz not null,
    primary key (queue, job_type)
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

comment on table treadle.totals is 'What has finished since the queue was created, by queue and type, as minutes counts it, with the same columns. For metrics: these numbers do not decrease. Those of a type of which nothing has finished for 30 days are deleted.';

create table treadle.meter (
    only_row  boolean primary key default true check (only_row),
    reached   timestamptz not null default clock_timestamp(),
    summed_to timestamptz
) with (fillfactor = 10);

comment on table treadle.meter is 'One row: up to when finished jobs are counted in minutes.';
comment on column treadle.meter.summed_to is 'Up to when spans has the sums of minutes. Null: none yet.';

insert into treadle.meter default values;

create table treadle.depths (
    status     varchar(20) not null,
    queue      varchar(50) not null,
    job_type   varchar(50) not null,
    priority   int not null,
    partition  varchar(500) collate "C" not null,
    starts_at  timestamptz not null,
    jobs       bigint,
    counted_at timestamptz not null,
    primary key (status, queue, job_type, priority, partition, starts_at)
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

comment on table treadle.depths is 'How many jobs there are in lanes that are too deep to be counted whenever somebody looks, and of each status of finished jobs, divided by time. See count_depths().';
comment on column treadle.depths.status is 'For finished jobs there is no lane: queue, type and partition are empty.';
comment on column treadle.depths.starts_at is 'The jobs from this time (run_at, or finished_at) to the next row are counted here.';
comment on column treadle.depths.jobs is 'Null: not counted yet.';

-- Until when count_depths() waits, in microseconds.
create sequence treadle.depth_clock minvalue 0 start 0 no cycle;

create table treadle.depth_history (
    minute   timestamptz not null,
    queue    varchar(50) not null,
    job_type varchar(50) not null,
    jobs     bigint not null,
    primary key (minute, queue, job_type)
);

comment on table treadle.depth_history is 'How many jobs waited at the beginning of each minute, by queue and type; in the row with empty names, all of them. A minute without that row was not counted.';


-- Error groups: failed attempts of one kind. See functions/public/group_errors.sql.

create table treadle.error_groups (
    id                int generated always as identity primary key,
    job_type          varchar(50) not null,
    exception         text not null,
    message           text not null,
    failures          bigint not null default 0,
    first_seen        timestamptz not null,
    last_seen         timestamptz not null,
    queues            varchar(50)[] not null default '{}',
    example_job       uuid,
    example_at        timestamptz,
    example_error     text,
    example_traceback text,
    muted_at          timestamptz,
    muted_by          text,
    muted_reason      text,
    muted_until       timestamptz,
    muted_versions    text[]
) with (
    fillfactor = 50,
    toast_tuple_target = 256, -- tracebacks are kept apart, so that a list of groups does not read them
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

comment on table treadle.error_groups is 'Failed attempts with the same job type, exception and message, apart from numbers, ids and the like in it. Workers count them a few seconds later. A group is deleted 30 days after its last error.';
comment on column treadle.error_groups.exception is 'The class of the exception. Empty: the handler raised none, as when it timed out or its process died.';
comment on column treadle.error_groups.message is 'What normalise_error() makes of the message; "(other messages)" for those beyond the number of groups that are kept.';
comment on column treadle.error_groups.failures is 'Failed attempts since first_seen, including those that were retried.';
comment on column treadle.error_groups.queues is 'The queues of these jobs: the first ten.';
comment on column treadle.error_groups.example_at is 'When the example failed: the newest one, but it is replaced every ten minutes at most.';
comment on column treadle.error_groups.muted_until is 'Null: until somebody ends it, or a version that is not in muted_versions fails.';

-- Serves the search for the group of an error, and the number of groups of a type or an exception.
create unique index idx_error_groups_message on treadle.error_groups (job_type, exception, message);

create table treadle.error_group_hours (
    group_id int not null,
    hour     timestamptz not null,
    failures bigint not null,
    primary key (group_id, hour)
) with (fillfactor = 70);

comment on table treadle.error_group_hours is 'How many attempts failed in each hour, by group. Kept for a week.';

-- Serves the deletion of old hours.
create index idx_error_group_hours_hour on treadle.error_group_hours (hour);

create table treadle.error_group_versions (
    group_id   int not null,
    version    text not null,
    failures   bigint not null,
    first_seen timestamptz not null,
    last_seen  timestamptz not null,
    primary key (group_id, version)
) with (fillfactor = 70);

comment on table treadle.error_group_versions is 'The versions of the application in which attempts of a group failed: the latest twenty.';

-- The key serves the search for the group of a failed attempt, and its removal with the job.
create table treadle.grouped_errors (
    job_id    uuid not null,
    failed_at timestamptz not null,
    group_id  int not null,
    primary key (job_id, failed_at)
);

comment on table treadle.grouped_errors is 'The rows of errors that were counted, with their group. Deleted with their job.';

-- Serves the jobs of a group, the latest first.
create index idx_grouped_errors_group on treadle.grouped_errors (group_id, failed_at, job_id);

create table treadle.error_meter (
    only_row     boolean primary key default true check (only_row),
    reached      timestamptz not null,
    late_reached timestamptz not null
) with (fillfactor = 10);

comment on table treadle.error_meter is 'One row: up to when failed attempts are counted in error_groups, and up to when those that were committed late are.';


-- The planner gets no statistics of the small tables that claims and ticks read: these tables change faster than anybody
-- analyzes them, and statistics of another state made claims read all dormant lanes. See decision 47. (Expressions in their
-- indexes have no statistics either: see there.)
do $$
declare
    c_tables constant regclass[] := array[
        'treadle.lanes', 'treadle.floors', 'treadle.ticks', 'treadle.pauses', 'treadle.limits', 'treadle.limit_targets',
        'treadle.limit_keys', 'treadle.limit_openings', 'treadle.limit_holders', 'treadle.unlisted_limits', 'treadle.unlisted_jobs',
        'treadle.type_settings', 'treadle.fair_weights', 'treadle.dependency_checks', 'treadle.wake_requests',
        'treadle.expiries', 'treadle.pruned', 'treadle.dependency_requests'
    ];
    v_column record;
begin
    for v_column in
        select attribute.attrelid::regclass as relation, attribute.attname as name
        from pg_attribute as attribute
        where attribute.attrelid = any (c_tables)
          and attribute.attnum > 0
    loop
        execute format('alter table %s alter column %I set statistics 0', v_column.relation, v_column.name);
    end loop;
end
$$;
