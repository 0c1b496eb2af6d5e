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
