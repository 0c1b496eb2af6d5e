-- Jobs that wait for others: decision 33 says how.
create table treadle.dependencies (
    job_id     uuid not null,
    after_id   uuid not null,
    needs      varchar(20) not null default 'completed' check (needs in ('completed', 'ended', 'member')),
    watched    boolean not null default false,
    stopped    boolean not null default false,
    arguments  varchar(100)[],
    nth        int,
    step       varchar(100),
    primary key (job_id, after_id)
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);

create index idx_dependencies_after on treadle.dependencies (after_id, job_id);
create index idx_dependencies_stopped on treadle.dependencies (job_id, after_id) where stopped;
create index idx_dependencies_watched on treadle.dependencies (after_id, job_id) where watched;

comment on table treadle.dependencies is 'Which jobs wait for which others (using(after=…)). Kept until the job that waits is deleted.';
comment on column treadle.dependencies.job_id is 'The job that waits.';
comment on column treadle.dependencies.after_id is 'The job that it waits for.';
comment on column treadle.dependencies.needs is 'What that job has to be: completed; ended, then it may also have failed, or was cancelled or deleted; or a member, then the job that waits is a workflow, and fails if this one does not complete.';
comment on column treadle.dependencies.watched is 'The end of that job is, or was, noticed. Of all jobs that a job waits for, one is watched at a time.';
comment on column treadle.dependencies.stopped is 'This one did not complete, and so the job was cancelled, or the workflow fails. If this one is retried, the other waits again.';
comment on column treadle.dependencies.arguments is 'The arguments of the job that get the result of the other.';
comment on column treadle.dependencies.nth is 'The argument is a list, and this is the place of the result in it. Null: the argument is the result.';
comment on column treadle.dependencies.step is 'What the workflow calls this job.';

create table treadle.dependency_checks (
    id       bigint generated always as identity primary key,
    noted_at timestamptz not null,
    jobs     uuid[] not null,
    ended    boolean not null,
    past     uuid,
    later    boolean not null default false
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

create index idx_dependency_checks_noted on treadle.dependency_checks (noted_at);

comment on table treadle.dependency_checks is 'Jobs that were enqueued to wait, or have ended, or were retried: at commit, what this means for jobs that wait is decided. What could not be decided then stays here, for the next claim or tick.';
comment on column treadle.dependency_checks.ended is 'These have ended, or were retried, and others may wait for them. False: these wait for others.';
comment on column treadle.dependency_checks.past is 'Those that they wait for have ended up to this one; or, if they have ended, those that wait for them were looked at up to this one. Null: none is known.';
comment on column treadle.dependency_checks.later is 'Not at commit: another transaction has to end first.';

comment on column treadle.jobs.holds is 'What a pending job waits for besides its time, as bits: 1 = an earlier job with the same key, 2 = other jobs (dependencies). 0: nothing.';
comment on column treadle.jobs.keeps is 'What else is stored for this job, as bits: 1 = events, 2 = log lines, 4 = steps, 8 = it was claimed under a limit, 16 = its end is watched by jobs that wait for it, 32 = it has dependencies, 64 = it takes results of other jobs, 128 = it is a workflow. It is deleted with the job.';

-- They have another parameter.
drop function if exists treadle.enqueue_with_options(varchar, text[], varchar[], varchar, interval, int, varchar[], interval, boolean, interval, timestamptz, int, varchar, timestamptz, interval, varchar[], int, text[], int);
