-- Lanes get a fourth part, the partition: jobs of one type, queue and priority that share limits. See decision 31.

-- Both are made beforehand, without blocking claims: see 0014_limits.before.sql. In a new schema there is nothing to block.
alter table treadle.jobs
    add column if not exists partition varchar(500) collate "C" not null default '';

create index if not exists idx_jobs_partition on treadle.jobs (queue, job_type, priority desc, partition, run_at)
    where status = 'pending' and holds = 0 and attempts < max_attempts;

drop index treadle.idx_jobs_claimable;
alter index treadle.idx_jobs_partition rename to idx_jobs_claimable;

alter type treadle.lane add attribute partition varchar collate "C";

alter table treadle.lanes
    add column partition varchar(500) collate "C" not null default '';

drop index treadle.idx_lanes_type;
create index idx_lanes_type on treadle.lanes (job_type, queue, priority, partition);

alter table treadle.floors
    add column partition varchar(500) collate "C" not null default '';

drop index treadle.idx_floors_lane;
create index idx_floors_lane on treadle.floors (job_type, queue, priority, partition, xid desc);

comment on table treadle.lanes is 'The lanes (queue, job type, priority, partition) that have or had jobs. A lane is listed more than once until the next tick.';

-- They have other parameters.
drop function if exists treadle.is_in_lane(varchar, varchar, int, treadle.lane);
drop function if exists treadle.claim_lanes(varchar, timestamptz, xid[], int, int, varchar[], varchar[], timestamptz[]);
drop function if exists treadle.raise_floors(timestamptz, xid[], int, varchar[], varchar[], timestamptz[]);
drop function if exists treadle.next_lanes(varchar[], varchar[], treadle.ticks, bigint, int, bigint, int, bigint);
drop function if exists treadle.next_lane(treadle.lane, xid[]);
drop function if exists treadle.insert_jobs(treadle.jobs, text[], varchar[], int[]);

alter table treadle.jobs
    add column weight int,
    add constraint valid_partition check (partition = '' or jsonb_typeof(partition::jsonb) = 'object') not valid;

comment on column treadle.jobs.partition is 'The values that limits and fairness tell jobs apart by, as a JSON object ({"tenant": "acme"}); empty for most. Jobs of different partitions are in different lanes.';
comment on column treadle.jobs.weight is 'How much of each of its limits the job uses. Null: 1.';
comment on column treadle.jobs.keeps is 'What else is stored for this job, as bits: 1 = events, 2 = log lines, 4 = steps, 8 = it was claimed under a limit. It is deleted with the job.';

-- A lane whose jobs wait for a limit is parked: claims do not search it. See decision 31.
alter table treadle.lanes
    add column parked_name varchar(100),
    add column parked_key varchar(200) collate "C",
    add column parked_at timestamptz;

comment on column treadle.lanes.parked_name is 'The limit that the jobs of this lane wait for. Claims do not search the lane, unless the limit may have room: see limit_openings.';
comment on column treadle.lanes.parked_key is 'And the value of its "per".';
comment on column treadle.lanes.parked_at is 'When it was parked last.';

drop index treadle.idx_lanes_active;
drop index treadle.idx_lanes_active_queue;
create index idx_lanes_active on treadle.lanes (job_type, priority desc, (id + 0))
    where idle_xid is null and parked_name is null;
create index idx_lanes_active_queue on treadle.lanes (job_type, queue, priority desc, (id + 0))
    where idle_xid is null and parked_name is null;
create index idx_lanes_listed on treadle.lanes (id) where idle_xid is null;
create index idx_lanes_parked_id on treadle.lanes (id) where parked_name is not null;
create index idx_lanes_parked_at on treadle.lanes (parked_at) where parked_name is not null;
create index idx_lanes_parked on treadle.lanes (parked_name, parked_key, job_type, priority desc, (id + 0))
    where parked_name is not null;

create table treadle.limits (
    name           varchar(100) primary key,
    per            varchar(50) not null default '',
    amount         int check (amount >= 0),
    period         interval check (period > '0'),
    burst          int check (burst >= 1),
    fair           boolean not null default false,
    declared       jsonb,
    digest         varchar,
    former_digests varchar[] not null default '{}',
    declared_at    timestamptz,
    changed_by     text,
    changed_at     timestamptz
);

comment on table treadle.limits is 'How many jobs may run at once, or start per period.';
comment on column treadle.limits.per is 'Each value of this part of the partition has the limit for itself. Empty: all jobs have it together.';
comment on column treadle.limits.amount is 'How many at once, or per period. 0: none. Null: not limited.';
comment on column treadle.limits.period is 'Null: the limit is for jobs that run at once.';
comment on column treadle.limits.burst is 'How many may start at once after a quiet time, if there is a period. 1: evenly spaced.';
comment on column treadle.limits.fair is 'Not a limit: the values of "per" take turns, or if that is empty, the job types.';
comment on column treadle.limits.declared is 'Amount, period and burst as the code declares them. Null: not declared in code.';
comment on column treadle.limits.changed_by is 'Who changed the values at run time: then they stay when the code declares others. Null: nobody.';

create table treadle.limit_targets (
    job_type    varchar(50) not null default '',
    queue       varchar(50) not null default '',
    name        varchar(100) not null,
    declared_at timestamptz,
    primary key (job_type, queue, name)
);

comment on table treadle.limit_targets is 'Which jobs a limit is for. Empty: all job types, all queues.';

-- The row that a claim locks while it uses a limit.
create table treadle.limit_keys (
    name   varchar(100) not null,
    key    varchar(200) collate "C" not null,
    amount int check (amount >= 0),
    changed_by text,
    changed_at timestamptz,
    primary key (name, key)
);

comment on table treadle.limit_keys is 'The values of "per" that are or were in use, one row with an empty key for limits without.';
comment on column treadle.limit_keys.amount is 'The limit for this value only, or how many turns it gets, if the values take turns. Null: as for the others.';

-- For find_limits().
create index idx_limit_keys_changed on treadle.limit_keys (name, key) where changed_by is not null;

-- Rows are only added and deleted, and the newest is read first: rows that an open snapshot keeps from being removed are not
-- in the way.
create table treadle.limit_holders (
    name    varchar(100) not null,
    key     varchar(200) collate "C" not null,
    version bigint not null,
    jobs    uuid[] not null default '{}',
    leases  bigint[] not null default '{}',
    weights int[] not null default '{}',
    weight  bigint not null default 0,
    found   int not null default 0,
    full_at timestamptz not null default '-infinity',
    closed_until timestamptz not null default '-infinity',
    primary key (name, key, version)
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

comment on table treadle.limit_holders is 'Which jobs use a limit. Only the newest row counts, and of its jobs only those that are still claimed or running under that lease.';
comment on column treadle.limit_holders.weight is 'The sum of the weights.';
comment on column treadle.limit_holders.found is 'How many of the jobs still used the limit when that was last checked.';
comment on column treadle.limit_holders.full_at is 'For a limit per period: when all of its burst can be used again.';
comment on column treadle.limit_holders.closed_until is 'A job was told to wait until then.';

-- Whose turn it is next.
create sequence treadle.fair_turns cycle;

create table treadle.limit_openings (
    opens_at timestamptz not null,
    id       bigint generated always as identity,
    name     varchar(100) not null,
    key      varchar(200) collate "C" not null,
    primary key (opens_at, id)
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

create index idx_limit_openings_key on treadle.limit_openings (name, key, opens_at);

comment on table treadle.limit_openings is 'When a limit that lanes are parked for may have room.';

-- They have other parameters.
drop function if exists treadle.enqueue(varchar, jsonb, int, varchar, timestamptz, interval, varchar, int);
drop function if exists treadle.enqueue_jobs(varchar, text[], int, varchar, timestamptz, interval, varchar[], int);
drop function if exists treadle.settle_jobs(varchar, uuid[], bigint[], varchar[], text[], text[], double precision[], double precision[], int);
drop function if exists treadle.mark_claimed(varchar, timestamptz, tid[], boolean);
drop function if exists treadle.insert_jobs(treadle.jobs, text[], varchar[], int[], varchar[]);
drop function if exists treadle.enqueue_per_period(treadle.jobs, text[], varchar[], varchar[], interval, int);
drop function if exists treadle.enqueue_unless_exists(treadle.jobs, text[], varchar[], varchar[], varchar[], interval);
drop function if exists treadle.enqueue_with_options(varchar, text[], varchar[], varchar, interval, int, varchar[], interval, boolean, interval, timestamptz, int, varchar, timestamptz, interval, varchar[], int);
