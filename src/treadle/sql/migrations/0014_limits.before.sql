-- What 0014_limits.sql needs and would block claims for too long. Each statement is a transaction of its own, and the search
-- path of the second is not pinned: see preparation.py.

alter table treadle.jobs
    add column if not exists partition varchar(500) collate "C" not null default '';

create index concurrently if not exists idx_jobs_partition on treadle.jobs (queue, job_type, priority desc, partition, run_at)
    where status operator(pg_catalog.=) 'pending'
      and holds operator(pg_catalog.=) 0
      and attempts operator(pg_catalog.<) max_attempts;
