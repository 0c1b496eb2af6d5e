-- What operators see and do: pauses, the audit of changes, and counts per minute.

create table treadle.pauses (
    job_type  varchar(50) not null default '',
    queue     varchar(50) not null default '',
    paused_at timestamptz not null default clock_timestamp(),
    paused_by text,
    reason    text,
    primary key (job_type, queue)
);

comment on table treadle.pauses is 'What is not claimed for now: a job type, a queue, a job type in a queue, or (both empty) everything.';
comment on column treadle.pauses.job_type is 'Empty: every type.';
comment on column treadle.pauses.queue is 'Empty: every queue.';

create table treadle.audit (
    id       bigint generated always as identity primary key,
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

comment on table treadle.audit is 'What operators changed, written in the transaction of the change. One row a job.';
comment on column treadle.audit.actor is 'Who, as the program that asked for it says.';
comment on column treadle.audit.db_user is 'The database user of that program, as PostgreSQL knows it.';
comment on column treadle.audit.details is 'What it was before, and what was asked.';

-- Serves the audit of one job.
create index idx_audit_job on treadle.audit (job_id) where job_id is not null;

create table treadle.minutes (
    minute       timestamptz not null,
    queue        varchar(50) not null,
    job_type     varchar(50) not null,
    completed    bigint not null default 0,
    failed       bigint not null default 0,
    cancelled    bigint not null default 0,
    errors       bigint not null default 0,
    waited       double precision not null default 0,
    waited_most  double precision not null default 0,
    ran          double precision not null default 0,
    ran_most     double precision not null default 0,
    primary key (minute, queue, job_type)
) with (fillfactor = 70);

comment on table treadle.minutes is 'What ended in each minute, for charts: counted by the workers a few seconds later, kept for a week.';
comment on column treadle.minutes.errors is 'Attempts that failed, those that were tried again included.';
comment on column treadle.minutes.waited is 'The seconds that the completed ones waited after they were due, added up.';
comment on column treadle.minutes.ran is 'The seconds that they ran, added up.';

create table treadle.meter (
    only_row boolean primary key default true check (only_row),
    reached  timestamptz not null default clock_timestamp()
) with (fillfactor = 10);

comment on table treadle.meter is 'Up to when ends were counted in minutes.';

insert into treadle.meter default values;

-- Serves find_jobs: the list of blocked jobs. (0006_names.sql renames it to idx_jobs_blocked.)
create index idx_jobs_held on treadle.jobs (id) where status = 'pending' and holds <> 0;

-- Serves count_minutes.
create index idx_errors_failed_at on treadle.errors (failed_at);


alter table treadle.workers
    add column version       text,
    add column process_types varchar(50)[],
    add column children      int;

comment on column treadle.workers.version is 'Of Treadle, as the worker has it.';
comment on column treadle.workers.process_types is 'Those of its job types that run in child processes: they have places of their own.';
comment on column treadle.workers.children is 'How many of those run at once; concurrency is for the others.';

-- Created again with more arguments.
drop function if exists treadle.register_worker(varchar, interval, varchar[], varchar[], int, text, int);
