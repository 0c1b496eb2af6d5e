-- Counts the jobs in statuses that are usually rare, up to 2,000 of each: a sample of the table could miss them.
select kind.status, counted.jobs, counted.jobs < 2000
from unnest(array['claimed', 'running']) as kind (status)
cross join lateral (
    select count(*) as jobs
    from (
        select
        from treadle.jobs as job
        where job.status in ('claimed', 'running')
          and job.status = kind.status
        limit 2000
    ) as few
) as counted
union all
select kind.status, counted.jobs, counted.jobs < 2000
from unnest(array['completed', 'failed', 'cancelled']) as kind (status)
cross join lateral (
    select count(*) as jobs
    from (
        select
        from treadle.jobs as job
        where job.status in ('completed', 'failed', 'cancelled')
          and job.status = kind.status
          and job.finished_at > '-infinity'
        limit 2000
    ) as few
) as counted
