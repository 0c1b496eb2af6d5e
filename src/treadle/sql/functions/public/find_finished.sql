-- Those of the jobs that have finished or no longer exist.
create or replace function treadle.find_finished(p_ids uuid[]) returns setof uuid
language plpgsql
set treadle.plan = nested_loops
as $$
begin
    return query
    select wanted.id
    from unnest(p_ids) as wanted (id)
    left join treadle.jobs as job on job.id = wanted.id
    where job.id is null
       or job.status in ('completed', 'failed', 'cancelled');
end
$$;
