-- What a worker process needs: a lease, the errors of all attempts, and notifications.

-- A supervised worker has a lease; one that sends heartbeats by hand has none.
alter table treadle.workers
    add column lease       interval,
    add column lost_at     timestamptz,
    add column job_types   varchar(50)[],
    add column queues      varchar(50)[],
    add column concurrency int,
    add column host        text,
    add column pid         int;

comment on column treadle.workers.lease is 'How long it may be silent before its jobs are given to others; null for heartbeats by hand.';
comment on column treadle.workers.lost_at is 'When it was given up. It keeps its row for a day, so that a claim of it that arrives late is found.';

-- Every failed attempt. last_error in jobs is the newest of them.
create table treadle.errors (
    job_id    uuid not null,
    attempt   int not null,
    failed_at timestamptz not null default clock_timestamp(),
    worker_id varchar(100),
    error     text not null,
    traceback text
);

comment on table treadle.errors is 'Each failed attempt of a job: when, on which worker, and why. They go with their job.';

-- Serves "the errors of this job", and their removal with it.
create index idx_errors_job on treadle.errors (job_id);

-- Of the unfinished jobs of a type, at most one has a given unique key. A job without one is not in this index.
alter table treadle.jobs
    add column unique_key varchar(200);

comment on column treadle.jobs.unique_key is 'While this job has not ended, no other of its type with the same text is added.';

create unique index idx_jobs_unique on treadle.jobs (unique_key, job_type)
    where unique_key is not null and status in ('pending', 'claimed', 'running');

-- When idle workers were last notified; see 0006_names.sql, which replaces it.
create sequence treadle.bell minvalue 0 start 0 no cycle;

-- Until when a session waits for jobs to finish, in microseconds since 1970.
create sequence treadle.awaited minvalue 0 start 0 no cycle;

-- These come back with more arguments.
drop function if exists treadle.complete_jobs(uuid[], bigint[], varchar[], text[]);
drop function if exists treadle.fail_job(uuid, text, interval, boolean, bigint, varchar);
