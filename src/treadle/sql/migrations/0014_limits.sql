-- Lanes get a fourth part, the partition: jobs of one type, queue and priority that share limits. See decision 31.

-- Both are made beforehand, without blocking claims: see 0014_limits.before.sql. In a new schema there is nothing to block.
alter table treadle.jobs
    add column if not exists partition varchar(200) collate "C" not null default '';

create index if not exists idx_jobs_partition on treadle.jobs (queue, job_type, priority desc, partition, run_at)
    where status = 'pending' and holds = 0 and attempts < max_attempts;

drop index treadle.idx_jobs_claimable;
alter index treadle.idx_jobs_partition rename to idx_jobs_claimable;
