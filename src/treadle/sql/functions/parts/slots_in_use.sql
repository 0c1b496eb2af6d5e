-- Those of the listed jobs that are still claimed or running under the same lease. The planner inlines this
-- function. The limit of 1 keeps it from turning the subquery into a join that would read all jobs; and only the
-- primary key matches: see complete_jobs.sql.
create or replace function treadle.slots_in_use(p_jobs uuid[], p_leases bigint[], p_weights int[])
returns table (id uuid, lease bigint, weight int)
language sql stable
as $$
    select held.id, held.lease, held.weight
    from unnest(p_jobs, p_leases, p_weights) as held (id, lease, weight)
    cross join lateral (
        select
        from treadle.jobs as job
        where job.id = held.id
          and job.lease = held.lease
          and job.status <> 'pending'
          and job.finished_at is null
        limit 1
    ) as running
$$;
