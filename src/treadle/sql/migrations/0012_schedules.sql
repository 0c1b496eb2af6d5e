-- Schedules: what is enqueued again and again, and which of its times were dealt with. See decision 29.

alter table treadle.jobs add column origin jsonb;

comment on column treadle.jobs.origin is 'Where the job comes from, if a schedule enqueued it: the schedule, the time for which it was enqueued, and the time before that.';

create table treadle.schedules (
    name           varchar(100) primary key,
    job_type       varchar(50) not null,
    data           jsonb not null default '{}',
    priority       int not null default 100,
    queue          varchar(50) not null default 'default',
    max_attempts   int not null default 3,
    key            varchar(200),
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
    next_at        timestamptz,
    last_at        timestamptz,
    last_job       uuid,
    error          text,
    retry_at       timestamptz,
    paused_at      timestamptz,
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

-- What is due, or has no time yet, comes first.
create index idx_schedules_next on treadle.schedules (next_at nulls first) where paused_at is null and retired_at is null;

comment on table treadle.schedules is 'What is enqueued again and again. Workers compute the times and enqueue the jobs.';
comment on column treadle.schedules.expression is 'Cron with five or six fields, @hourly and the like, or "every 90s".';
comment on column treadle.schedules.clocks_forward is 'What happens at a local time that does not exist because clocks are set forward: run_late or skip.';
comment on column treadle.schedules.clocks_back is 'What happens at a local time that comes twice because clocks are set back: run_once or run_twice.';
comment on column treadle.schedules.missed is 'What is enqueued after nobody could enqueue for some time: skip (nothing), latest, or all (up to missed_limit).';
comment on column treadle.schedules.overlap is 'What happens while the job of the time before has not finished: allow, skip, or wait (one after the other).';
comment on column treadle.schedules.jitter is 'The job is due up to this much later, at random.';
comment on column treadle.schedules.next_at is 'The next time; null until a worker has computed it, infinity if there is none.';
comment on column treadle.schedules.last_at is 'The last time for which a job was enqueued.';
comment on column treadle.schedules.error is 'Why the last try to compute or enqueue failed.';
comment on column treadle.schedules.retry_at is 'When to try again after an error.';
comment on column treadle.schedules.digest is 'Of the declaration in code that is in force; null: added at run time.';
comment on column treadle.schedules.former_digests is 'Of declarations that a later one has replaced.';
comment on column treadle.schedules.declared_at is 'When a worker last declared it.';
comment on column treadle.schedules.retired_at is 'When it was found that no worker declares it any longer.';

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

create index idx_occurrences_decided on treadle.occurrences (decided_at);

comment on table treadle.occurrences is 'The times of schedules, and the jobs that were enqueued for them.';
comment on column treadle.occurrences.skipped is 'Why no job was enqueued: missed or overlap.';

-- It returns one column more.
drop function if exists treadle.claim_work(varchar, varchar[], int, varchar[]);
