-- Workflows count their jobs: decision 34 says how.
create table treadle.workflows (
    id         uuid primary key,
    is_open    boolean not null default false,
    plan       jsonb,
    has_plan   boolean not null generated always as (plan is not null) stored,
    jobs       int not null default 0,
    completed  int not null default 0,
    failed     int not null default 0,
    cancelled  int not null default 0,
    work       bigint not null default 0,
    done       bigint not null default 0
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
comment on column treadle.workflows.jobs is 'How many jobs it has.';
comment on column treadle.workflows.completed is 'How many have completed, or were not needed.';
comment on column treadle.workflows.cancelled is 'How many were cancelled, or deleted before they ended.';
comment on column treadle.workflows.work is 'The efforts of its jobs, for its progress.';
comment on column treadle.workflows.done is 'The efforts of those that have ended.';

create index idx_workflows_open on treadle.workflows (id) where is_open;

create table treadle.member_changes (
    id           bigint generated always as identity primary key,
    workflow_id  uuid not null,
    noted_at     timestamptz not null,
    jobs         int not null,
    completed    int not null,
    failed       int not null,
    cancelled    int not null,
    work         bigint not null,
    done         bigint not null
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0
);

create index idx_member_changes_workflow on treadle.member_changes (workflow_id, noted_at);
create index idx_member_changes_noted on treadle.member_changes (noted_at);

comment on table treadle.member_changes is 'By how much the counts of a workflow change: a row for each job that was added, has ended or was retried. A tick adds them up, so that no row is updated by every job.';

alter table treadle.dependencies
    add column effort int not null default 1,
    drop constraint dependencies_needs_check,
    add constraint dependencies_needs_check check (needs in ('completed', 'ended', 'failed', 'member'));

comment on column treadle.dependencies.needs is 'What that job has to be: completed; ended, then it may also have failed, or was cancelled or deleted; failed, then it must not have completed; or a member, then the job that waits is a workflow, and fails if this one does not complete.';
comment on column treadle.dependencies.effort is 'Of a member: how much of the work of the workflow it is.';
comment on column treadle.jobs.holds is 'What a pending job waits for besides its time, as bits: 1 = an earlier job with the same key, 2 = other jobs (dependencies), 4 = a signal. 0: nothing.';
comment on column treadle.jobs.keeps is 'What else is stored for this job, as bits: 1 = events, 2 = log lines, 4 = steps, 8 = it was claimed under a limit, 16 = its end is watched by jobs that wait for it, 32 = it has dependencies, 64 = it takes results of other jobs, 128 = it is a workflow, 256 = it is part of a workflow, 512 = it was cancelled because it was not needed, 1024 = it waits for a signal, 2048 = inverted by a statement that counts its end. What is stored is deleted with the job.';

insert into treadle.workflows (id, jobs, completed, failed, cancelled, work, done)
select
    edge.job_id,
    count(*),
    count(*) filter (where job.status = 'completed'),
    count(*) filter (where job.status = 'failed'),
    count(*) filter (where job.status = 'cancelled' or job.id is null),
    count(*),
    count(*) filter (where job.finished_at is not null or job.id is null)
from treadle.dependencies as edge
left join treadle.jobs as job on job.id = edge.after_id
where edge.needs = 'member'
group by edge.job_id;

update treadle.jobs as job
set keeps = job.keeps | 256::smallint
from treadle.dependencies as edge
where edge.after_id = job.id
  and edge.needs = 'member';

alter table treadle.dependency_checks
    add column look_at timestamptz not null default clock_timestamp(),
    add column error text;

create index idx_dependency_checks_look on treadle.dependency_checks (look_at);

comment on column treadle.dependency_checks.look_at is 'Not before. What could not be decided is looked at after all others.';
comment on column treadle.dependency_checks.error is 'Why it could not be decided: it is tried again later.';

-- They have other parameters.
drop function if exists treadle.enqueue_with_options(varchar, text[], varchar[], varchar, interval, int, varchar[], interval, boolean, interval, timestamptz, int, varchar, timestamptz, interval, varchar[], int, text[], int, jsonb);
drop function if exists treadle.enqueue_workflow(varchar, jsonb);
