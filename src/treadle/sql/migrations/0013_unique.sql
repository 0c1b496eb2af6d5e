-- Unique jobs in more ways, and jobs that expire. See decision 30.

-- Both are null for most jobs. Adding them rewrites nothing.
alter table treadle.jobs
    add column unique_while varchar(10),
    add column expires_at timestamptz;

comment on column treadle.jobs.unique_key is 'While this job is unfinished (or pending: see unique_while), no other job of its type with the same unique key is added.';
comment on column treadle.jobs.unique_while is '"pending": a claim removes the unique key. Null: the job has it until it is finished.';
comment on column treadle.jobs.expires_at is 'If no worker has claimed the job by then, it is cancelled. A claim sets it to null.';

-- When to look at jobs that expire. Not an index of jobs: building one would take too long while the table is locked.
create table treadle.expiries (
    look_at timestamptz not null,
    job_id  uuid not null,
    primary key (look_at, job_id)
);

comment on table treadle.expiries is 'When to look whether a job has expired.';

-- Which jobs were enqueued lately under a unique key that is limited to so many jobs per period.
create table treadle.unique_periods (
    job_type   varchar(50) not null,
    unique_key varchar(200) not null,
    slot       int not null,
    job_id     uuid,
    taken_at   timestamptz not null default '-infinity',
    ends_at    timestamptz not null default '-infinity',
    primary key (job_type, unique_key, slot)
);

create index idx_unique_periods_end on treadle.unique_periods (ends_at);

comment on table treadle.unique_periods is 'For unique keys with a limit per period: one row for each job that may be enqueued per period.';
comment on column treadle.unique_periods.job_id is 'The last job that was enqueued in this place.';
comment on column treadle.unique_periods.taken_at is 'When it was enqueued.';
comment on column treadle.unique_periods.ends_at is 'When this row is no longer needed.';

-- It has other parameters.
drop function if exists treadle.find_due_schedules(varchar[], int);
