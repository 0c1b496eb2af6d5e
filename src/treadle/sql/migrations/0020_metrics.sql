-- Histograms of waiting and run times, by minute and in total, and counters that never decrease, for metrics.
alter table treadle.minutes
    add column waited_counts bigint[],
    add column ran_counts bigint[];

comment on column treadle.minutes.waited_counts is 'How many of the completed jobs waited how long: one count for each bucket of time_buckets(), and one for longer times. Null: counted before these existed.';
comment on column treadle.minutes.ran_counts is 'How many of the completed jobs ran how long, in the same buckets.';

create table treadle.totals (
    queue         varchar(50) not null,
    job_type      varchar(50) not null,
    completed     bigint not null,
    failed        bigint not null,
    cancelled     bigint not null,
    errors        bigint not null,
    waited        double precision not null,
    ran           double precision not null,
    waited_counts bigint[] not null,
    ran_counts    bigint[] not null,
    counted_at    timestamptz not null,
    primary key (queue, job_type)
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

comment on table treadle.totals is 'What has finished since the queue was created, by queue and type, as treadle.minutes counts it. For metrics: these numbers do not decrease. Those of a type of which nothing has finished for 30 days are deleted.';
comment on column treadle.totals.errors is 'Failed attempts, including those that were retried.';
comment on column treadle.totals.waited is 'How long the completed jobs waited after they were due, in seconds, summed.';
comment on column treadle.totals.ran is 'How long the completed jobs ran, in seconds, summed.';
comment on column treadle.totals.waited_counts is 'How many of the completed jobs waited how long: one count for each bucket of time_buckets(), and one for longer times.';
comment on column treadle.totals.ran_counts is 'How many of the completed jobs ran how long, in the same buckets.';
