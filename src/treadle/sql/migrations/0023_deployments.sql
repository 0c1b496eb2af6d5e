-- The charts mark where a version of the application was first seen. worker_versions cannot tell: it is kept for a week.
create table treadle.deployments (
    version    text primary key,
    first_seen timestamptz not null default clock_timestamp()
);

-- Serves the marks of charts, and the deletion of old rows.
create index idx_deployments_first_seen on treadle.deployments (first_seen);

comment on table treadle.deployments is 'When the first worker with a version of the application was started. Kept for 30 days, and as long as such a worker runs.';

insert into treadle.deployments (version, first_seen)
select known.version, min(known.registered_at)
from treadle.worker_versions as known
group by known.version;
