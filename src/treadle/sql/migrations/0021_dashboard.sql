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
    muted_versions    text[],
    -- Serves the search for the group of an error, and the number of groups of a type or an exception.
    unique (job_type, exception, message)
) with (
    fillfactor = 50,
    toast_tuple_target = 256, -- tracebacks are kept apart, so that a list of groups does not read them
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

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
