-- The tables of the queue. The rules are in ../functions, one file per function, together with the triggers and defaults
-- that call it. Comments in the database that read differently from those here were rewritten by later migrations.

create table treadle.jobs (
    -- the contract, column for column
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

    -- what the rest of the product needs besides
    queue         varchar(50) not null default 'default',
    run_at        timestamptz not null,
    lease         bigint not null default 0,
    holds         smallint not null default 0,
    crashes       int not null default 0,
    key           varchar(200),
    seen_at       timestamptz,
    finished_at   timestamptz,
    result        jsonb,

    constraint valid_status check (
        status in ('pending', 'claimed', 'running', 'completed', 'failed', 'cancelled')
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

comment on table treadle.jobs is 'One row a job, from enqueue until it is pruned.';
comment on column treadle.jobs.run_at is 'Not before this time; also the place in its lane. Left out on insert it follows created_at.';
comment on column treadle.jobs.lease is 'Grows by one with every claim and with nothing else: the number that fences a holder''s writes.';
comment on column treadle.jobs.holds is 'What a pending job waits for besides its time, as bits: 1 = an earlier job with the same key. Only 0 can be claimed.';
comment on column treadle.jobs.crashes is 'How often it was recovered from a holder that went silent.';
comment on column treadle.jobs.key is 'Jobs with the same key run one at a time, in the order they were enqueued.';
comment on column treadle.jobs.seen_at is 'The holder''s last sign of life through this job, if it gave any.';
comment on column treadle.jobs.finished_at is 'When it became completed, failed or cancelled.';

-- Serves claim_jobs: one bounded range per lane. The predicate is what the function is_claimable() becomes when the planner
-- inlines it. It is written out, because an index must not depend on a function that can be replaced.
create index idx_jobs_claimable on treadle.jobs (queue, job_type, priority desc, run_at)
    where status = 'pending' and holds = 0 and attempts < max_attempts;

-- Serves recover_stale_jobs and find_claimed_jobs.
create index idx_jobs_worker on treadle.jobs (worker_id)
    where status in ('claimed', 'running');

-- Serves prune_jobs, and the tick, which looks for busy lanes.
create index idx_jobs_finished on treadle.jobs (status, finished_at)
    where status in ('completed', 'failed', 'cancelled');

-- Serves order per key: the jobs of a key that run (0), wait for their turn (1) or are blocked (2), of each the oldest first.
-- The expression is what the function key_rank() becomes when the planner inlines it.
create index idx_jobs_key on treadle.jobs (key, (case status when 'pending' then 1 + (holds & 1) else 0 end), id)
    where key is not null and status in ('pending', 'claimed', 'running');

-- The last guard of order per key: whatever a statement does, two jobs of a key never run at once.
create unique index idx_jobs_key_running on treadle.jobs (key)
    where key is not null and status in ('claimed', 'running');

-- The lanes that exist. Transactions that add jobs to a lane only append rows, without a unique constraint: its check would
-- wait for open transactions of others. The tick merges rows of the same lane.
create table treadle.lanes (
    id        bigint generated always as identity primary key,
    queue     varchar(50) not null,
    job_type  varchar(50) not null,
    priority  int not null,
    opened_at timestamptz not null default clock_timestamp(),
    floor     timestamptz not null default '-infinity',
    settled   timestamptz not null default '-infinity',
    mark      timestamptz not null default '-infinity',
    mark_era  bigint not null default 0,
    close_era bigint
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 50,
    autovacuum_vacuum_cost_delay = 0
);

comment on table treadle.lanes is 'The queue, job type and priority combinations that hold or held jobs, with where a claim starts to look.';
comment on column treadle.lanes.floor is 'Claims look from here on, while the last tick is fresh: a hint.';
comment on column treadle.lanes.settled is 'Nothing claimable lies below this, now or later: a fact. Claims start here when the tick is stale.';
comment on column treadle.lanes.mark is 'Becomes settled once every transaction that could not see it has ended.';
comment on column treadle.lanes.mark_era is 'The horizon''s era in which mark was written.';
comment on column treadle.lanes.close_era is 'The era in which an unused lane was given notice; it is deleted two eras later unless a job came.';

create index idx_lanes_type on treadle.lanes (job_type, queue, priority);

-- One row. An era ends when every transaction with a lower number than its mark has ended.
create table treadle.horizon (
    only_row   boolean primary key default true check (only_row),
    era        bigint not null default 0,
    mark_xid   xid8 not null default '0',
    look_after timestamptz not null default '-infinity'
) with (fillfactor = 10);

comment on table treadle.horizon is 'How far the transactions that might still commit an older job have ended.';

comment on column treadle.horizon.look_after is 'When a tick may look at the held jobs again.';

insert into treadle.horizon default values;

-- When the last tick ran, in microseconds since 1970. A sequence has no row versions: it stays one page however long a
-- snapshot is open.
create sequence treadle.tick_clock minvalue 0 start 0 no cycle;

create table treadle.workers (
    worker_id  varchar(100) primary key,
    started_at timestamptz not null default clock_timestamp(),
    seen_at    timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

comment on table treadle.workers is 'Workers that send heartbeats: one row each, never a write per job.';
