-- The planner inlines this function: a subquery with a limit, which it does not turn into a join that would read all jobs. And
-- only the primary key matches: see complete_jobs.sql.
create or replace function treadle.holds_slot(p_id uuid, p_lease bigint) returns boolean
language sql stable
as $$
    select coalesce((
        select true
        from treadle.jobs as job
        where job.id = p_id
          and job.lease = p_lease
          and job.status <> 'pending'
          and job.finished_at is null
        limit 1
    ), false)
$$;

comment on function treadle.holds_slot(uuid, bigint) is 'Whether a job is still claimed or running under this lease.';
