-- What the dashboard shows of many jobs: see decision 40.

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

-- Workers whose event loop does not run, and what became of the jobs of lost ones.
alter table treadle.workers
    add column stuck_since timestamptz,
    add column stuck_kind varchar(20),
    add column stuck_job uuid,
    add column stuck_job_type varchar(50),
    add column stuck_stack text,
    add column lost_because text,
    add column jobs_given_back int,
    add column jobs_failed int;

comment on column treadle.workers.stuck_since is 'When its event loop last ran, if that is some seconds ago although its lease is renewed. Null: it runs. See report_stuck().';
comment on column treadle.workers.stuck_kind is 'stopped: its process was stopped, by a signal or a debugger; blocked: something blocks its event loop.';
comment on column treadle.workers.stuck_job is 'The job that blocks its event loop, if it is known.';
comment on column treadle.workers.stuck_stack is 'Where its event loop is blocked, if it is known.';
comment on column treadle.workers.lost_because is 'Why it was declared lost.';
comment on column treadle.workers.jobs_given_back is 'How many of its jobs were pending again when it was lost.';
comment on column treadle.workers.jobs_failed is 'How many of its jobs ended when it was lost, because they have crashed too often or have no attempts left.';

-- The audit groups the rows of one act, such as a change of thousands of jobs, and refuses to carry one out twice.
alter table treadle.audit
    add column act uuid,
    add column begins boolean not null default true;

comment on column treadle.audit.act is 'The act that this row belongs to: a change of several jobs has one for all of them, also if it is made in several transactions. Null: the row is an act of its own.';
comment on column treadle.audit.begins is 'Whether this is the first row of its act. The audit page lists those.';

-- A form that is submitted twice is carried out once.
create unique index idx_audit_acts on treadle.audit (act) where begins and act is not null;
-- The newest acts.
create index idx_audit_begins on treadle.audit (id) where begins;
-- The rows of an act.
create index idx_audit_act on treadle.audit (act, id) where act is not null;

-- It has two more parameters.
drop function if exists treadle.operate(varchar, uuid[], text, text, int);

-- Groups of failed attempts: see functions/public/group_errors.sql.
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

-- Serves the search for the group of an error, and the number of groups of a type or an exception.
create unique index idx_error_groups_message on treadle.error_groups (job_type, exception, message);

comment on table treadle.error_groups is 'Failed attempts with the same job type, exception and message, apart from numbers, ids and the like in it. Workers count them a few seconds later. A group is deleted 30 days after its last error.';
comment on column treadle.error_groups.exception is 'The class of the exception. Empty: the handler raised none, as when it timed out or its process died.';
comment on column treadle.error_groups.message is 'What normalise_error() makes of the message; "(other messages)" for those beyond the number of groups that are kept.';
comment on column treadle.error_groups.failures is 'Failed attempts since first_seen, including those that were retried.';
comment on column treadle.error_groups.queues is 'The queues of these jobs: the first ten.';
comment on column treadle.error_groups.example_at is 'When the example failed: the newest one, but it is replaced every ten minutes at most.';
comment on column treadle.error_groups.muted_until is 'Null: until somebody ends it, or a version that is not in muted_versions fails.';

create table treadle.error_group_hours (
    group_id int not null,
    hour     timestamptz not null,
    failures bigint not null,
    primary key (group_id, hour)
) with (fillfactor = 70);

-- Serves the deletion of old hours.
create index idx_error_group_hours_hour on treadle.error_group_hours (hour);

comment on table treadle.error_group_hours is 'How many attempts failed in each hour, by group. Kept for a week.';

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

-- Serves the jobs of a group, the latest first.
create index idx_grouped_errors_group on treadle.grouped_errors (group_id, failed_at, job_id);

comment on table treadle.grouped_errors is 'The rows of treadle.errors that were counted, with their group. Deleted with their job.';

create table treadle.error_meter (
    only_row     boolean primary key default true check (only_row),
    reached      timestamptz not null,
    late_reached timestamptz not null
) with (fillfactor = 10);

comment on table treadle.error_meter is 'One row: up to when failed attempts are counted in error_groups, and up to when those that were committed late are.';

-- The failures of the last day are counted, a few thousand at a time.
insert into treadle.error_meter (reached, late_reached)
values (clock_timestamp() - interval '1 day', clock_timestamp());

create table treadle.worker_versions (
    worker_id     varchar(100) not null,
    registered_at timestamptz not null default clock_timestamp(),
    version       text not null,
    primary key (worker_id, registered_at)
);

comment on table treadle.worker_versions is 'The version of the application that a worker runs, if it has one. Kept for a week.';

-- Searches by time range, by digits of ids and by values in payloads have more parameters.
drop function if exists treadle.find_jobs(
    varchar, varchar, varchar, varchar, varchar, text, uuid, int, timestamptz, uuid, int, int, interval
);
drop function if exists treadle.find_claimable(
    varchar, varchar, varchar, text, boolean, timestamptz, int, timestamptz, uuid, int, int, timestamptz
);

-- For pages of types and queues: the minutes summed over longer spans, the slowest job of each, and when workers started.
alter table treadle.minutes
    add column slowest_id uuid;

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
    ran           double precision not null,
    ran_most      double precision not null,
    waited_counts bigint[] not null,
    ran_counts    bigint[] not null,
    slowest_id    uuid,
    primary key (step, job_type, queue, at)
);

comment on table treadle.spans is 'The rows of treadle.minutes, summed over spans of step seconds: 300 for 7 hours, 900 for 25 hours, 7200 for 8 days. Workers add a span after it has ended.';
comment on column treadle.spans.at is 'When the span begins.';
comment on column treadle.spans.errors is 'Failed attempts, including those that were retried.';
comment on column treadle.spans.waited_counts is 'How many of the completed jobs waited how long: one count for each bucket of time_buckets(), and one for longer times.';
comment on column treadle.spans.ran_counts is 'How many of the completed jobs ran how long, in the same buckets.';
comment on column treadle.spans.slowest_id is 'The completed job that ran for the longest time. It may have been deleted since.';

alter table treadle.meter
    add column summed_to timestamptz;

comment on column treadle.meter.summed_to is 'Up to when treadle.spans has the sums of treadle.minutes. Null: none yet.';

-- Serves the marks of charts.
create index idx_audit_queue on treadle.audit (id) where job_id is null;

create table treadle.worker_starts (
    minute  timestamptz not null,
    version text not null,
    workers int not null,
    primary key (minute, version)
);

comment on table treadle.worker_starts is 'How many workers started in which minute, for the marks of charts; kept for 8 days. Workers that ran for less than 5 minutes may be missing.';
