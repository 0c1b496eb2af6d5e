-- What a running job publishes, and what it keeps from one attempt to the next.

alter table treadle.jobs
    add column pace       jsonb,
    add column checkpoint jsonb,
    add column keeps      smallint not null default 0;

comment on column treadle.jobs.pace is 'What the handler counts: done, total, rate a second and seconds left.';
comment on column treadle.jobs.checkpoint is 'What the handler saved last; the next attempt finds it.';
comment on column treadle.jobs.keeps is 'What else there is of this job, as bits: 1 = events, 2 = log lines, 4 = steps. Says what to remove with it.';

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

comment on table treadle.events is 'What handlers told with job.event(), numbered per job. They go with their job.';
comment on column treadle.events.sequence is 'The how-manieth of its lease: what is written twice is found by it. Null if told by hand.';
comment on column treadle.events.phase is 'Its place among the transitions of its lease: see job_events().';
comment on column treadle.events.transaction is 'Who wrote it. A reader of all events goes no further than the oldest transaction that still runs, and so skips none.';

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

comment on table treadle.logs is 'What handlers logged: the first and the last lines of each job. They go with their job.';

create table treadle.steps (
    job_id   uuid not null,
    position int not null,
    name     varchar(200) not null,
    result   jsonb,
    lease    bigint not null,
    done_at  timestamptz not null default clock_timestamp(),
    primary key (job_id, position)
);

comment on table treadle.steps is 'Steps of jobs that are done and need not be done again, with what came of them. They go with their job.';

-- When each failed attempt began, and under which lease number.
alter table treadle.errors
    add column lease      bigint,
    add column started_at timestamptz;

-- Until when a session watches jobs, in microseconds since 1970.
create sequence treadle.watched minvalue 0 start 0 no cycle;

-- These are created again with other arguments or another name.
drop function if exists treadle.announce(uuid[]);
drop function if exists treadle.start_jobs(varchar, uuid[], bigint[], double precision[], int[], varchar[]);
drop trigger if exists drop_errors on treadle.jobs;
drop function if exists treadle.drop_errors();
